"""Run directories, which are the truth, and an index over them, which can be made again.

Does not know analysis: what the index caches about a run is handed to it.
"""
