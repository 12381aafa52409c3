"""Compiled computations: arrays in, arrays out; no Spark, clock, file or state here.

One folder a concept; `compile` has the decorators, `arrays` what several concepts need.
Operators import kernels; nothing outside the library does.
"""
