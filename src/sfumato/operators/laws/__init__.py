"""What a window can be asked for, and the laws of it over independent tuples.

Open to the operators of windows and ranking.
"""
