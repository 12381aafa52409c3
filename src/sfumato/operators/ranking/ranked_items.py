"""Validated items with scores, probabilities and generation rules."""

import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.distributions.tuples import check_probabilities
from sfumato.kernels.ranking.ranked_items import RankedItems
from sfumato.operators.arguments import SUM_TOLERANCE
from sfumato.operators.arrays import Floats, Ints
from sfumato.operators.distributions.poisson_binomial import as_floats


class RuleMassError(ValueError):
    """Error for a rule or a tuple whose probabilities sum to more than 1."""


def checked_items(
    scores: npt.ArrayLike,
    prob: npt.ArrayLike,
    exclusive: npt.ArrayLike | None = None,
    tuples: npt.ArrayLike | None = None,
    *,
    ascending: bool = False,
) -> RankedItems:
    """Validate items to rank: alternatives of tuples, or tuples with one alternative each.

    scores : float array [n], finite. Higher scores rank higher, unless `ascending`; equal scores
        rank in order of index (arrival)
    prob : float array [n] in (0, 1] (up to 1 + 1e-9, clipped)
    exclusive : int array [n] or None: items with equal id >= 0 belong to one rule and exclude each
        other; negative: no rule
    tuples : int array [n] or None: the tuple of each alternative, numbered from 0 (None: every item
        is a separate tuple). Alternatives of a tuple exclude each other and share its rule

    Raises ValueError for wrong dimensions or lengths, scores that are not finite, probabilities
    outside (0, 1], and a tuple in two rules; RuleMassError for a rule or tuple whose probabilities
    sum to more than 1 + 1e-9.
    """
    score, chance = as_floats("scores", scores), as_floats("prob", prob)
    n = score.size
    if chance.size != n:
        raise ValueError(f"`prob` must have {n} entries, one per score; got {chance.size}")
    if not np.isfinite(score).all():
        bad = int(np.flatnonzero(~np.isfinite(score))[0])
        raise ValueError(
            f"`scores` must be finite; got {score[bad]} at index {bad}. Leave such items out"
        )
    bad, above, _, possible = check_probabilities(chance, 1.0 + SUM_TOLERANCE)
    if bad >= 0 or possible < n:
        bad = bad if bad >= 0 else int(np.flatnonzero(chance <= 0.0)[0])
        raise ValueError(
            f"`prob` must contain probabilities in (0, 1]; got {chance[bad]} at index {bad}. "
            "Reject or repair such items first"
        )
    chance = np.minimum(chance, 1.0) if above else chance
    key, single = score if ascending else -score, tuples is None
    owner = np.arange(n) if tuples is None else as_whole_numbers("tuples", tuples, n)
    count = int(owner.max(initial=-1)) + 1
    if owner.min(initial=0) < 0 or count > n or not np.bincount(owner).all():
        raise ValueError(
            "`tuples` must be tuple numbers 0, 1, 2, ... without gaps; got numbers from "
            f"{owner.min()} to {owner.max()} for {n} items"
        )
    if not single:
        _check_masses(chance, owner, np.arange(count), "tuple")
    if exclusive is None:
        rule, rules = (np.full(n, -1), 0) if single else (owner, count)
        return RankedItems(key, score, chance, rule, owner, rules, count, single)
    ids = np.maximum(as_whole_numbers("exclusive", exclusive, n), -1)
    names, rule = np.unique(np.append(ids, -1), return_inverse=True)
    rule, rules = rule[:-1] - 1, names.size - 1
    _check_masses(chance, rule, names[1:], "rule")
    if single:
        return RankedItems(key, score, chance, rule, owner, rules, count, single)
    first = np.empty(count, np.int64)
    first[owner[::-1]] = ids[::-1]
    wrong = np.flatnonzero(first[owner] != ids)
    if wrong.size:
        raise ValueError(
            f"tuple {owner[wrong[0]]} has alternatives in different rules: "
            "all alternatives of a tuple need the same value of `exclusive`"
        )
    rule = np.where(rule >= 0, rule, rules + owner)
    return RankedItems(key, score, chance, rule, owner, rules + count, count, single)


def checked_k(k: Any) -> int:
    """Return `k` as an int, or raise ValueError unless it is an integer of at least 1."""
    try:
        number = operator.index(k)
    except TypeError:
        number = 0
    if isinstance(k, (bool, np.bool_)) or not 1 <= number < 2**31:
        raise ValueError(f"`k` must be an integer of at least 1; got {k!r}")
    return number


def as_whole_numbers(name: str, values: npt.ArrayLike, length: int) -> Ints:
    """Return a copy of `values` as int64[length], or raise ValueError with `name`."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu" and array.size:
        raise ValueError(f"`{name}` must be integers; got {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"`{name}` must have one dimension; got {array.ndim}")
    if array.size != length:
        raise ValueError(f"`{name}` must have {length} entries, one per tuple; got {array.size}")
    return np.array(array, dtype=np.int64)


def _check_masses(prob: Floats, rule: Ints, names: Ints, kind: str) -> None:
    bound = rule >= 0
    masses = np.bincount(rule[bound], prob[bound], names.size)
    if masses.max(initial=0.0) > 1.0 + SUM_TOLERANCE:
        worst = int(masses.argmax())
        raise RuleMassError(
            f"the members of {kind} {names[worst]} exclude each other, so their probabilities "
            f"must sum to at most 1; got {masses[worst]:.12g}. Scale the probabilities, or split "
            "the members"
        )
