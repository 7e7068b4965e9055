"""Where jobs run: in a child process on this machine; the folder is the registry.

An executor does not know what a job measures: a job is a JSON value in, a folder out.
"""
