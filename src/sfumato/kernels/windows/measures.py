"""What is measured of a set of tuples, as kernels take it."""

from typing import NamedTuple

import numpy as np


class Measures(NamedTuple):
    """Of each of r aggregates, what it is and over which channel or list of values.

    what, channel : int64[r], what is measured over which channel; what < 0: MIN, MAX or nothing
    extreme : int64[r], which of the extremes a MIN or MAX is, or -1
    sign : float64[x], 1 for a MAX, -1 for a MIN; attribute : int64[x], of each extreme
    """

    what: np.ndarray
    channel: np.ndarray
    extreme: np.ndarray
    sign: np.ndarray
    attribute: np.ndarray
