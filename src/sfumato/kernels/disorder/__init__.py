"""Punctuations: estimates of the progress of event time, and the release of rows.

`controller` processes arrivals; `state` defines the state per controller.
May be imported by the operators of disorder.
"""
