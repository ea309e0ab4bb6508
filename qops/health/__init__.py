"""One reading of a queue: what there is, how old it is, what stands in the way, and what to do about it."""
