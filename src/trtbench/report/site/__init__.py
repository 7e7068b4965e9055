"""A static web site over many runs: pages made once, data beside them, everything else in the page.

Knows what pages need; not where runs are kept.
"""
