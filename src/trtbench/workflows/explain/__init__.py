"""Where the time goes and why: layers of runs and files, engines against each other, ladders.

Knows runs, files and the store; what is concluded from them is in ``analysis.layers``.
"""
