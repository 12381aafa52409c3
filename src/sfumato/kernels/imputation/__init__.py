"""Missing values as distributions: donors, the choice of dependencies, values, earlier values.

May be imported by the operators of imputation.
"""
