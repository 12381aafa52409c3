"""What is measured of a set of tuples, as kernels take it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Measures(NamedTuple):
    """Of each of r aggregates, what it is and over which channel or list of values.

    averages : int, channels of which an average is asked for, the first ones
    what, channel : int64[r], what is measured over which channel; what < 0: MIN, MAX or nothing
    extreme : int64[r], which of the extremes a MIN or MAX is, or -1
    sign : float64[x], 1 for a MAX, -1 for a MIN; attribute : int64[x], of each extreme
    node, weight, rise : float64[q], see `mergeable_moments`
    """

    averages: int
    what: np.ndarray
    channel: np.ndarray
    extreme: np.ndarray
    sign: np.ndarray
    attribute: np.ndarray
    node: np.ndarray
    weight: np.ndarray
    rise: np.ndarray
