"""Laws of uncertain values: counts, sums, extremes, quantiles and sampled worlds.

The common stock that windows, joins and rankings draw on.
Open to all kernels and to the operators of the same laws.
"""
