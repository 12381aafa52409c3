"""Top-k queries over Arrow tables.

Open: the operator, its configuration, and `top_k_query`.
"""
