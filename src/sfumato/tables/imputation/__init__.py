"""Imputation and earlier values over Arrow tables: operators, configs, arguments and jobs."""
