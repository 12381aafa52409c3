"""Punctuations: the progress of event time by each estimator, and the rows that are released.

`controller` steers; `state` defines the state kept per controller.
May be imported by the operators of disorder.
"""
