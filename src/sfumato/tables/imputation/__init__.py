"""Imputation and earlier values over Arrow tables.

Contents: the operators, their configs, arguments and jobs.
"""
