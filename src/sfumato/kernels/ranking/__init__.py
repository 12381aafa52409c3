"""Rankings of uncertain tuples under generation rules, and the timetable of top-k queries.

One semantics a file.
Open to the operators of ranking.
"""
