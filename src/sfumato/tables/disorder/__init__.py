"""The disorder controller over Arrow tables.

Open: the operator and its configuration, the job of `reorder`, the order of released rows.
"""
