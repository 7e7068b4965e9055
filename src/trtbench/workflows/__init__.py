"""Functions that several verbs share, for the command line and the Python API.

Does not know the command line: progress goes to a callback, and results are returned.
"""
