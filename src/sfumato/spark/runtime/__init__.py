"""How an operator runs on Spark: chunks of rows, one state a bucket of keys.

Open to the public functions only.
"""
