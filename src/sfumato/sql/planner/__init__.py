"""From the statements of a script to frames: every construct becomes a call of its function.

Open to `sql` itself and, for pipelines, to `cli`.
"""
