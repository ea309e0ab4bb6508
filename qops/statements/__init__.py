"""A queue's statements, made from its mapping; executes nothing.

Every transition repeats what it relies on (state, lease, owner) or is given ids that the caller holds locked.
Times come from the server's clock. Intervals are whole microseconds.
"""
