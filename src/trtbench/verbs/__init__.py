"""The verbs, one per file: what each is asked for, what it does, what it shows.

Knows workflows and documents; does not know how a command line is read.
"""
