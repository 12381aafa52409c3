"""Stateful operators without an engine: process a batch, snapshot, restore. NumPy in and out.

Each folder holds one concept and is named as in `kernels`; `arguments` and `arrays` serve all.
The layers above may use the names listed by each package.
"""
