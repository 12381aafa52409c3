"""What a query asks for: its tables as frames, the words given, and what a construct is.

Open to `explain`, `constructs` and `planner`; the frames and steps to `cli` as well.
"""
