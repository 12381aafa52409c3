"""Top-k queries over Arrow tables.

Contents: the operator, its config, and the arguments of `top_k`.
"""
