"""The values that all other packages use, and what is declared once about them.

Knows errors, units, properties of runs, metrics and conditions; does not know how anything is
measured, stored or shown.
"""
