"""Tables in memory: what the functions read of pandas, Polars and Arrow tables, and give back.

Open to `api`.
"""
