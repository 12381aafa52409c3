"""How rows cross to Python and back: what is the same once, in chunks, at the place of a bucket.

Open to `static`, `state` and `runtime`.
"""
