"""Putting jobs back: failed ones, expired ones, or ones that are named, within their attempt limits.

A job is judged under its row lock, so one that was finished or extended in the meantime keeps its new state. A
job whose attempts have reached the limit is not put back: an expired one becomes failed, a failed one stays.
"""
