"""All access to the machine: processes, locks, NVML, CUDA, files of arrays, the environment.

Does not know models or reports.
"""
