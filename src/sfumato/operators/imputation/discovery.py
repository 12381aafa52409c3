"""Discovery of dependencies in a repository by a search over thresholds."""

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.operators.arguments import distance, scaling_pairs, share, whole
from sfumato.operators.arrays import Floats
from sfumato.operators.imputation.dependency import Dependency
from sfumato.operators.imputation.prepared_repository import rounding_errors
from sfumato.operators.imputation.repository_columns import columns_of, sample_rows

EPSILONS = (0.01, 0.02, 0.05, 0.1, 0.2)
EPSILON_PARTS = 1e4  # found epsilons are rounded up to multiples of 1/EPSILON_PARTS
MIN_PAIRS = 30  # a share of fewer pairs is not meaningful
MAX_MISSES = 5  # maximum number of attributes for which a warning describes the nearest miss


class NothingDiscovered(UserWarning):
    """Warning that some attributes have no dependency, with the nearest misses."""


def discover_dependencies(
    repository: Mapping[str, npt.ArrayLike] | npt.ArrayLike,
    *,
    names: Sequence[str] | None = None,
    dependents: Iterable[str] | None = None,
    scaling: Mapping[str, tuple[float, float]] | None = None,
    seed: int = 0,
    calls: int = 0,
    **settings: Any,
) -> list[Dependency]:
    """Find differential dependencies that nearly hold in a repository.

    repository, names, scaling : as for `Imputer`; all epsilons refer to scaled attributes
    dependents : names of the attributes to infer (None: all)
    within : float > 0, the largest epsilon of a dependent    confidence : float in (0, 1]
    epsilons : candidates for the determinants, each used for all determinants of a dependency
    max_determinants : int >= 1    least_donors : float >= 0, see below
    sample, seed : largest number of rows that are compared in pairs, and the seed for drawing them
    calls : number of stack frames between the caller and the user's code, which warnings name

    For every set of determinants, each of `epsilons` is accepted if the share of close pairs within
    `within` on the dependent is at least `confidence`. The dependent's epsilon is then the smallest
    with this confidence, rounded up to four digits. An epsilon is skipped if fewer than 30 pairs
    are close, or if fewer than `least_donors` donors are expected in the repository. A dependency
    is also skipped if a previous dependency implies it.

    Returns dependencies with `confidence`, `support` and `spread` in the sample; for each
    dependent, smaller epsilons come first. Data outside the repository may violate these
    dependencies.
    Cost: O(sample**2) per set of determinants, dependent and epsilon.
    Raises ValueError for arguments outside these ranges; warns with NothingDiscovered.
    Source: threshold search similar to Song and Chen (2011), as in Ren et al. (2019), section 6.1.
    """
    known, rows = columns_of(repository, names)
    chosen = list(known) if dependents is None else list(dependents)
    unknown = [name for name in chosen if name not in known]
    if unknown:
        raise ValueError(f"`dependents` must be columns of {list(known)}; got {unknown}")
    search = Search(**settings)
    if len(rows) < 2:
        return []
    kept = sample_rows(rows, search.sample, np.random.default_rng(seed))
    differences = _differences(kept, rows, known, scaling_pairs(scaling))
    found: dict[str, list[Dependency]] = {name: [] for name in chosen}
    missed: dict[str, NearMiss | None] = dict.fromkeys(chosen)
    least = search.least_donors / (len(rows) - 1)
    for size in range(1, min(search.max_determinants, len(known) - 1) + 1):
        for chosen_columns in combinations(range(len(known)), size):
            reach = differences[list(chosen_columns)].max(axis=0)
            for name in chosen:
                if known.index(name) in chosen_columns:
                    continue
                determinants = [known[a] for a in chosen_columns]
                difference = differences[known.index(name)]
                for each in _candidates(reach, difference, (determinants, name), search, least):
                    if isinstance(each, NearMiss):
                        missed[name] = max(missed[name] or each, each)
                    elif not any(_implies(d, each) for d in found[name]):
                        found[name].append(each)
    _warn_of_misses({name: missed[name] for name in chosen if not found[name]}, search, calls)
    return [
        dependency
        for name in chosen
        for dependency in sorted(found[name], key=lambda d: (d.epsilon, len(d.names), str(d)))
    ]


def _differences(
    kept: Floats, rows: Floats, names: Sequence[str], scaling: dict[str, tuple[float, float]]
) -> Floats:
    """Return |difference| of every pair of rows on each scaled attribute: float64[D, pairs]. The
    largest rounding error is subtracted, so that comparisons agree with `Imputer`."""
    first, second = np.triu_indices(len(kept), 1)
    result = np.empty((len(names), first.size))
    for a, name in enumerate(names):
        low, high = rows[:, a].min(), rows[:, a].max()
        shift, span = scaling.get(name, (low, (high - low) or 1.0))
        scaled = (kept[:, a] - shift) / span
        room = rounding_errors(rows[:, [a]], np.array([shift]), np.array([span]))
        np.maximum(np.abs(scaled[first] - scaled[second]) - room, 0.0, out=result[a])
    return result


@dataclass(frozen=True)
class Search:
    """Validated requirements of a dependency, and candidate epsilons."""

    within: float = 0.1
    confidence: float = 0.95
    epsilons: Sequence[float] = EPSILONS
    max_determinants: int = 2
    sample: int = 1000
    least_donors: float = 1.0

    def __post_init__(self) -> None:
        distance("within", self.within)
        share("confidence", self.confidence, "a share")
        listed = isinstance(self.epsilons, Iterable) and [*self.epsilons]
        if not listed or not all(e >= 0.0 and math.isfinite(e) for e in listed):
            raise ValueError(
                f"`epsilons` must be a list of finite numbers of at least 0; got {self.epsilons!r}"
            )
        whole("max_determinants", self.max_determinants)
        if whole("sample", self.sample) < 2:
            raise ValueError(f"`sample` must be at least 2; got {self.sample!r}")


class NearMiss(NamedTuple):
    """Rejected candidate: too few of the close pairs are within `within` on the dependent."""

    share: float
    pairs: int
    determinants: tuple[str, ...]
    epsilon: float

    def __str__(self) -> str:
        near = ", ".join(self.determinants)
        return f"within {self.epsilon:g} on {near} ({self.share:.1%} of {self.pairs} pairs)"


def _candidates(
    reach: Floats, difference: Floats, names: tuple[list[str], str], search: Search, least: float
) -> Iterator[Dependency | NearMiss]:
    """Yield, for each epsilon, the dependency with enough confidence, or a `NearMiss`."""
    determinants, dependent = names
    for epsilon in sorted(search.epsilons, reverse=True):
        near = difference[reach <= epsilon]
        support = near.size / difference.size
        if near.size < MIN_PAIRS or support < least:
            return  # smaller epsilons have even fewer pairs
        inside = int(np.count_nonzero(near <= search.within))
        if inside < search.confidence * near.size:
            yield NearMiss(inside / near.size, near.size, tuple(determinants), epsilon)
            continue
        needed = min(math.ceil(search.confidence * near.size), near.size)
        bound = float(np.partition(near, needed - 1)[needed - 1])
        bound = min(math.ceil(bound * EPSILON_PARTS) / EPSILON_PARTS, search.within)
        yield Dependency(
            tuple((name, epsilon) for name in determinants),
            dependent,
            bound,
            confidence=int(np.count_nonzero(near <= bound)) / near.size,
            support=support,
            spread=float(near.max()),
        )


def _warn_of_misses(missed: Mapping[str, NearMiss | None], search: Search, calls: int) -> None:
    if not missed:
        return
    lines = [
        f"`{name}`: "
        + (f"the closest candidate is {miss}" if miss else "too few pairs of rows are close")
        for name, miss in list(missed.items())[:MAX_MISSES]
    ]
    if len(missed) > MAX_MISSES:
        lines.append(f"and {len(missed) - MAX_MISSES} more")
    warnings.warn(
        f"no dependency found for {len(missed)} attribute{'s' * (len(missed) > 1)}: "
        f"{search.confidence:.0%} of the close pairs of rows must differ by at most "
        f"{search.within:g} of the range; " + "; ".join(lines)
        + ". To find looser dependencies, give a larger `within`, a lower `confidence` or more "
        "`max_determinants`",
        NothingDiscovered,
        stacklevel=3 + calls,
    )  # fmt: skip


def _implies(smaller: Dependency, larger: Dependency) -> bool:
    """Return whether `smaller` implies `larger`: `smaller` has no additional determinants, the
    epsilons of its determinants are at least as large, and its dependent's epsilon is at most as
    large."""
    bounds = dict(larger.determinants)
    return smaller.epsilon <= larger.epsilon and all(
        name in bounds and epsilon >= bounds[name] for name, epsilon in smaller.determinants
    )
