"""Stateful operators without an engine: process a batch, snapshot, restore; NumPy in and out.

One folder a concept, named as in `kernels`; `arguments` and `arrays` serve all.
Open to the layers above, and as public classes by the names of the package.
"""
