"""Missing values as distributions: donors, the choice of dependencies, values, earlier values.

Open to the operators of imputation and to the join of incomplete streams.
"""
