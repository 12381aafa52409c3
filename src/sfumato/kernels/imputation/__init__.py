"""Missing values as distributions: dependencies, donors, calibration, earlier values.

May be imported by the operators of imputation.
"""
