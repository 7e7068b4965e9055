"""Engines as pictures: SVG with zoom, search and rows to click, for a page or on its own.

Knows layers and places; not how they were found.
"""
