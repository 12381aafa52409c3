"""The arrival order of an operator's rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Arrival:
    """The processing order of an operator's rows: by `columns`, left before right, then by tie.

    columns : names of columns, or of fields like "window.end", most important first; NULL is first
    of_late : the `columns` that order only late rows; in other rows, they are treated as NULL
    needed : rows with NULL or NaN in one of these columns come first, in their given order
    within : maximum magnitude of `needed` (microseconds for times); rows above it come first
    tied : whether ties order simultaneous rows; otherwise such rows keep their given order
    """

    columns: tuple[str, ...]
    of_late: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    within: int | None = None
    tied: bool = True


def arrival_order(columns: Sequence[np.ndarray], ties: Sequence[np.ndarray] = ()) -> np.ndarray:
    """Return int64[n]: the stable permutation that sorts rows by `columns`, then by `ties`.

    columns : at least one array of n numbers, most important first
    Cost: O(n), plus a sort of each out-of-order run of rows with equal first columns. An
    unsorted first column is sorted separately, in O(n) if it consists of sorted pieces.
    """
    by, first = [*columns, *ties], columns[0]
    if (first[1:] >= first[:-1]).all():
        return _order(by)
    placed = np.argsort(first, kind="stable")
    return placed[_order([column[placed] for column in by])]


def _order(by: Sequence[np.ndarray]) -> np.ndarray:
    """Return the permutation that sorts rows, column by column; sort only out-of-order runs."""
    order, equal = np.arange(len(by[0])), np.ones(max(len(by[0]) - 1, 0), bool)
    is_sorted = True
    for column in by:
        cells = column if is_sorted else column[order]
        wrong = equal & ~(cells[1:] >= cells[:-1])  # also true for NaN
        if wrong.any():
            run = np.cumsum(np.append(False, ~equal))  # rows that are equal so far
            to_sort = np.zeros(run[-1] + 1, bool)
            to_sort[run[1:][wrong]] = True
            rows = np.flatnonzero(to_sort[run])
            order[rows] = order[rows[np.lexsort((cells[rows], run[rows]))]]
            cells, is_sorted = column[order], False
        same = cells[1:] == cells[:-1]
        if cells.dtype.kind == "f":
            same |= np.isnan(cells[1:]) & np.isnan(cells[:-1])
        equal &= same
    return order


def count_out_of_order(columns: Sequence[np.ndarray], latest: tuple | None) -> int:
    """Count the rows whose `columns` precede `latest`, the newest row of earlier micro-batches."""
    if latest is None:
        return 0
    before = np.zeros(len(columns[0]), bool)
    equal = np.ones(len(columns[0]), bool)
    for column, bound in zip(columns, latest, strict=True):
        before |= equal & (column < bound)
        equal &= column == bound
    return int(before.sum())
