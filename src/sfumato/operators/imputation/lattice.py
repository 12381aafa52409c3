"""The order in which combinations of dependencies are tried."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, islice

import numpy as np
import numpy.typing as npt

from sfumato.operators.arrays import Floats
from sfumato.operators.imputation.dependency import Dependency
from sfumato.operators.imputation.repository_columns import MAX_MASK_BITS

MAX_EXAMINED = 4096  # combinations examined in a level that is too large; the best are kept
MIN_ROWS_PER_CELL = 8  # minimum weighted mean number of rows per cell


@dataclass(frozen=True)
class Combination:
    """Dependencies that apply together, and the number of donors expected by the cost model."""

    parts: tuple[Dependency, ...]
    expected: float

    @property
    def dependency(self) -> Dependency:
        """The equivalent single dependency."""
        return combine(self.parts)


def combine(dependencies: Sequence[Dependency]) -> Dependency:
    """Return one dependency with all determinants and the smallest epsilon of each. Raises
    ValueError if the dependents differ.  Source: Ren et al. (2019), section 3."""
    bounds: dict[str, float] = {}
    for dependency in dependencies:
        if dependency.dependent != dependencies[0].dependent:
            raise ValueError(
                "combined dependencies must have the same dependent; got "
                f"{dependencies[0].dependent!r} and {dependency.dependent!r}"
            )
        for name, epsilon in dependency.determinants:
            bounds[name] = min(epsilon, bounds.get(name, math.inf))
    epsilon = min(dependency.epsilon for dependency in dependencies)
    return Dependency(tuple(bounds.items()), dependencies[0].dependent, epsilon)


def build_lattice(
    dependencies: Sequence[Dependency], expected: Callable[[Dependency], float], most: int
) -> tuple[list[Combination], int]:
    """Return the combinations of one attribute's dependencies, in order of use, and the number of
    combinations that exceed `most`. Level n combines n dependencies; upper levels come first.

    expected : function for the expected number of donors, see `expected_donors`
    most : maximum number of combinations, at least len(dependencies). Level 1 is always kept, then
        the top combinations that fit

    Within a level, expectations of at least 1 come first, ascending, then the others, descending;
    ties are ordered by string. A combination is dropped if an earlier combination is equivalent.
    Source: Ren et al. (2019), section 3.
    """
    single = sorted(set(dependencies), key=str)
    kept: list[Combination] = []
    seen: set[tuple[tuple[str, float], ...]] = set()
    left_out = 0
    for level in range(len(single), 0, -1):
        room = most if level == 1 else max(most - len(kept) - len(single), 0)
        looked = MAX_EXAMINED if math.comb(len(single), level) > room else room
        found = []
        for chosen in islice(combinations(single, level), looked):
            combined = combine(chosen)
            if combined.determinants not in seen:
                seen.add(combined.determinants)
                found.append(Combination(chosen, expected(combined)))
        left_out += max(math.comb(len(single), level) - looked, 0) + max(len(found) - room, 0)
        kept += sorted(found, key=_order_in_level)[:room]
    return kept, left_out


def _order_in_level(each: Combination) -> tuple[bool, float, str]:
    few = each.expected < 1.0
    return few, -each.expected if few else each.expected, str(each.dependency)


def correlation_dimension(points: Floats) -> float:
    """Return the correlation dimension D2 of `points`, estimated by box counting.

    The result is the slope of log sum(cell share ** 2) against log side.

    points : float64[n, k], scaled so that 1 is an attribute's range
    Cells have sides 1/2, 1/4, ...; the smallest contain at least 8 rows on a weighted average.
    The result is between 0 and k, and 0 if all points are equal. O(n log n) per side.
    Source: Belussi and Faloutsos (1998), as used in Ren et al. (2019), appendix B.1.
    """
    n, k = points.shape
    low = points.min(axis=0)
    logs: list[tuple[float, float]] = []
    for step in range(1, max(2, min(20, 62 // k)) + 1):
        cells = np.floor((points - low) * float(1 << step)).astype(np.int64)
        share = float(np.sum((_occupied(cells) / n) ** 2))
        if len(logs) >= 2 and share < MIN_ROWS_PER_CELL / n:
            break
        logs.append((-step * math.log(2.0), math.log(share)))
    x, y = np.array(logs).T
    x = x - x.mean()
    return float(np.clip((x @ (y - y.mean())) / (x @ x), 0.0, k))


def _occupied(cells: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the count of each distinct row of int64[n, k] >= 0."""
    sides = [int(side) + 1 for side in cells.max(axis=0)]
    if math.prod(sides) >= 2**62:
        return np.unique(cells, axis=0, return_counts=True)[1]
    code = np.zeros(len(cells), np.int64)  # codes sort a hundred times faster than rows
    for column, side in zip(cells.T, sides, strict=True):
        code = code * side + column
    return np.unique(code, return_counts=True)[1]


def expected_donors(dependency: Dependency, rows: int, dimension: float) -> float:
    """Estimate the number of donors that a dependency finds for a typical object.

    The estimate is (rows - 1) * prod(min(1, 2 epsilon)) ** (dimension / number of determinants).
    Source: Ren et al. (2019), appendix B.1.
    """
    sides = math.prod(min(1.0, 2.0 * epsilon) for _, epsilon in dependency.determinants)
    return float((rows - 1) * sides ** (dimension / len(dependency.determinants)))


def tightest_dependencies(dependencies: Iterable[Dependency], dependent: str) -> list[Dependency]:
    """Return an attribute's tightest dependencies, at most 62, the tightest first."""
    own = [d for d in set(dependencies) if d.dependent == dependent]
    return sorted(own, key=_tightness)[:MAX_MASK_BITS]


def donor_estimator(scaled: Floats, names: Sequence[str]) -> Callable[[Dependency], float]:
    """Return a function that estimates a dependency's donors among rows float64[N, D]."""

    @cache
    def dimension(chosen: tuple[str, ...]) -> float:
        return correlation_dimension(scaled[:, [names.index(name) for name in chosen]])

    return lambda each: expected_donors(each, len(scaled), dimension(each.names))


def _tightness(dependency: Dependency) -> tuple[float, int, float, str]:
    reach = sum(epsilon for _, epsilon in dependency.determinants)
    return dependency.epsilon, len(dependency.names), reach, str(dependency)
