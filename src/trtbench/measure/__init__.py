"""One run, from the request to its directory in the store. Does not know that runs are compared."""
