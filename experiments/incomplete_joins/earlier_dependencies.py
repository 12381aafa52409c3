"""Imputers by dependencies of attributes on each other and on their own earlier values.

An object's earlier values are the newest known values of its stream, with the logarithm of their
age. The repository needs them as well: its rows are given to streams as dense as the real streams,
with the same share of gaps, and each complete row is stored with what such a stream knew before.
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

NEAR = (0.005, 0.02, 0.08)  # of the determinants, attributes scaled to [0, 1]
# Dependencies with wider bounds than that many times the tightest of their attribute are left out:
# combined with it they take away donors that it needs. That pays where rows follow each other; of
# rows drawn one by one, far apart, the wide ones are often all that applies. The factor was chosen
# on short streams of the paper's own sets; 1.5 to 3 did nearly as well.
TIGHT = 2.0
SAME_AGE = 1.0  # of the logarithm to base 2: from half to twice as old


class Discovery(NamedTuple):
    """Which dependencies are looked for."""

    history: bool = True
    near: Sequence[float] = NEAR
    tight: float = TIGHT


WITH_HISTORY = Discovery()


def with_gaps(rng: np.random.Generator, values: Floats, m: int) -> Floats:
    """Every row without m of its attributes, drawn at random (one always stays)."""
    gaps = values.copy()
    lost = np.argsort(rng.random(gaps.shape), axis=1)[:, : min(m, gaps.shape[1] - 1)]
    np.put_along_axis(gaps, lost, np.nan, axis=1)
    return gaps


def with_history(values: Floats, gaps: Floats, at: Floats, key: npt.ArrayLike) -> Floats:
    """float64[n, 3 d]: values, followed by what their streams, with these gaps, knew before,
    and since when.

    at : float64[n], the rows' times    key : int64[n], their streams
    """
    earlier, age = EarlierValues(values.shape[1]).process(key, at, gaps)
    return np.column_stack([values, earlier, np.log2(1.0 + age)])


def names_with_history(names: Sequence[str]) -> tuple[str, ...]:
    """Names of the columns of `with_history`."""
    return (*names, *(f"earlier {name}" for name in names), *(f"age {name}" for name in names))


def discovered(
    rows: Floats, names: Sequence[str], seed: int, how: Discovery = WITH_HISTORY
) -> list[Dependency]:
    """Dependencies of each attribute on each other one, with the bound half of the near pairs obey.

    rows : float64[N, 3 d] as `with_history` makes them, or float64[N, d] without
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingDiscovered)  # one epsilon may have none
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
    """The imputer by the dependencies discovered in a repository, attributes within [0, 1].

    rows, names, seed, how : as for `discovered`
    options : of `Imputer`, by default the paper's plain method
    Its objects are like its rows, without what is not needed: float64[n, 3 d] or [n, d].
    """
    columns = names_with_history(names) if how.history else tuple(names)
    plain = {"method": "plain", "least_donors": 3, "max_combinations": 512}
    chosen = {**plain, "max_alternatives": 24, **options}
    found = discovered(rows, names, seed, how)
    units = dict.fromkeys(columns, (0.0, 1.0))
    return Imputer(rows[:, : len(columns)], found, names, names=columns, scaling=units, **chosen)
