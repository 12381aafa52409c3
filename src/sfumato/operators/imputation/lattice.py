"""The order in which dependencies are tried."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.operators.arrays import Floats, Ints
from sfumato.operators.imputation.dependency import Dependency
from sfumato.operators.imputation.prepared_repository import MOST_DEPENDENCIES, Box

LOOKED_AT = 4096  # combinations of a level that is too large to keep, the best of which stay
FEWEST_IN_CELLS = 8  # rows a cell must hold, weighted, for a scale to tell of the distribution


@dataclass(frozen=True)
class Combination:
    """Dependencies as one, and how many donors that expects by the cost model."""

    parts: tuple[Dependency, ...]
    expected: float

    @property
    def level(self) -> int:
        """Number of dependencies."""
        return len(self.parts)

    @property
    def dependency(self) -> Dependency:
        """Return what the dependencies ask together."""
        return combine(self.parts)


@dataclass(frozen=True)
class Lattice:
    """Combinations for one attribute in order of choice; `left_out`: those beyond the cap."""

    combinations: tuple[Combination, ...]
    left_out: int


def combine(dependencies: Sequence[Dependency]) -> Dependency:
    """One dependency that asks all that several ask: all determinants, the smaller epsilons.

    Raises ValueError unless all have the same dependent.  Source: E, section 3.
    """
    bounds: dict[str, float] = {}
    for dependency in dependencies:
        if dependency.dependent != dependencies[0].dependent:
            raise ValueError(
                "dependencies combine only for one dependent; "
                f"got {dependencies[0].dependent!r} and {dependency.dependent!r}"
            )
        for name, epsilon in dependency.determinants:
            bounds[name] = min(epsilon, bounds.get(name, math.inf))
    epsilon = min(dependency.epsilon for dependency in dependencies)
    return Dependency(tuple(bounds.items()), dependencies[0].dependent, epsilon)


def build_lattice(
    dependencies: Sequence[Dependency], expected: Callable[[Dependency], float], most: int
) -> Lattice:
    """Combinations of dependencies with one dependent: from the top level, all, to each alone.

    expected : donors that a dependency is expected to find, see `expected_donors`
    most : at least len(dependencies). Level 1 always stays; of the others the upper ones, and of
        the level that the cap meets the first by the order of choice

    In a level those with an expectation of at least 1 come first, the smallest first, then the
    others, the largest first; ties by text. A combination that asks the same as one before it is
    dropped, as it would find the same.  Source: E, section 3.
    """
    single = sorted(set(dependencies), key=str)
    kept: list[Combination] = []
    seen: set[tuple[tuple[str, float], ...]] = set()
    left_out = 0
    for level in range(len(single), 0, -1):
        room = most - len(kept) - (len(single) if level > 1 else 0)
        if level == 1:
            room = most
        looked = LOOKED_AT if math.comb(len(single), level) > room else room
        found = []
        for chosen in islice(combinations(single, level), max(looked, 0)):
            combined = combine(chosen)
            if combined.determinants not in seen:
                seen.add(combined.determinants)
                found.append(Combination(chosen, expected(combined)))
        left_out += max(math.comb(len(single), level) - max(looked, 0), 0)
        found.sort(key=_choice)
        left_out += max(len(found) - max(room, 0), 0)
        kept += found[: max(room, 0)]
    return Lattice(tuple(kept), left_out)


def _choice(each: Combination) -> tuple[bool, float, str]:
    few = each.expected < 1.0
    return few, -each.expected if few else each.expected, str(each.dependency)


def correlation_dimension(points: Floats) -> float:
    """D2 of a set of points by box counting: slope of log sum(share of a cell ** 2) over log side.

    points : float64[n, k], scaled so that 1 is an attribute's extent
    Cells have sides 1/2, 1/4, ...; the smallest used still hold 8 rows, weighted by their rows.
    Between 0 and k; 0 where all points are one. O(n log n) a side.
    Source: Belussi and Faloutsos (1998), as E, appendix B.1, uses it.
    """
    n, k = points.shape
    low = points.min(axis=0)
    logs: list[tuple[float, float]] = []
    for step in range(1, max(2, min(20, 62 // k)) + 1):
        cells = np.floor((points - low) * float(1 << step)).astype(np.int64)
        share = float(np.sum((_occupied(cells) / n) ** 2))
        if len(logs) >= 2 and share < FEWEST_IN_CELLS / n:
            break
        logs.append((-step * math.log(2.0), math.log(share)))
    x, y = np.array(logs).T
    x = x - x.mean()
    return float(np.clip((x @ (y - y.mean())) / (x @ x), 0.0, k))


def _occupied(cells: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Count the equal rows of int64[n, k] >= 0, for each different one."""
    sides = [int(side) + 1 for side in cells.max(axis=0)]
    if math.prod(sides) >= 2**62:
        return np.unique(cells, axis=0, return_counts=True)[1]
    code = np.zeros(len(cells), np.int64)  # sorts a hundred times faster than rows do
    for column, side in zip(cells.T, sides, strict=True):
        code = code * side + column
    return np.unique(code, return_counts=True)[1]


def expected_donors(dependency: Dependency, rows: int, dimension: float) -> float:
    """Rows that a dependency should find for an object like those of the repository.

    (rows - 1) * prod(2 epsilon) ** (dimension / determinants), sides above the extent cut to it.
    Source: E, appendix B.1.
    """
    sides = math.prod(min(1.0, 2.0 * epsilon) for _, epsilon in dependency.determinants)
    return float((rows - 1) * sides ** (dimension / len(dependency.determinants)))


@dataclass(frozen=True)
class Choices:
    """ordered : the dependencies; bit i of a choice is number i    lattice : what "plain" tries"""

    ordered: tuple[Dependency, ...]
    lattice: Lattice

    def chosen(self, choice: int) -> list[Dependency]:
        """Return the dependencies of a choice."""
        return [each for i, each in enumerate(self.ordered) if choice >> i & 1]

    def boxes(self, names: Sequence[str]) -> list[Box]:
        """Columns and epsilons of each dependency; names : of the columns."""
        return [
            ([names.index(name) for name in each.names], [e for _, e in each.determinants])
            for each in self.ordered
        ]

    def sets(self) -> list[int]:
        """The combinations of the lattice as choices."""
        return [
            sum(1 << self.ordered.index(part) for part in each.parts)
            for each in self.lattice.combinations
        ]

    def bounds(self, chosen: Ints) -> Floats:
        """float64[n]: the least epsilon of each choice, infinite where it is none."""
        sets, which = np.unique(chosen, return_inverse=True)
        least = [min((d.epsilon for d in self.chosen(max(c, 0))), default=np.inf) for c in sets]
        return np.array(least)[which.reshape(-1)]

    def as_json(self) -> dict[str, Any]:
        """For a snapshot."""
        tried = [[[str(d) for d in c.parts], c.expected] for c in self.lattice.combinations]
        ordered = [str(each) for each in self.ordered]
        return {"ordered": ordered, "combinations": tried, "left_out": self.lattice.left_out}

    @classmethod
    def of_json(cls, saved: Mapping[str, Any]) -> Choices:
        """Return the choices whose `as_json` this is."""
        tried = [Combination(_parsed(texts), expected) for texts, expected in saved["combinations"]]
        return cls(_parsed(saved["ordered"]), Lattice(tuple(tried), saved["left_out"]))


def all_choices(
    dependencies: Iterable[Dependency], attributes: Sequence[str], build: Callable[..., Lattice]
) -> tuple[Choices, ...]:
    """Each attribute's, first the dependencies that promise the smallest distance.

    build : gives the lattice of some dependencies
    """
    several = ([d for d in set(dependencies) if d.dependent == name] for name in attributes)
    ordered = (tuple(sorted(own, key=_tightness)[:MOST_DEPENDENCIES]) for own in several)
    return tuple(Choices(own, build(own)) for own in ordered)


def donors_expected(scaled: Floats, names: Sequence[str]) -> Callable[[Dependency], float]:
    """Return an estimate of the donors of a dependency among rows float64[N, D]."""
    dimensions: dict[tuple[str, ...], float] = {}

    def expected(dependency: Dependency) -> float:
        chosen = dependency.names
        if chosen not in dimensions:
            columns = [names.index(name) for name in chosen]
            dimensions[chosen] = correlation_dimension(scaled[:, columns])
        return expected_donors(dependency, len(scaled), dimensions[chosen])

    return expected


def _tightness(dependency: Dependency) -> tuple[float, int, float, str]:
    reach = sum(epsilon for _, epsilon in dependency.determinants)
    return dependency.epsilon, len(dependency.names), reach, str(dependency)


def _parsed(texts: Iterable[str]) -> tuple[Dependency, ...]:
    return tuple(map(Dependency.parse, texts))
