"""Stateful operators, independent of any engine: process a batch of NumPy arrays, save, restore.

Each folder contains one concept, with the same name as in `kernels`; all folders use `arguments`
and `arrays`. The layers above may use the names that each package lists as public.
"""
