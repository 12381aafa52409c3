"""Command line: demo, run, explain."""
