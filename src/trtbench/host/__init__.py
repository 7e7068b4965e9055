"""All access to the machine: processes, locks, NVML, files of arrays, the environment.

Does not know models or reports.
"""
