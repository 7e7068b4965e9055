"""What is made of stored runs: lists, reports, sites, histories, exports.

Measures nothing and does not know imports.
"""
