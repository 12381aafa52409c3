"""From text to syntax tree, and errors with their place in it. Nothing is resolved here.

Open to all of `sql`.
"""
