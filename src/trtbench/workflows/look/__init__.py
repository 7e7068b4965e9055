"""What is there: files, engines, records, this machine.

Measures nothing and does not know stores of runs.
"""
