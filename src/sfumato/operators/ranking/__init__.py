"""Top-k answers over uncertain tuples, and when to compute which.

Open: the functions of `top_k`, Timetable, TopKWindow.
"""
