"""Top-k queries over Arrow tables: the operator, its config, and the arguments of `top_k`."""
