"""Compiled computations on arrays, without Spark, clocks, files or state.

Each folder holds one concept; `compile` holds the decorators and `arrays` the shared helpers.
Only modules of this library import kernels.
"""
