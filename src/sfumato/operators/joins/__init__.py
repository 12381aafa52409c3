"""Joins of streams over windows, by similarity or with missing attributes.

Public: SimilarityJoin, IncompleteJoin, their arrivals and answers.
"""
