"""What is asked for: settings, specs, how a job is carried out, progress.

Does not know how anything is measured.
"""
