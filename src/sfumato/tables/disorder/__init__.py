"""The disorder controller over Arrow tables.

Contents: the operator and its config, the job of `reorder`, and the order of released rows.
"""
