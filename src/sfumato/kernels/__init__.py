"""Compiled computations on arrays. They use no Spark, clock or file and keep no state.

Each folder holds one concept; `compile` holds the decorators and `arrays` the shared helpers.
Only modules of this library import kernels.
"""
