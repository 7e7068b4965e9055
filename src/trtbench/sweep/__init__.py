"""Many measurements from one matrix: planned, carried out in rounds, resumable after any end.

Does not know the command line.
"""
