"""What the functions read of tables, run on them, and give back.

Open to the functions beside it.
"""
