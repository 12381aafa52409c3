"""Streams: one operator per bucket of keys, its persistent state, and its owner.

`bucket_state` stores the state in Spark, `operator_owners` keeps live operators in workers,
`batches` processes a micro-batch, `end_of_stream` is the source of end marks.
"""
