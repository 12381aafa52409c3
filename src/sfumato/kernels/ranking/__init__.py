"""Rankings of uncertain tuples under generation rules, and the timetable of top-k queries.

May be imported by the ranking operators.
"""
