"""Punctuations: how far event time has come, by each estimator, and which rows leave.

`controller` steers; `state` names what is kept for each key.
Open to the operators of disorder.
"""
