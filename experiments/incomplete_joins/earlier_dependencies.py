"""Imputers with dependencies of attributes on each other and on their own earlier values.

An object's earlier values are the newest known values of its stream, with the logarithm of their
age. The repository needs them as well: its rows are assigned to streams as dense as the real ones,
with the same share of gaps, and each complete row is stored with its stream's earlier values.
"""

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.operators.arrays import Floats
from sfumato.operators.imputation.dependency import Dependency
from sfumato.operators.imputation.discovery import NothingDiscovered, discover_dependencies
from sfumato.operators.imputation.earlier_values import EarlierValues
from sfumato.operators.imputation.imputer import Imputer

NEAR = (0.005, 0.02, 0.08)  # bounds on the determinants; attributes are scaled to [0, 1]
# Dependencies with bounds wider than this multiple of their attribute's tightest bound are omitted:
# combined with it, they take away donors that it needs. This pays for consecutive rows; for rows
# drawn one by one, far apart, often only the wide ones apply. The factor was chosen on short
# streams of the paper's own sets; 1.5 to 3 did nearly as well.
TIGHT = 2.0
SAME_AGE = 1.0  # on the logarithm to base 2: from half to twice as old


class Discovery(NamedTuple):
    """The settings of the search for dependencies."""

    history: bool = True
    near: Sequence[float] = NEAR
    tight: float = TIGHT


WITH_HISTORY = Discovery()


def with_gaps(rng: np.random.Generator, values: Floats, m: int) -> Floats:
    """Remove m random attributes from every row (one always stays)."""
    gaps = values.copy()
    lost = np.argsort(rng.random(gaps.shape), axis=1)[:, : min(m, gaps.shape[1] - 1)]
    np.put_along_axis(gaps, lost, np.nan, axis=1)
    return gaps


def with_history(values: Floats, gaps: Floats, at: Floats, key: npt.ArrayLike) -> Floats:
    """Return float64[n, 3 d]: values, earlier values of the streams, and log ages.

    Earlier values are taken from `gaps`.

    at : float64[n], the rows' times    key : int64[n], their streams
    """
    earlier, age = EarlierValues(values.shape[1]).process(key, at, gaps)
    return np.column_stack([values, earlier, np.log2(1.0 + age)])


def names_with_history(names: Sequence[str]) -> tuple[str, ...]:
    """Return the column names of `with_history`."""
    return (*names, *(f"earlier {name}" for name in names), *(f"age {name}" for name in names))


def discovered(
    rows: Floats, names: Sequence[str], seed: int, how: Discovery = WITH_HISTORY
) -> list[Dependency]:
    """Discover dependencies of each attribute on each other one, bounding half of the near pairs.

    rows : float64[N, 3 d] as `with_history` makes them, or float64[N, d] without history
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingDiscovered)  # some epsilons may have no dependency
        found = _of_every_other_and_its_own(rows, names, seed, how)
    tightest = {d.dependent: d.epsilon for d in sorted(found, key=lambda d: -d.epsilon)}
    return [d for d in found if d.epsilon <= how.tight * tightest[d.dependent]]


def _of_every_other_and_its_own(
    rows: Floats, names: Sequence[str], seed: int, how: Discovery
) -> list[Dependency]:
    d, found = len(names), list[Dependency]()
    for epsilon in how.near:
        discover = partial(
            discover_dependencies, epsilons=(epsilon,), within=1.0, confidence=0.5,
            max_determinants=1, seed=seed,
        )  # fmt: skip
        found += discover(rows[:, :d], names=names)
        for a, name in enumerate(names if how.history else ()):
            own = discover(rows[:, [a, d + a]], names=(name, f"earlier {name}"), dependents=[name])
            for dependency in own:
                determinants = (*dependency.determinants, (f"age {name}", SAME_AGE))
                found.append(Dependency(determinants, name, dependency.epsilon))
    return found


def imputer_of(
    rows: Floats, names: Sequence[str], seed: int, how: Discovery = WITH_HISTORY, **options: Any
) -> Imputer:
    """Return the imputer with dependencies discovered in a repository, attributes within [0, 1].

    rows, names, seed, how : as for `discovered`
    options : of `Imputer`, by default the paper's plain method
    Its objects have the same columns as its rows, without unused ones: float64[n, 3 d] or [n, d].
    """
    columns = names_with_history(names) if how.history else tuple(names)
    plain = {"method": "plain", "least_donors": 3, "max_combinations": 512}
    chosen = {**plain, "max_alternatives": 24, **options}
    found = discovered(rows, names, seed, how)
    units = dict.fromkeys(columns, (0.0, 1.0))
    return Imputer(rows[:, : len(columns)], found, names, names=columns, scaling=units, **chosen)
