"""Rows in event-time order: the punctuator and the buffer that it releases.

Open: Punctuator, Reorder.
"""
