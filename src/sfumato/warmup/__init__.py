"""Ahead-of-time compilation of all kernels, once per machine or image.

`steps` runs each operator on a few rows; every new operator needs a step there. `warm_up` is
public as `sf.ops.warm_up`, and is the only name for use outside this package.
"""
