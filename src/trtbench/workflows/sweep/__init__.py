"""Many cases from one matrix, resumable from their folder.

Does not know the command line.
"""
