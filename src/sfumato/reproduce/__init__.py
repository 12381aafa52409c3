"""The papers' figures and tables, measured again: claim, numbers, chart and verdict.

Needs the extra `reproduce` (Altair). No Spark: the figures are about the algorithms.
"""
