"""Uncertain tuples of one attribute, as the kernels of laws take them."""

from typing import NamedTuple

import numpy as np


class Tuples(NamedTuple):
    """n tuples and their alternatives, end to end.

    offsets : int64[n + 1], where each tuple's alternatives begin
    prob, value : float64[offsets[n]]; NaN: the tuple exists, but has no value
    """

    offsets: np.ndarray
    prob: np.ndarray
    value: np.ndarray
