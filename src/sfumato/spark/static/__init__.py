"""Static frames through operators: rows sorted by Spark, fed in batches of bounded size.

Open to `runtime`.
"""
