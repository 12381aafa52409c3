"""A repository in the flat arrays that the imputation kernels take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.kernels.imputation.calibration import ENOUGH_ROWS, curve_of, reach_of
from sfumato.kernels.imputation.donor_tree import build_tree, tree_order
from sfumato.kernels.imputation.imputation import HeldOutRanks, held_out_ranks
from sfumato.kernels.imputation.local_line import DONORS_A_SLOPE
from sfumato.kernels.imputation.repository import LENDING, TAIL, Choice, Repository
from sfumato.operators.arrays import Floats, Ints, offsets_of

Box = tuple[list[int], list[float]]  # columns and their epsilons

MOST_DEPENDENCIES = 62  # of an attribute: a bit each
U = 2.0**-53  # relative error of one rounding
# Rows left out: for a curve; to choose how an attribute is imputed; to order its boxes.
CALIBRATING, HELD_OUT, FEWER_HELD_OUT = 1024, 512, 128
GAPS = 0.3  # share of the other attributes that are missing too where the number is not given
MOST_GROUPS = 5  # curves of an attribute: the last is for those that lack so many less 1, and more
TOGETHER = (1, 2, 3, 4, 6, 8, 12, 16, 24, 62)
LEVEL_SHAPES = [(even, sharpness) for even in (False, True) for sharpness in (0.0, 1.0, 2.0, 4.0)]
BINS, PRIOR = 20, 10.0  # of a calibration curve; how many uniform ranks it begins with
FLOOR = 0.25  # of the mean deviation of donors: the least unit of distances beyond them
FEW_ROWS_ROOM = 2.0  # of few rows: what a deviation may be larger than those of the rows left out
COVERED_SHARE = 0.995  # of left out rows are no farther beyond the donors than the margin
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
    """Return what rounding may add to a scaled distance of two numbers written in decimals.

    rows : float64[N, D]    shift, span : float64[D]    Returns float64[D].
    Each of two numbers as large as those of the rows, their shifts and their quotients is rounded
    once. So 0.4 is within 0.1 of 0.3 and of 0.5, as it is on paper, though 0.4 - 0.3 > 0.1 here.
    """
    largest = np.maximum(np.abs(rows).max(axis=0), np.abs(shift))
    return 16.0 * U * np.minimum(largest / span, 1e300)


@dataclass(frozen=True)
class Preparation:
    """Arrays that a repository is prepared from.

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
    """Numbers learned from the repository's own rows, see `Repository` and LENDING."""

    curve: Floats
    tails: Floats
    sharpness: Floats
    even: npt.NDArray[np.bool_]
    narrowing: Ints
    unit: Floats
    margin: Floats
    outside: Floats
    far: Floats

    @classmethod
    def none(cls, attributes: int, groups: int = 1) -> Calibration:
        """Calibration of `attributes` attributes that changes no probability; donors lend alike."""
        return cls(
            np.tile(np.linspace(0.0, 1.0, BINS + 1), (attributes, groups, 1)),
            np.zeros((attributes, groups, 2, TAIL + 1)),
            np.zeros(attributes),
            np.zeros(attributes, np.bool_),
            np.full(attributes, MOST_DEPENDENCIES),
            np.zeros(attributes),
            np.zeros(attributes),
            np.zeros(attributes),
            np.zeros((attributes, groups)),
        )

    @property
    def fields(self) -> dict[str, Any]:
        """The same as the fields of a `Repository`."""
        lending = np.zeros(self.sharpness.size, LENDING)
        for name in LENDING.names or ():
            lending[name] = getattr(self, name)
        return {"curve": self.curve, "tails": self.tails, "far": self.far, "lending": lending}


def box_arrays(boxes: list[list[Box]], room: Floats) -> dict[str, Any]:
    """The boxes of all dependencies as the fields of a `Repository`; room : of `rounding`."""
    asks = np.zeros((len(boxes), room.size), np.bool_)
    for t, own in enumerate(boxes):
        for columns, _ in own:
            asks[t, columns] = True
    flat = [box for own in boxes for box in own]
    reach = [
        e * (1.0 + 4.0 * U) + room[a]
        for columns, epsilons in flat
        for a, e in zip(columns, epsilons, strict=True)
    ]
    return {
        "asks": asks,
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
        **Calibration.none(len(trees)).fields,
    )


class HeldOut:
    """Rows of a repository, left out one by one: what the others say of their hidden values.

    rows : float64[N, D], as they were prepared    rank : int64[D], of the columns' names in their
    order, so that columns in any order have the same gaps
    Other attributes that dependencies ask about are missing as well, at random. Always the same
    rows and gaps. Rows that calibrate are others than those that choose, if there are enough.
    """

    def __init__(self, repository: Repository, rows: Floats, rank: Ints) -> None:
        choice = repository.choice
        self.repository = repository._replace(
            choice=choice._replace(least_donors=choice.least_donors + 1)
        )
        rng = np.random.default_rng(0)
        order = rng.permutation(len(rows))
        self.rows, self.picked, self.calibrating = rows, order[:HELD_OUT], order[-CALIBRATING:]
        self.draws = rng.random((2, CALIBRATING, rows.shape[1]))[:, :, rank]
        self.chance = rng.random(CALIBRATING)

    def judged(self, t: int, most: int, **changes: Any) -> float:
        """The mean score of what is said of hidden values of attribute t, to nine digits: what
        imputes alike but for roundings is equal.

        most : so many rows at most    changes : to fields of the repository
        """
        picked = self.picked[:most]
        gaps = (self.draws[0, : picked.size] < GAPS) & self.repository.asks[t]
        score = self._ranks(t, picked, gaps, **changes).score
        score = score[np.isfinite(score)]
        return float(f"{score.mean():.9g}") if score.size else np.inf

    def ranks(self, t: int, lacking: int, **changes: Any) -> HeldOutRanks:
        """Ranks of hidden values of attribute t, of rows that lack so many others."""
        picked, asked = self.calibrating, np.flatnonzero(self.repository.asks[t])
        gaps = np.zeros((picked.size, self.rows.shape[1]), np.bool_)
        order = np.argsort(self.draws[1, : picked.size][:, asked], axis=1)
        np.put_along_axis(gaps, asked[order[:, :lacking]], True, axis=1)
        return self._ranks(t, picked, gaps, **changes)

    def _ranks(
        self, t: int, picked: Ints, gaps: npt.NDArray[np.bool_], **changes: Any
    ) -> HeldOutRanks:
        objects, chance = self.rows[picked], self.chance[: picked.size]
        objects[gaps] = np.nan
        objects[:, self.repository.column_of[t]] = np.nan
        repository = self.repository._replace(**changes)
        return held_out_ranks(repository, t, objects, picked, chance)


def by_worth(repository: Repository, rows: Floats, rank: Ints) -> list[list[int]]:
    """Numbers of each attribute's dependencies, those that alone impute best first.

    rows, rank : as for `HeldOut`

    What a dependency promises is no measure of that: most pairs of rows may be near each other
    while the others are far apart.  Cost: as imputing 128 rows by each dependency.
    """
    held_out, orders = HeldOut(repository, rows, rank), []
    for t in range(repository.column_of.size):
        scores = []
        for d in range(repository.first_dependency[t], repository.first_dependency[t + 1]):
            alone = repository.first_dependency.copy()
            alone[t], alone[t + 1] = d, d + 1
            scores.append(held_out.judged(t, FEWER_HELD_OUT, first_dependency=alone))
        orders.append(np.argsort(np.array(scores), kind="stable").tolist())
    return orders


def calibrated(repository: Repository, rows: Floats, rank: Ints) -> Calibration:
    """Choose how many dependencies narrow and how donors lend: the best of TOGETHER and LENDING;
    then the curves and tails that make it right.

    rows, rank : as for `HeldOut`
    Cost: as imputing some thousand rows for each attribute.
    """
    held_out, asked = HeldOut(repository, rows, rank), repository.asks.sum(axis=1)
    groups = max(min(MOST_GROUPS, int(asked.max(initial=0))), 1)
    found = Calibration.none(repository.column_of.size, groups)
    for t in range(repository.column_of.size):
        own = repository.first_dependency[t + 1] - repository.first_dependency[t]
        scores = {}
        for found.narrowing[t] in {min(own, many) for many in TOGETHER}:
            scores[int(found.narrowing[t])] = held_out.judged(t, HELD_OUT, **found.fields)
        found.narrowing[t] = min(scores, key=lambda many: (scores[many], many))
        trials = []
        # Of too few donors for a line one near the object would have most of the probability.
        line = len(rows) > DONORS_A_SLOPE * (int(asked[t]) + 1)
        for found.even[t], found.sharpness[t] in LEVEL_SHAPES if line else LEVEL_SHAPES[:1]:
            trials.append(held_out.judged(t, HELD_OUT, **found.fields))
        found.even[t], found.sharpness[t] = LEVEL_SHAPES[int(np.argmin(trials))]
        _calibrate(held_out, t, int(asked[t]), found)
    return found


def _calibrate(held_out: HeldOut, t: int, asked: int, found: Calibration) -> None:
    """The curves and tails of attribute t, by how many of the `asked` attributes are lacking."""
    groups, fields = found.curve.shape[1], found.fields
    values = held_out.rows[:, held_out.repository.column_of[t]]
    few = values.size < ENOUGH_ROWS
    if few:  # values may lie outside of what so few rows hold
        found.outside[t] = found.margin[t] = reach_of(values.size) * values.std() * FEW_ROWS_ROOM
    ranks = []
    for group in range(groups):
        many = range(group, asked if group == groups - 1 else group + 1)
        several = [held_out.ranks(t, lacking, **fields) for lacking in many if lacking < asked]
        ranks.append([np.concatenate(parts) for parts in zip(*several, strict=True)])
    known = [own for own in ranks if own]
    deviation = np.concatenate([own[2] for own in known]) if known else np.empty(0)
    beyond = np.abs(np.concatenate([own[1] for own in known])) if known else np.empty(0)
    deviation, beyond = deviation[np.isfinite(deviation)], beyond[np.isfinite(beyond)]
    if not beyond.size:
        return
    found.unit[t] = max(FLOOR * deviation.mean(), 1e-9 * beyond.max(), 1e-300)
    found.margin[t] = max(found.margin[t], np.quantile(beyond, COVERED_SHARE, method="higher"))
    for group, own in enumerate(ranks):
        if own:
            rank, far, off, _ = own
            far = far / np.hypot(found.unit[t], off)  # its square may be 0
            inside, outside = rank[np.isfinite(rank)], np.sort(far[np.abs(far) > 0.0])
            curve_and_tails = curve_of(inside, outside, BINS, PRIOR)
            found.curve[t, group], found.tails[t, group], found.far[t, group] = curve_and_tails
    if few:
        farthest = found.tails[t].max() * np.hypot(found.unit[t], deviation.max(initial=0.0))
        found.outside[t] = found.margin[t] = max(found.margin[t], FEW_ROWS_ROOM * farthest)


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
