"""Imputation and earlier values over Arrow tables.

Open: the configurations and their table operators.
"""
