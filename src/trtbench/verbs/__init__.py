"""The verbs, one per file: the request of each, what it does, what it shows.

Knows workflows and documents; does not know how a command line is read.
"""
