"""Top-k queries over Arrow tables.

Open: the configuration and its table operator; what users ask for (`query`).
"""
