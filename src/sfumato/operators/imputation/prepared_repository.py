"""A repository in the flat arrays that the imputation kernels take."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.kernels.imputation.dependency_choice import Repository
from sfumato.kernels.imputation.donor_tree import build_tree, tree_order

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Box = tuple[list[int], list[float]]  # columns and their epsilons

U = 2.0**-53  # relative error of one rounding
SMALLEST_REACH = 1e-6  # an epsilon of 0 must not make an attribute the only one that is cut


def tree_orders(scaled: Floats, boxes: list[list[Box]]) -> Ints:
    """Order of the rows in each attribute's tree, cut to suit its boxes: int64[T, N]."""
    orders = np.empty((len(boxes), len(scaled)), np.int64)
    for t, own in enumerate(boxes):
        weight = np.zeros(scaled.shape[1])
        for columns, epsilons in own:
            for a, epsilon in zip(columns, epsilons, strict=True):
                weight[a] = max(weight[a], 1.0 / max(epsilon, SMALLEST_REACH))
        orders[t] = tree_order(scaled, weight)
    return orders


def rounding(rows: Floats, shift: Floats, span: Floats) -> Floats:
    """How much rounding may add to a scaled distance of two numbers written in decimals.

    rows : float64[N, D]    shift, span : float64[D]    Returns float64[D].
    Each of two numbers as large as those of the rows, their shifts and their quotients is rounded
    once. So 0.4 is within 0.1 of 0.3 and of 0.5, as it is on paper, though 0.4 - 0.3 > 0.1 here.
    """
    largest = np.maximum(np.abs(rows).max(axis=0), np.abs(shift))
    return 16.0 * U * np.minimum(largest / span, 1e300)


def prepare(
    rows: Floats,
    scaled: Floats,
    columns: Ints,
    boxes: list[list[Box]],
    orders: Ints,
    shift: Floats,
    span: Floats,
) -> Repository:
    """Trees, ranks of values and boxes of all attributes.

    rows, scaled : float64[N, D]    columns : int64[T], the attributes    boxes : of their
        combinations, in order of choice
    """
    trees = [build_tree(scaled, order) for order in orders]
    found = [np.unique(rows[:, a], return_inverse=True, return_counts=True) for a in columns]
    row_codes = np.array([codes.reshape(-1) for _, codes, _ in found], np.int64)
    places = trees[0].rows.size
    codes = np.zeros((len(trees), places), np.int64)
    for t, order in enumerate(orders):
        codes[t, : len(rows)] = row_codes[t, order]
    leaves = [_leaf_ranks(codes[t], trees[t].begin, trees[t].end) for t in range(len(trees))]
    flat = [box for own in boxes for box in own]
    room = rounding(rows, shift, span)
    return Repository(
        columns=np.array([tree.columns for tree in trees]),
        rows=np.array([tree.rows for tree in trees]),
        low=np.array([tree.low for tree in trees]),
        high=np.array([tree.high for tree in trees]),
        begin=trees[0].begin,
        end=trees[0].end,
        codes=codes,
        row_codes=row_codes,
        code_low=np.array([low for low, _ in leaves]),
        code_high=np.array([high for _, high in leaves]),
        values=np.concatenate([values for values, _, _ in found]),
        counts=np.concatenate([counts for _, _, counts in found]).astype(np.int64),
        first_value=_begins([values.size for values, _, _ in found]),
        first_combination=_begins([len(own) for own in boxes]),
        box_begin=_begins([len(columns) for columns, _ in flat]),
        box_attribute=np.array([a for columns, _ in flat for a in columns], np.int64),
        box_reach=np.array(
            [
                e * (1.0 + 4.0 * U) + room[a]
                for columns, epsilons in flat
                for a, e in zip(columns, epsilons, strict=True)
            ],
            np.float64,
        ),
        column_of=columns,
        shift=shift,
        span=span,
    )


def _begins(sizes: list[int]) -> Ints:
    return np.concatenate([[0], np.cumsum(np.array(sizes, np.int64))]).astype(np.int64)


def _leaf_ranks(codes: Ints, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Least and greatest rank in every node; an empty node's are the wrong way round."""
    leaves = begin.size // 2
    low, high = np.full(begin.size, codes.size), np.full(begin.size, -1)
    for node in range(leaves, 2 * leaves):
        if end[node] > begin[node]:
            inside = codes[begin[node] : end[node]]
            low[node], high[node] = inside.min(), inside.max()
    for node in range(leaves - 1, 0, -1):
        low[node] = min(low[2 * node], low[2 * node + 1])
        high[node] = max(high[2 * node], high[2 * node + 1])
    return low, high
