"""Use cases as plain functions: what the command line does, a Python user can do too.

Does not know the command line; talk goes to a callback, results are returned.
"""
