"""What ``trtbench import`` does, step by step: find, look, match, make, keep.

Knows files and their meaning; not the command line.
"""
