"""Arrival order: one sequence out of rows that came in several pieces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def arrival_order(columns: Sequence[np.ndarray], ties: Sequence[np.ndarray] = ()) -> np.ndarray:
    """int64[n]: the permutation that sorts rows by `columns`, the first one first.

    columns : at least one array of numbers, n values each
    ties : what decides between rows of equal `columns`, the most important first; rows that
        tie even there stay as they are. O(n log n), O(n) when the rows are in order already.
    """
    if not ties and len(columns) == 1 and np.all(columns[0][1:] >= columns[0][:-1]):
        return np.arange(len(columns[0]))
    return np.lexsort([*reversed(list(ties)), *reversed(list(columns))])


def count_out_of_order(columns: Sequence[np.ndarray], latest: tuple | None) -> int:
    """How many rows come, by `columns`, before the `latest` row of earlier micro-batches."""
    if latest is None:
        return 0
    before = np.zeros(len(columns[0]), bool)
    equal = np.ones(len(columns[0]), bool)
    for column, bound in zip(columns, latest, strict=True):
        before |= equal & (column < bound)
        equal &= column == bound
    return int(before.sum())
