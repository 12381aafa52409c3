"""The operators over Arrow tables: the rows of one bucket of keys in, rows out.

One folder a concept, named as in `operators`; what all share stands beside them.
Open to `spark`, which hands them to its workers, and to `local`.
"""
