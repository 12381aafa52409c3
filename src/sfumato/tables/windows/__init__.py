"""Window aggregates over Arrow tables: operators, their configurations, and `window_query`."""
