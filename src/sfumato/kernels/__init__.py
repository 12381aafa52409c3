"""Compiled computations: NumPy arrays in, NumPy arrays out. No Spark, clock, file or state here."""
