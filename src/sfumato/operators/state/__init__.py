"""The state of operators: declarations, snapshots and batches of uncertain tuples.

All operators and tables may use these modules.
"""
