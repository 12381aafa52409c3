"""The operators over Arrow tables: rows of one bucket of keys in, answers out.

Folders correspond to the folders of `operators`: `table_X.py` has the operator and its config,
`X_query.py` or `X_job.py` checks the arguments of the public function. Shared parts are here.
Used by `memory`, by `spark` (which runs operators in its workers), and by `api`.
"""
