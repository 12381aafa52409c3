"""Joins of two streams, similar or incomplete, over count windows.

Open: SimilarityJoin, IncompleteJoin and their arrivals and answers.
"""
