"""Rankings of uncertain tuples under generation rules, and the timetable of top-k queries.

Each file holds one semantics.
May be imported by the operators of ranking.
"""
