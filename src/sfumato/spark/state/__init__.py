"""Streams: one operator a bucket of keys, what it keeps between micro-batches and where it lives.

Open to `runtime`, and `operator_cache.memory_here` to the command line.
"""
