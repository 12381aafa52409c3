"""Which pairs a join still finds when values are missing: F-score against the complete join.

Four real sets, four attributes each, scaled to [0, 1]. A stream is a sample of the rows in time
order, of whose objects each loses m attributes at random; a sample of the rest of the data is the
repository. The complete data's join, over windows of the newest rows, is the truth. Streams are of
two kinds: `stretches` of rows that follow each other, as a sensor sends them, and `scattered` rows
drawn one by one. Compared: dependencies (missing attributes independent, as in E, and joint; pairs
of probability at least 1/2, and `lenient`, at least 1/5), the five nearest rows of the repository,
interpolation between the stream's own rows before and after (which waits for the next one, as no
join could), the repository's mean.

The dependencies are discovered: of every attribute on every other one, near in two degrees, with
the bound that half of the near pairs obey. Combined by the lattice they find the rows near in all
attributes present, if there are any.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from sfumato.operators.dependency import Dependency
from sfumato.operators.discovery import discover_dependencies
from sfumato.operators.imputation import Imputer
from sfumato.operators.imputation_baselines import (
    impute_mean,
    impute_nearest,
    interpolate_stream,
)
from sfumato.operators.incomplete_join import IncompleteArrivals, IncompleteJoin
from sfumato.operators.similarity_join import Arrivals, SimilarityJoin

SETS = {
    "Intel lab": ("intel_lab_9motes", "ts", ["temperature", "humidity", "light", "voltage"]),
    "gas": ("gas_home_activity_1min", "ts", ["temperature", "humidity", "R7", "R8"]),
    "weather": (
        "weather_hourly_temperature",
        "datetime",
        ["Portland", "Seattle", "Los_Angeles", "San_Diego"],
    ),
    "stocks": ("sp500_stocks_5yr", "date", ["open", "high", "low", "close"]),
}  # fmt: skip
NAMES = ("a", "b", "c", "d")
NEAR = (0.02, 0.1)
REPOSITORY = 5_000
STRETCHES, LENGTH = 10, 60  # every second row is of the left side
WITHIN, ALPHA, LENIENT, ROWS = (0.1, 0.3), 0.5, 0.2, 100
KINDS = ("stretches", "scattered")

WAYS = ("dependencies", "joint", "lenient", "nearest", "interpolation", "mean")

Pairs = set[tuple[int, int]]


def load(name: str) -> np.ndarray | None:
    """float64[n, 4], complete rows by time, scaled to [0, 1]; None where the set is absent."""
    root = Path(__file__).resolve().parents[1]
    folder = Path(os.environ.get("SFUMATO_DATA", root.parent / "shared" / "data"))
    file, order, attributes = SETS[name]
    path = folder / f"{file}.parquet"
    if not path.exists():
        return None
    table = pq.read_table(path, columns=[order, *attributes]).sort_by(order)
    values = np.column_stack([table.column(a).to_numpy() for a in attributes]).astype(float)
    if name == "Intel lab":  # dying batteries
        values = values[(values[:, 0] < 50) & (values[:, 1] > 0)]
    values = values[np.isfinite(values).all(axis=1)]
    return (values - values.min(axis=0)) / (values.max(axis=0) - values.min(axis=0))


def split(values: np.ndarray, kind: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(stream, repository): rows of the kind wanted, and a sample of the others."""
    rng = np.random.default_rng(seed)
    if kind == "stretches":
        starts = (np.arange(STRETCHES) + 0.5) * len(values) / STRETCHES
        taken = (starts.astype(int)[:, None] + np.arange(LENGTH)).reshape(-1)
    else:
        taken = np.sort(rng.choice(len(values), STRETCHES * LENGTH, replace=False))
    rest = np.delete(values, taken, axis=0)
    chosen = rng.choice(len(rest), min(REPOSITORY, len(rest)), replace=False)
    return values[taken], rest[np.sort(chosen)]


def with_gaps(values: np.ndarray, m: int, seed: int) -> np.ndarray:
    """Every row without m of its attributes, chosen at random."""
    gaps = values.copy()
    lost = np.argsort(np.random.default_rng(seed).random(values.shape), axis=1)[:, :m]
    np.put_along_axis(gaps, lost, np.nan, axis=1)
    return gaps


def side_of(values: np.ndarray) -> np.ndarray:
    return (np.arange(len(values)) % 2).astype(np.uint8)


def certain_pairs(values: np.ndarray, within: float) -> Pairs:
    """The join of objects with one value each."""
    n = len(values)
    join = SimilarityJoin(values.shape[1], within, ALPHA, ROWS, 1.0)
    points = np.ascontiguousarray(values)
    answers = join.process(
        Arrivals(side_of(values), np.zeros(n, np.int64), np.arange(n + 1), np.ones(n), points)
    )
    return set(zip(answers.left.tolist(), answers.right.tolist(), strict=True))


def uncertain_pairs(imputer: Imputer, gaps: np.ndarray, within: float, alpha: float) -> Pairs:
    """The fused join of incomplete objects."""
    join = IncompleteJoin(imputer, within, alpha, ROWS)
    answers, _ = join.process(
        IncompleteArrivals(side_of(gaps), np.zeros(len(gaps), np.int64), gaps.copy())
    )
    return set(zip(answers.left.tolist(), answers.right.tolist(), strict=True))


def f_score(found: Pairs, true: Pairs) -> float:
    """2 precision recall / (precision + recall) = 2 both / (found + true)."""
    return 2 * len(found & true) / max(len(found) + len(true), 1)


def interpolated(repository: np.ndarray, gaps: np.ndarray) -> np.ndarray:
    """Each side from its own rows; what no row of a stream has, from the mean."""
    result = gaps.copy()
    for side in (0, 1):
        result[side::2] = interpolate_stream(gaps[side::2])
    return impute_mean(repository, result)


def discovered(repository: np.ndarray, seed: int) -> list[Dependency]:
    found = []
    for epsilon in NEAR:
        found += discover_dependencies(
            repository, names=NAMES, max_determinants=1, epsilons=(epsilon,), within=1.0,
            confidence=0.5, seed=seed,
        )  # fmt: skip
    return found


def scores(stream: np.ndarray, repository: np.ndarray, m: int) -> list[dict[str, float]]:
    """F-scores of every way, for each distance of WITHIN."""
    gaps, found = with_gaps(stream, m, seed=m), discovered(repository, seed=m)
    uncertain, joint = (
        Imputer(repository, found, names=NAMES, joint=joint, max_alternatives=64)
        for joint in (False, True)
    )
    certain = {
        "nearest": impute_nearest(repository, gaps),
        "interpolation": interpolated(repository, gaps),
        "mean": impute_mean(repository, gaps),
    }
    rows = []
    for within in WITHIN:
        true = certain_pairs(stream, within)
        row: dict[str, float] = {"pairs": len(true)}
        for name, imputer, alpha in (
            ("dependencies", uncertain, ALPHA),
            ("joint", joint, ALPHA),
            ("lenient", uncertain, LENIENT),
        ):
            row[name] = f_score(uncertain_pairs(imputer, gaps, within, alpha), true)
        for name, values in certain.items():
            row[name] = f_score(certain_pairs(values, within), true)
        rows.append(row)
    return rows


def averaged(rows: list[dict[str, Any]], kind: str, within: float) -> dict[str, Any]:
    """The mean of the rows of one kind and distance; met: dependencies beat every other way."""
    own = [row for row in rows if row["kind"] == kind and row["within"] == within]
    means = {way: float(np.mean([row[way] for row in own])) for way in WAYS}
    met = means["dependencies"] > max(means[way] for way in WAYS[3:])
    about = {"name": "average", "setting": "", "kind": kind, "within": within}
    return {**about, "pairs": sum(row["pairs"] for row in own), **means, "met": met}


def run() -> list[dict[str, Any]]:
    rows = []
    for name in SETS:
        values = load(name)
        if values is None:
            continue
        for kind in KINDS:
            for m in (1, 2, 3):
                stream, repository = split(values, kind, seed=m)
                for within, row in zip(WITHIN, scores(stream, repository, m), strict=True):
                    about = {"name": name, "setting": f"m = {m}", "kind": kind, "within": within}
                    rows.append({**about, **row})
    if not rows:
        return [{"name": "no data sets", "setting": "set SFUMATO_DATA to their folder"}]
    return rows + [averaged(rows, kind, within) for kind in KINDS for within in WITHIN]


if __name__ == "__main__":
    began = time.perf_counter()
    for row in run():
        print({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()})
    print(f"{time.perf_counter() - began:.1f} s")
