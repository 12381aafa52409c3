"""Ahead-of-time compilation of all kernels, once per machine or image.

`steps` runs each operator on a few rows; every new operator needs a step there. Only `warm_up`,
public as `sf.ops.warm_up`, is for use outside this package.
"""
