"""Window aggregates over Arrow tables.

Contents: the operators, their configs, and the arguments of `window_aggregate`.
"""
