"""Operators on streams: one operator per key bucket, its persistent state, and its owner.

`bucket_state` stores the state in Spark; `deferred_processor` loads it with the first rows.
`operator_owners` processes micro-batches and keeps live operators in workers. `end_of_stream` is
the source of end markers.
"""
