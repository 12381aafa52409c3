"""Top-k answers over uncertain tuples, and the times at which they are computed.

Public: the functions of `top_k`, Timetable, TopKWindows.
"""
