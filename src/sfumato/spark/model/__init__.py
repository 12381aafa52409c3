"""What a frame is to us: alternatives, uncertain attributes, aggregates, keys, repositories.

Open to the public functions and to `sql`.
"""
