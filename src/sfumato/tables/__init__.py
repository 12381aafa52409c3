"""Operators over Arrow tables, each for one bucket of keys; used by `memory`, `spark` and `api`.

The folders correspond to the folders of `operators`. `table_X.py` has the operator and its config;
`X_query.py` or `X_job.py` checks the arguments of the public function.
"""
