"""The query language: grammar, plan, and the planner that calls the DataFrame functions."""
