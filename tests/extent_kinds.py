"""The three windows over extents, of usual, corrected and shared rows, with rows to feed them."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from extents import in_parts, simulated
from sfumato.operators.windows.extent_aggregate import ExtentAggregate
from sfumato.operators.windows.identified_extents import (
    SharedExtentAggregate,
    VersionedExtentAggregate,
)
from window_cases import random_tuples

WEIGHTS = [
    [Fraction(1, 2), Fraction(1, 2)],
    [Fraction(1, 4), Fraction(1, 8), Fraction(5, 8)],
    [Fraction(1, 4), Fraction(1, 2)],
    [Fraction(3, 8)],
    [Fraction(1)],
]


@dataclass
class Rows:
    """data : as `extents.stream`    ids : the arguments that name the rows' ids to `in_parts`

    versions : (id or -1, version or number of weights) of each row for `simulated`
    """

    data: tuple
    tuples: list
    ids: dict[str, Any] = field(default_factory=dict)
    versions: tuple | None = None
    shared: bool = False

    def simulate(self, length, slide, exists):
        return simulated(length, slide, self.data, exists, True, self.versions, self.shared)

    def outcomes(self):
        """Return the number of each row's outcome, or None for independent rows."""
        return self.ids.get("shared")

    def process(self, window, rng, crash=True):
        return in_parts(window, rng, self.data, self.tuples, crash, **self.ids)


def usual(rng, data, ids, **options):
    return Rows(data, random_tuples(rng, len(data[0]), 2, **options))


def corrected(rng, data, ids, **options):
    """Return rows with few ids per group, or none; most versions rise."""
    group, n = data[0], len(data[0])
    of = group * ids + rng.integers(0, ids, n)
    of[rng.random(n) < 0.1] = -1
    versions = of, np.arange(n) // 2 + rng.integers(-8, 3, n)
    tuples = random_tuples(rng, n, 2, **options)
    return Rows(data, tuples, {"versions": versions}, versions)


def shared(rng, data, ids, wrong=0.0, **options):
    """Return rows with few outcomes per group, or none; a share has the wrong weights."""
    group, n = data[0], len(data[0])
    tuples = random_tuples(rng, n, 2, **options)
    of = group * ids + rng.integers(0, ids, n)
    of[rng.random(n) < 0.3] = -1
    number = rng.integers(0, len(WEIGHTS), of.max(initial=0) + 1)[of]
    number[rng.random(n) < wrong] = 0
    for i in np.flatnonzero(of >= 0):
        weights = WEIGHTS[number[i]]
        others = random_tuples(rng, len(weights), 2, most=1)
        tuples[i] = [(p, values) for p, [(_, values)] in zip(weights, others, strict=True)]
    return Rows(data, tuples, {"shared": of}, (of, number), True)


# name -> the window, its rows, and its counters that the simulation has under another name or not
KINDS = {
    "usual": (ExtentAggregate, usual, {}),
    "corrected": (
        VersionedExtentAggregate, corrected, {"outdated": "outdated", "corrections": "corrected"}
    ),
    "shared": (SharedExtentAggregate, shared, {"unequal": "unequal"}),
}  # fmt: skip
