"""Window aggregates over Arrow tables.

Open: the operators, their configurations, and `window_query`.
"""
