"""A repository in the flat arrays that the imputation kernels take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.kernels.imputation.calibration import curve_of
from sfumato.kernels.imputation.donor_tree import build_tree, tree_order
from sfumato.kernels.imputation.imputation import held_out_ranks
from sfumato.kernels.imputation.repository import Choice, Repository
from sfumato.operators.arrays import Floats, Ints, offsets_of

Box = tuple[list[int], list[float]]  # columns and their epsilons

MOST_DEPENDENCIES = 62  # of an attribute: a bit each
U = 2.0**-53  # relative error of one rounding
HELD_OUT, FEWER_HELD_OUT = 512, 128  # rows left out to calibrate an attribute, to order its boxes
GAPS = 0.3  # share of the other attributes that are then missing too
TOGETHER = (1, 2, 3, 4, 6, 8, 12, 16, 24, 62)
LENDING = [(even, sharpness) for even in (False, True) for sharpness in (0.0, 1.0, 2.0, 4.0)]
BINS, PRIOR = 20, 10.0  # of a calibration curve; how many uniform ranks it begins with
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


@dataclass(frozen=True)
class Preparation:
    """What a repository is prepared from.

    rows : float64[N, D]    shift, span : float64[D]    columns : int64[T], the attributes
    boxes : of each attribute's dependencies, the tightest first    combinations : of each
    attribute, sets of them in order of choice    orders : int64[T, N], of `tree_orders`
    """

    rows: Floats
    shift: Floats
    span: Floats
    columns: Ints
    boxes: list[list[Box]]
    combinations: list[list[int]]
    orders: Ints
    choice: Choice

    @property
    def scaled(self) -> Floats:
        return (self.rows - self.shift) / self.span


class Calibration(NamedTuple):
    """What is learned from the repository's own rows, see `Repository`."""

    curve: Floats
    sharpness: Floats
    even: npt.NDArray[np.bool_]
    narrowing: Ints

    @classmethod
    def none(cls, attributes: int) -> Calibration:
        """Of so many attributes: nearest donors lend alike, and no probability is changed."""
        return cls(
            np.tile(np.linspace(0.0, 1.0, BINS + 1), (attributes, 1)),
            np.zeros(attributes),
            np.zeros(attributes, np.bool_),
            np.full(attributes, MOST_DEPENDENCIES),
        )


def box_arrays(boxes: list[list[Box]], room: Floats) -> dict[str, Any]:
    """The boxes of all dependencies as the fields of a `Repository`; room : of `rounding`."""
    flat = [box for own in boxes for box in own]
    reach = [
        e * (1.0 + 4.0 * U) + room[a]
        for columns, epsilons in flat
        for a, e in zip(columns, epsilons, strict=True)
    ]
    return {
        "first_dependency": offsets_of([len(own) for own in boxes]),
        "box_begin": offsets_of([len(columns) for columns, _ in flat]),
        "box_attribute": np.array([a for columns, _ in flat for a in columns], np.int64),
        "box_reach": np.array(reach, np.float64),
    }


def prepare(of: Preparation) -> Repository:
    """Trees, ranks of values and boxes of all attributes; curves that change no probability."""
    rows, scaled, orders, boxes = of.rows, of.scaled, of.orders, of.boxes
    shift, span, columns = of.shift, of.span, of.columns
    trees = [build_tree(scaled, order) for order in orders]
    found = [np.unique(rows[:, a], return_inverse=True, return_counts=True) for a in columns]
    row_codes = np.array([codes.reshape(-1) for _, codes, _ in found], np.int64)
    places = trees[0].rows.size
    codes = np.zeros((len(trees), places), np.int64)
    for t, order in enumerate(orders):
        codes[t, : len(rows)] = row_codes[t, order]
    leaves = [_leaf_ranks(codes[t], trees[t].begin, trees[t].end) for t in range(len(trees))]
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
        first_value=offsets_of([values.size for values, _, _ in found]),
        **box_arrays(boxes, rounding(rows, shift, span)),
        first_combination=offsets_of([len(own) for own in of.combinations]),
        combination=np.array([each for own in of.combinations for each in own], np.int64),
        column_of=columns,
        shift=shift,
        span=span,
        choice=of.choice,
        **Calibration.none(len(trees))._asdict(),
    )


class HeldOut:
    """Rows of a repository, left out one by one: what the others say of their hidden values.

    rows : float64[N, D], as they were prepared
    Other attributes to be imputed are missing as well, at random. Always the same rows and gaps.
    """

    def __init__(self, repository: Repository, rows: Floats) -> None:
        choice = repository.choice
        self.repository = repository._replace(
            choice=choice._replace(least_donors=choice.least_donors + 1)
        )
        rng = np.random.default_rng(0)
        self.rows, self.picked = rows, rng.permutation(len(rows))[:HELD_OUT]
        self.gaps = rng.random((self.picked.size, self.repository.column_of.size)) < GAPS
        self.chance = rng.random(self.picked.size)

    def judged(self, t: int, most: int, **changes: Any) -> tuple[Floats, float]:
        """Ranks of hidden values of attribute t, and the mean score of what is said of them.

        most : so many rows at most    changes : to fields of the repository
        """
        picked, columns = self.picked[:most], self.repository.column_of
        objects, gaps = self.rows[picked], self.gaps[:most].copy()
        gaps[:, t] = True
        hidden = objects[:, columns]
        hidden[gaps] = np.nan
        objects[:, columns] = hidden
        ranks, scores = held_out_ranks(
            self.repository._replace(**changes), t, objects, picked, self.chance[:most]
        )
        known = np.isfinite(ranks)
        return ranks[known], float(scores[known].mean()) if known.any() else np.inf


def by_worth(repository: Repository, rows: Floats) -> list[list[int]]:
    """Numbers of each attribute's dependencies, those that alone impute best first.

    What a dependency promises is no measure of that: most pairs of rows may be near each other
    while the others are far apart.  Cost: as imputing 128 rows by each dependency.
    """
    held_out, orders = HeldOut(repository, rows), []
    for t in range(repository.column_of.size):
        scores = []
        for d in range(repository.first_dependency[t], repository.first_dependency[t + 1]):
            alone = repository.first_dependency.copy()
            alone[t], alone[t + 1] = d, d + 1
            scores.append(held_out.judged(t, FEWER_HELD_OUT, first_dependency=alone)[1])
        orders.append(np.argsort(np.array(scores), kind="stable").tolist())
    return orders


def calibrated(repository: Repository, rows: Floats) -> Calibration:
    """How many dependencies narrow and how donors lend: what imputes best of TOGETHER and LENDING;
    then the curve that makes it right.

    Cost: as imputing some thousand rows for each attribute.
    """
    held_out, found = HeldOut(repository, rows), Calibration.none(repository.column_of.size)
    ways = {"even": found.even, "sharpness": found.sharpness, "narrowing": found.narrowing}
    for t in range(repository.column_of.size):
        own = repository.first_dependency[t + 1] - repository.first_dependency[t]
        scores = {}
        for found.narrowing[t] in {min(own, many) for many in TOGETHER}:
            scores[int(found.narrowing[t])] = held_out.judged(t, HELD_OUT, **ways)[1]
        found.narrowing[t] = min(scores, key=lambda many: (scores[many], many))
        trials = []
        for found.even[t], found.sharpness[t] in LENDING:
            trials.append(held_out.judged(t, HELD_OUT, **ways))
        best = int(np.argmin([score for _, score in trials]))
        found.even[t], found.sharpness[t] = LENDING[best]
        found.curve[t] = curve_of(trials[best][0], BINS, PRIOR)
    return found


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
