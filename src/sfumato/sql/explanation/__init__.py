"""What EXPLAIN prints: the layout of a plan, and figures in words.

Open to `constructs`, whose steps say what they do, to `planner` and, for pipelines, to `cli`.
"""
