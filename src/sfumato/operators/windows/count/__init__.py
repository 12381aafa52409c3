"""Aggregates over count windows, with one answer per arrival.

Public: CountWindowAggregate.
"""
