"""Missing values as distributions: donors, the choice of dependencies, values, earlier values.

Open to the operators of imputation.
"""
