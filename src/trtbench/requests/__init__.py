"""The requests of the verbs, the settings, and how the work is executed.

Knows runtimes and builders by their contracts; knows no verb and no screen.
"""
