"""Compiled computations on arrays, without Spark, clocks, files or state.

Each folder contains one concept. `compile` defines the decorators; `arrays`, the shared helpers.
Only modules of this library import kernels.
"""
