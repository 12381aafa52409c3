"""What a plan will do, in words.

Open to `sql` and `cli`.
"""
