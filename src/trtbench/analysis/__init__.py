"""Statistics, verdicts and findings: pure functions that reach no file, process or GPU."""
