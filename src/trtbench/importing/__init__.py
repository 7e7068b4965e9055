"""The steps of ``trtbench import``: find files, read them, group them, make runs, store them.

Knows files and their meaning; not the command line.
"""
