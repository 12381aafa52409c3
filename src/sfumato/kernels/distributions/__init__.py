"""Distributions of uncertain values: counts, sums, extremes, quantiles and sampled worlds.

Shared by windows, joins and rankings.
May be imported by all kernels and by the operators of the same distributions.
"""
