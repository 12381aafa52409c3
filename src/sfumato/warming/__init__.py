"""All kernels compiled ahead, once for a machine or an image.

`steps` runs each operator on a few rows: a new one gets a step there. `warm_up` is
`sf.ops.warm_up`.
The package itself opens `warm_up` only.
"""
