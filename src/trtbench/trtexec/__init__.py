"""Writes command lines for trtexec, and reads its logs and exported files.

Does not know how processes are run, nor where files are stored.
"""
