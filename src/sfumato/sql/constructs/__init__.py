"""The constructs beside Spark SQL, one a file: words, function, and what EXPLAIN says of them.

Listed in `registered`, which is open to `planner`; steps are open to `cli`.
"""
