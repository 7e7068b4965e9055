"""Outputs and answers: checks of one side against another, evaluations on data.

Does not know verdicts on time.
"""
