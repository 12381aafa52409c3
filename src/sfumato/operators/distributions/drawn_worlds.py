"""Possible worlds of tuples, drawn by their hashes."""

import numpy as np

from sfumato.kernels.distributions.sampled_worlds import draw_worlds
from sfumato.operators.arrays import Floats, Ints
from sfumato.operators.row_hash import Hashes


def draw_tuples(
    offsets: Ints, prob: Floats, hashes: Hashes, worlds: int
) -> tuple[Ints, Ints, Ints]:
    """Return (tuple, world, place of its alternative) for each world in which a tuple exists.

    offsets : int64[n + 1]    prob : float64[m]    hashes : uint64[n], one per tuple
    Entries are ordered by tuple, then world. Equal hashes give equal draws.
    """
    row, world, place = draw_worlds(
        np.require(offsets, np.int64, ["C", "W"]),
        np.require(prob, np.float64, ["C", "W"]),
        np.require(hashes, np.uint64, ["C", "W"]),
        worlds,
    )
    return row, world, place
