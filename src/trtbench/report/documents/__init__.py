"""The result of every verb as a document: one file per verb, values in, a document out.

Knows results as values; not who made them, where they are kept, or how documents are drawn.
"""
