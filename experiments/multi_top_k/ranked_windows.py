"""Windows of uncertain tuples and random sets of top-k queries, as in Chen et al. (2013)."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from experiments.datasets import load
from experiments.experiment import Setting
from sfumato.operators.ranking.timetable import KAndFrequency

LONGEST = 40  # longest bound of a query, in seconds
QUERIES, TUPLES, MOST_K, MOST_K_OF_STREAMS = 20, 10_000, 100, 20
# The paper gives visibility as .8, .7, ..., .3, .2; methods of sighting are ordered by reliability.
VISIBILITY = {"R/V": 0.8, "VIS": 0.7, "RAD": 0.6, "SAT-HIGH": 0.5, "SAT-MED": 0.4, "SAT-LOW": 0.3}

# The plans by their names in the paper and in the library.
PLANS = {"NS": "none", "IN": "in", "INCO": "inco", "GA": "greedy", "DP": "dp"}

Data = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]


@dataclass(frozen=True)
class Point:
    """One point of a figure: queries with k from 2 to `most_k` over a window of n tuples."""

    kind: str
    x: int = QUERIES
    n: int = TUPLES
    most_k: int = MOST_K
    streams: int = 100

    def moved(self, axis: str, value: int) -> "Point":
        """Replace the value on one axis of the point: "x", "n", "k", "streams", "tuples"."""
        if axis in ("streams", "tuples"):
            streams = value if axis == "streams" else self.streams
            return replace(self, n=100 * value, streams=streams)
        changed: dict[str, Any] = {"most_k" if axis == "k" else axis: value}
        return replace(self, **changed)


def window(setting: Setting, point: Point) -> Data:
    """Return scores, probabilities and rules of a window's tuples, and their streams if any."""
    rng = setting.rng(1, point.n)
    if point.kind == "icebergs":
        return icebergs(setting, rng, point.n)
    score, prob, alone = rng.random(point.n), 1.0 - rng.random(point.n), np.arange(point.n)
    if point.kind == "streams":
        return score, prob, alone, rng.permutation(point.n) % point.streams
    return score, prob, alone, None


def by_rank(data: Data) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities and rules of a window's tuples, the highest score first."""
    order = np.argsort(-data[0], kind="stable")
    return data[1][order], data[2][order]


def icebergs(setting: Setting, rng: np.random.Generator, n: int) -> Data:
    """Draw random sightings: days since the iceberg's first sighting, reliability of the method."""
    table = load(setting, "Iceberg Patrol")
    first = table.groupby(["iceberg_year", "iceberg_number"]).ts.transform("min")
    days = ((table.ts - first) / pd.Timedelta(days=1)).to_numpy()
    trust = table.method.map(VISIBILITY).fillna(0.2).to_numpy(np.float64)
    drawn = rng.integers(0, len(table), n)
    prob, rule = trust[drawn], np.arange(n)
    begin = np.flatnonzero((prob[:-1] + prob[1:] <= 1.0) & (rng.random(n - 1) < 0.5))
    begin = begin[np.diff(begin, prepend=-2) > 1]
    rule[begin + 1] = rule[begin]
    return days[drawn], prob, rule, None


def queries(
    rng: np.random.Generator, family: str, x: int, ks: tuple[int, int]
) -> list[KAndFrequency]:
    """Draw x queries (k, f), f and k each uniform (u) or Gaussian (g), as in section 10.1."""
    f = rng.integers(1, LONGEST + 1, x) if family[0] == "u" else np.rint(rng.normal(40, 5, x))
    if family[1] == "u":
        k = rng.integers(ks[0], ks[1] + 1, x)
    else:
        mean, sd = (100, 10) if ks[1] >= 100 else (sum(ks) / 2, (ks[1] - ks[0]) / 6)
        k = np.rint(rng.normal(mean, sd, x))
    f, k = np.maximum(f, 1).astype(np.int64), np.maximum(k, 1).astype(np.int64)
    return list(zip(k.tolist(), f.tolist(), strict=True))
