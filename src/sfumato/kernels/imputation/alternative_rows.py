"""Alternatives as they are written, one after the other, in arrays that grow."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled_ieee


class AlternativeRows(NamedTuple):
    """prob : float64[m]    points : float64[m, T], the attributes imputed."""

    prob: np.ndarray
    points: np.ndarray


@compiled_ieee
def room_for(rows, needed):
    """`rows`, or larger ones that begin with them, with room for so many."""
    prob, points = rows.prob, rows.points
    if needed <= prob.size:
        return rows
    size = max(needed, 2 * prob.size)
    more, more_points = np.empty(size), np.empty((size, points.shape[1]))
    for i in range(prob.size):
        more[i] = prob[i]
        for a in range(points.shape[1]):
            more_points[i, a] = points[i, a]
    return AlternativeRows(more, more_points)
