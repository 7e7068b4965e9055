"""Functions that several verbs share: progress goes to a callback, and results are returned."""
