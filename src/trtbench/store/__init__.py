"""Run directories, which hold the data, and an index over them, which can be rebuilt.

Does not know analysis: the caller computes what the index caches about a run.
"""
