"""What is asked for: the requests of the verbs, settings, and how the work is carried out.

Knows runtimes and builders by their contracts; knows no verb and no screen.
"""
