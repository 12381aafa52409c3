"""Streams: one operator per bucket of keys, its state between micro-batches, and its owner.

Open to `runtime`, and `operator_owners.available_memory` to the command line.
"""
