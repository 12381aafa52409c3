"""Imputation and earlier values over Arrow tables.

Open: the operators, their configurations, arguments and jobs.
"""
