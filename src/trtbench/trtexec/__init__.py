"""The language of trtexec, spoken (specs to argument lists) and understood (its files and logs).

Does not know how processes are run, nor where files are stored.
"""
