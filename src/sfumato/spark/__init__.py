"""Adapters to Spark: columns to arrays, state to bytes; nothing is decided here."""
