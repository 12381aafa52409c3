"""How a query runs: what an operator reads, which operators run in one step, what made a frame.

Open to the public functions, and what made a frame to `sql`.
"""
