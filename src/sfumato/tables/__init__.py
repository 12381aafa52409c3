"""The operators over Arrow tables: the rows of one bucket of keys in, rows out.

One folder per concept, named as in `operators`: in it `table_X.py` is the operator and its config,
`X_query.py` or `X_job.py` checks the arguments of the public function. The common parts are here.
Open to `memory`, `spark`, which runs operators in its workers, and `api`.
"""
