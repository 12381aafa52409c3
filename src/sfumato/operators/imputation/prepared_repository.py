"""A repository as flat arrays, in the form that imputation kernels expect."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.kernels.imputation.calibration import ENOUGH_ROWS, curve_of, reach_of
from sfumato.kernels.imputation.donor_tree import DonorTree, build_tree, tree_order
from sfumato.kernels.imputation.donors import DONORS_PER_SLOPE
from sfumato.kernels.imputation.imputation import held_out_ranks
from sfumato.kernels.imputation.repository import (
    TAIL,
    WEIGHTING,
    Choice,
    DependencySets,
    Repository,
)
from sfumato.operators.arrays import Bools, Floats, Ints, offsets_of
from sfumato.operators.imputation.dependency import Dependency
from sfumato.operators.imputation.repository_columns import MAX_MASK_BITS

DependencyLists = Sequence[Sequence[Dependency]]  # the dependencies of each attribute, in order
ROUNDOFF = 2.0**-53  # relative error of one rounding
# Numbers of held-out rows to fit a curve, to choose how an attribute is imputed, and to order its
# dependencies.
CALIBRATION_ROWS, HELD_OUT_ROWS, FEWER_HELD_OUT_ROWS = 1024, 512, 128
MISSING_SHARE = 0.3  # share of other attributes that are missing, if the number is not specified
MAX_CURVES = 5  # curves per attribute; the last is for at least MAX_CURVES - 1 missing attributes
RULE_LIMITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 62)
LEVEL_SHAPES = [(equal, power) for equal in (False, True) for power in (0.0, 1.0, 2.0, 4.0)]
CURVE_BINS = 20  # bins of a calibration curve
PRIOR_WEIGHT = 10.0  # weight of the curve's uniform prior, in ranks
MIN_UNIT_SHARE = 0.25  # smallest unit of distances beyond donors, as a share of their deviation
FEW_ROWS_FACTOR = 2.0  # factor on the deviations of held-out rows if there are few rows
COVERED_SHARE = 0.995  # share of held-out rows within the margin beyond the donors
SMALLEST_EPSILON = 1e-6  # so that trees are not split by attributes with epsilon 0 alone


def tree_orders(scaled: Floats, names: Sequence[str], ordered: DependencyLists) -> Ints:
    """Return int64[T, N]: the order of rows in each attribute's tree, for its dependencies."""
    by_name = sorted(range(len(names)), key=names.__getitem__)  # the order of columns has no effect
    orders = np.empty((len(ordered), len(scaled)), np.int64)
    for t, own in enumerate(ordered):
        weight = dict.fromkeys(names, 0.0)
        for name, epsilon in (pair for each in own for pair in each.determinants):
            weight[name] = max(weight[name], 1.0 / max(epsilon, SMALLEST_EPSILON))
        weights = np.array([weight[names[a]] for a in by_name])
        orders[t] = tree_order(scaled[:, by_name], weights)
    return orders


def rounding_errors(rows: Floats, shift: Floats, span: Floats) -> Floats:
    """Return float64[D]: the largest rounding error of a scaled distance between decimal numbers.

    rows : float64[N, D]    shift, span : float64[D]
    Numbers, shifts and quotients are each rounded once. With this allowance, 0.4 is within 0.1 of
    0.3 and of 0.5, although 0.4 - 0.3 > 0.1 in floating point.
    """
    largest = np.maximum(np.abs(rows).max(axis=0), np.abs(shift))
    return 16.0 * ROUNDOFF * np.minimum(largest / span, 1e300)


def no_calibration(attributes: int, groups: int = 1) -> dict[str, Any]:
    """Return calibration fields of a `Repository` that have no effect."""
    weighting = np.zeros(attributes, WEIGHTING)
    weighting["max_rules"] = MAX_MASK_BITS
    curve = np.tile(np.linspace(0.0, 1.0, CURVE_BINS + 1), (attributes, groups, 1))
    tails = np.zeros((attributes, groups, 2, TAIL + 1))
    return {"curve": curve, "tails": tails, "far": tails[:, :, 0, 0].copy(), "weighting": weighting}


def dependency_sets(
    ordered: DependencyLists, tried: Sequence[Sequence[int]], names: Sequence[str], room: Floats
) -> DependencySets:
    """Return the dependencies of each attribute as arrays. tried : sets that "plain" tries, by
    attribute    room : from `rounding_errors`, in the order of `names`"""
    is_determinant = np.zeros((len(ordered), room.size), np.bool_)
    for t, own in enumerate(ordered):
        is_determinant[t, [names.index(name) for each in own for name in each.names]] = True
    flat = [each for own in ordered for each in own]
    pairs = [(names.index(name), epsilon) for each in flat for name, epsilon in each.determinants]
    return DependencySets(
        offsets_of([len(own) for own in ordered]),
        offsets_of([len(each.determinants) for each in flat]),
        np.array([a for a, _ in pairs], np.int64),
        np.array([epsilon * (1.0 + 4.0 * ROUNDOFF) + room[a] for a, epsilon in pairs], np.float64),
        offsets_of([len(own) for own in tried]),
        np.array([each for own in tried for each in own], np.int64),
        is_determinant,
    )


def prepare(
    rows: Floats, shift: Floats, span: Floats, columns: Ints, sets: DependencySets, orders: Ints,
    choice: Choice, calibration: dict[str, Any],
) -> Repository:  # fmt: skip
    """Build a `Repository` from fields, rows float64[N, D], and orders int64[T, N] of its trees."""
    scaled = (rows - shift) / span
    trees = [
        build_tree(np.column_stack([scaled, rows[:, a]]), order)
        for a, order in zip(columns, orders, strict=True)
    ]
    cells, places, low, high, *_ = (np.array(parts) for parts in zip(*trees, strict=True))
    found = [np.unique(rows[:, a], return_inverse=True, return_counts=True) for a in columns]
    return Repository(
        DonorTree(cells, places, low, high, trees[0].begin, trees[0].end),
        row_codes=np.array([codes.reshape(-1) for _, codes, _ in found], np.int64),
        values=np.concatenate([values for values, _, _ in found]),
        counts=np.concatenate([counts for _, _, counts in found]).astype(np.int64),
        first_value=offsets_of([values.size for values, _, _ in found]),
        sets=sets,
        column_of=columns,
        shift=shift,
        span=span,
        choice=choice,
        **calibration,
    )


class HeldOut:
    """Held-out rows of a repository, whose hidden values are imputed from the other rows.

    rows : float64[N, D], as prepared
    rank : int64[D], each column's rank by name, so that the order of columns has no effect
    Other attributes used by dependencies are also missing, at random. Rows and gaps are
    deterministic. Rows for calibration and rows for choices are disjoint if there are enough rows.
    """

    def __init__(self, repository: Repository, rows: Floats, rank: Ints) -> None:
        choice = repository.choice
        self.repository = repository._replace(
            choice=choice._replace(least_donors=choice.least_donors + 1)
        )
        self.rows, rng = rows, np.random.default_rng(0)
        order = rng.permutation(len(rows))
        self.picked, self.calibrating = order[:HELD_OUT_ROWS], order[-CALIBRATION_ROWS:]
        self.draws = rng.random((2, CALIBRATION_ROWS, rows.shape[1]))[:, :, rank]
        self.chance = rng.random(CALIBRATION_ROWS)

    def mean_score(self, t: int, most: int, **changes: Any) -> float:
        """Return the mean score for hidden values of attribute t on at most `most` rows, to nine
        digits, so that rounding errors have no effect. changes : replaced repository fields"""
        picked = self.picked[:most]
        gaps = (self.draws[0, : picked.size] < MISSING_SHARE) & self.repository.sets.determinants[t]
        score = self._ranks(t, picked, gaps, **changes)[3]
        score = score[np.isfinite(score)]
        return float(f"{score.mean():.9g}") if score.size else np.inf

    def ranks(self, t: int, missing: int, **changes: Any) -> Floats:
        """Return `held_out_ranks` of attribute t while some other attributes are missing."""
        picked, asked = self.calibrating, np.flatnonzero(self.repository.sets.determinants[t])
        gaps = np.zeros((picked.size, self.rows.shape[1]), np.bool_)
        order = np.argsort(self.draws[1, : picked.size][:, asked], axis=1)
        np.put_along_axis(gaps, asked[order[:, :missing]], True, axis=1)
        return self._ranks(t, picked, gaps, **changes)

    def _ranks(self, t: int, picked: Ints, gaps: Bools, **changes: Any) -> Floats:
        objects, chance = self.rows[picked], self.chance[: picked.size]
        objects[gaps] = np.nan
        objects[:, self.repository.column_of[t]] = np.nan
        repository = self.repository._replace(**changes)
        return held_out_ranks(repository, t, objects, picked, chance)


def only_dependency(sets: DependencySets, t: int, d: int) -> DependencySets:
    """Return the sets with dependency number d as the only dependency of attribute t."""
    first = sets.first.copy()
    first[t], first[t + 1] = d, d + 1
    return sets._replace(first=first)


def order_rules_by_score(repository: Repository, rows: Floats, rank: Ints) -> list[list[int]]:
    """Return each attribute's dependency numbers, ordered by the score of the dependency alone.

    Epsilons cannot replace the score: most pairs may be close while the others are far apart.
    rows, rank : as for `HeldOut`    Cost: imputation of 128 rows per dependency.
    """
    held_out, orders = HeldOut(repository, rows, rank), []
    for t in range(repository.column_of.size):
        scores, sets = [], repository.sets
        for d in range(sets.first[t], sets.first[t + 1]):
            alone = only_dependency(sets, t, d)
            scores.append(held_out.mean_score(t, FEWER_HELD_OUT_ROWS, sets=alone))
        orders.append(np.argsort(np.array(scores), kind="stable").tolist())
    return orders


def calibrate(
    repository: Repository, rows: Floats, rank: Ints, coded: Sequence[bool]
) -> dict[str, Any]:
    """Choose the best of RULE_LIMITS and LEVEL_SHAPES, then fit curves and tails. Returns
    calibration fields of a `Repository`.

    rows, rank : as for `HeldOut`    coded : whether attributes are category codes, without curves
    Cost: imputation of a few thousand rows per attribute.
    """
    held_out, asked = HeldOut(repository, rows, rank), repository.sets.determinants.sum(axis=1)
    groups = max(min(MAX_CURVES, int(asked.max(initial=0))), 1)
    found = no_calibration(asked.size, groups)
    for t, weighting in enumerate(found["weighting"]):
        own, scores = np.diff(repository.sets.first)[t], {}
        for many in sorted({min(int(own), many) for many in RULE_LIMITS}):
            weighting["max_rules"] = many
            scores[many] = held_out.mean_score(t, HELD_OUT_ROWS, **found)
        weighting["max_rules"], trials = min(scores, key=scores.__getitem__), []
        # With too few donors for a line, a near donor would get most of the probability.
        line = len(rows) > DONORS_PER_SLOPE * (int(asked[t]) + 1)
        for shape in LEVEL_SHAPES if line else LEVEL_SHAPES[:1]:
            weighting["equal_scales"], weighting["power"] = shape
            trials.append(held_out.mean_score(t, HELD_OUT_ROWS, **found))
        weighting["equal_scales"], weighting["power"] = LEVEL_SHAPES[int(np.argmin(trials))]
        if not coded[t]:
            _calibrate(held_out, t, int(asked[t]), found)
    return found


def _calibrate(held_out: HeldOut, t: int, asked: int, found: dict[str, Any]) -> None:
    """Fit attribute t's curves and tails, per number of missing attributes among `asked`."""
    groups, weighting = found["curve"].shape[1], found["weighting"][t]
    values = held_out.rows[:, held_out.repository.column_of[t]]
    few, ranks = values.size < ENOUGH_ROWS, []
    known = {**found, "weighting": found["weighting"].copy()}
    if few:  # values may exceed the range of so few rows
        weighting["outside"] = reach_of(values.size) * values.std() * FEW_ROWS_FACTOR
        weighting["margin"] = weighting["outside"]
    for group in range(groups):
        many = range(group, asked if group == groups - 1 else group + 1)
        several = [held_out.ranks(t, missing, **known) for missing in many if missing < asked]
        ranks.append(np.concatenate([np.empty((4, 0)), *several], axis=1))
    _, beyond, deviation, _ = (each[np.isfinite(each)] for each in np.concatenate(ranks, axis=1))
    if not beyond.size:
        return
    beyond = np.abs(beyond)
    weighting["unit"] = max(MIN_UNIT_SHARE * deviation.mean(), 1e-9 * beyond.max(), 1e-300)
    covered = np.quantile(beyond, COVERED_SHARE, method="higher")
    weighting["margin"] = max(weighting["margin"], covered)
    for group, own in enumerate(ranks):
        if own.size:
            rank, far, off, _ = own
            far = far / np.hypot(weighting["unit"], off)  # the square of the unit may be 0
            inside, outside = rank[np.isfinite(rank)], np.sort(far[np.abs(far) > 0.0])
            learned = curve_of(inside, outside, CURVE_BINS, PRIOR_WEIGHT)
            for name, value in zip(("curve", "tails", "far"), learned, strict=True):
                found[name][t, group] = value
    if few:
        farthest = found["tails"][t].max() * np.hypot(weighting["unit"], deviation.max(initial=0.0))
        weighting["outside"] = max(weighting["margin"], FEW_ROWS_FACTOR * farthest)
        weighting["margin"] = weighting["outside"]
