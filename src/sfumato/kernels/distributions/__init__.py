"""Distributions of uncertain values: counts, sums, extremes, quantiles and sampled worlds.

Windows, joins and rankings share these distributions.
May be imported by all kernels and by the operators of the same distributions.
"""
