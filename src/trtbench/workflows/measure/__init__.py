"""One run, from the ask to the folder in the store.

Does not know that runs are compared.
"""
