"""Deleting what is past its retention: archived jobs by their finish time, and old entries of the ledger.

Without an age no job is deleted. The ledger's own retention is fixed: 90 days, and a day for runs that found nothing
to do; the latest finished and the latest successful run of each command stay.
"""
