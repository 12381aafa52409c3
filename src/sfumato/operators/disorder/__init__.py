"""Rows in event-time order: the punctuator, and the buffer from which it releases rows.

Public: Punctuator, Reorder.
"""
