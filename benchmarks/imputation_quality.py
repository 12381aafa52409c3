"""Which pairs a join still finds when values are missing: F-score against the complete join.

Four real sets, four attributes each, scaled to [0, 1]. A stream is a sample of the rows in time
order, of whose objects each loses m attributes at random; a sample of the rest of the data is the
repository. The complete data's join, over windows of the newest rows, is the truth. Streams are of
two kinds: `stretches` of rows that follow each other, as a sensor sends them, and `scattered` rows
drawn one by one. An arrival's pairs are answers if their probability is at least 0.2, one of the
thresholds of paper E; `half` is the same at 0.5. The ways compared:

dependencies   of every attribute on every other one, in three degrees of nearness, and on its own
               earlier value (see below), in the same degrees
no history     the same without the earlier values
nearest        the mean of the five nearest rows of the repository
interpolation  between the stream's own rows before and after: it waits for the next, as no join
               could
last value     of the stream itself, which does not wait
mean           of the repository

An object's earlier values are the newest known ones of its own stream, with their age
(`EarlierValues`). The repository has them, too: its rows are dealt out to streams as dense as the
real ones, with as many gaps, and each complete row is taken with what such a stream knew before.
Every way knows the stream's own rows, the repository and the time of each row, and nothing else.
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
from sfumato.operators.earlier_values import EarlierValues
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
EARLIER = tuple(f"earlier {name}" for name in NAMES)
AGES = tuple(f"age {name}" for name in NAMES)
NEAR = (0.005, 0.02, 0.08)
SAME_AGE = 1.0  # of the logarithm to base 2: from half to twice as old
REPOSITORY = 10_000
STRETCHES, LENGTH = 10, 60  # every second row is of the left side
WITHIN, ALPHA, HALF, ROWS = (0.1, 0.3), 0.2, 0.5, 100
LEAST_DONORS, MOST = 3, 24
KINDS = ("stretches", "scattered")

OURS = ("dependencies", "no history", "half")
OTHERS = ("nearest", "interpolation", "last value", "mean")

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


def split(n: int, kind: str, seed: int) -> np.ndarray:
    """Places of the stream's rows among n, rising; the others may lend."""
    if kind == "stretches":
        starts = (np.arange(STRETCHES) + 0.5) * n / STRETCHES
        return (starts.astype(int)[:, None] + np.arange(LENGTH)).reshape(-1)
    return np.sort(np.random.default_rng(seed).choice(n, STRETCHES * LENGTH, replace=False))


def with_gaps(values: np.ndarray, m: int, seed: int) -> np.ndarray:
    """Every row without m of its attributes, chosen at random."""
    gaps = values.copy()
    lost = np.argsort(np.random.default_rng(seed).random(values.shape), axis=1)[:, :m]
    np.put_along_axis(gaps, lost, np.nan, axis=1)
    return gaps


def side_of(values: np.ndarray) -> np.ndarray:
    return (np.arange(len(values)) % 2).astype(np.uint8)


def with_history(values: np.ndarray, gaps: np.ndarray, at: np.ndarray, key: Any) -> np.ndarray:
    """float64[n, 12]: values beside what their streams, with these gaps, knew before."""
    earlier, age = EarlierValues(values.shape[1]).process(key, at, gaps)
    return np.column_stack([values, earlier, np.log2(1.0 + age)])


def lenders(rest: np.ndarray, at: np.ndarray, kind: str, m: int, seed: int) -> np.ndarray:
    """The repository with history: dealt out to streams like the real ones, as often as needed."""
    rng = np.random.default_rng(seed)
    streams = 2 if kind == "stretches" else 2 * len(rest) // (STRETCHES * LENGTH)
    dealt: list[np.ndarray] = []
    while sum(map(len, dealt)) < REPOSITORY:
        key = rng.permutation(len(rest)) if kind == "scattered" else np.arange(len(rest))
        gaps = with_gaps(rest, m, seed + len(dealt))
        rows = with_history(rest, gaps, at, key % streams)
        dealt.append(rows[np.isfinite(rows).all(axis=1)])
    rows = np.concatenate(dealt)
    return rows[np.sort(rng.choice(len(rows), REPOSITORY, replace=False))]


def certain_pairs(values: np.ndarray, within: float) -> Pairs:
    """The join of objects with one value each."""
    n = len(values)
    join = SimilarityJoin(values.shape[1], within, HALF, ROWS, 1.0)
    points = np.ascontiguousarray(values)
    answers = join.process(
        Arrivals(side_of(values), np.zeros(n, np.int64), np.arange(n + 1), np.ones(n), points)
    )
    return set(zip(answers.left.tolist(), answers.right.tolist(), strict=True))


def uncertain_pairs(imputer: Imputer, objects: np.ndarray, within: float, alpha: float) -> Pairs:
    """The fused join of incomplete objects."""
    join = IncompleteJoin(imputer, within, alpha, ROWS)
    n, columns = len(objects), len(imputer.names)
    answers, _ = join.process(
        IncompleteArrivals(
            side_of(objects), np.zeros(n, np.int64), np.ascontiguousarray(objects[:, :columns])
        )
    )
    return set(zip(answers.left.tolist(), answers.right.tolist(), strict=True))


def f_score(found: Pairs, true: Pairs) -> float:
    """2 precision recall / (precision + recall) = 2 both / (found + true)."""
    return 2 * len(found & true) / max(len(found) + len(true), 1)


def interpolated(
    repository: np.ndarray, gaps: np.ndarray, at: np.ndarray, ahead: bool
) -> np.ndarray:
    """Each side from its own rows; what no row of a stream has, from the mean."""
    result = gaps.copy()
    for side in (0, 1):
        result[side::2] = interpolate_stream(gaps[side::2], at[side::2], ahead=ahead)
    return impute_mean(repository, result)


def discovered(repository: np.ndarray, seed: int, history: bool) -> list[Dependency]:
    """Dependencies with the bound that half of the near pairs obey."""
    found = []
    for epsilon in NEAR:
        how = {"epsilons": (epsilon,), "within": 1.0, "confidence": 0.5, "seed": seed}
        found += discover_dependencies(
            repository[:, :4], names=NAMES, max_determinants=1, **how
        )  # fmt: skip
        for a, (name, earlier, age) in enumerate(zip(NAMES, EARLIER, AGES, strict=True)):
            own = discover_dependencies(
                repository[:, [a, 4 + a]], names=(name, earlier), dependents=[name],
                max_determinants=1, **how,
            )  # fmt: skip
            for dependency in own if history else []:
                determinants = (*dependency.determinants, (age, SAME_AGE))
                found.append(Dependency(determinants, name, dependency.epsilon))
    return found


def imputer_of(repository: np.ndarray, seed: int, history: bool) -> Imputer:
    names = (*NAMES, *EARLIER, *AGES) if history else NAMES
    return Imputer(
        repository[:, : len(names)], discovered(repository, seed, history), NAMES,
        names=names, max_alternatives=MOST, least_donors=LEAST_DONORS, max_rules=512,
        scaling=dict.fromkeys(names, (0.0, 1.0)),
    )  # fmt: skip


def scores(values: np.ndarray, kind: str, m: int) -> list[dict[str, float]]:
    """F-scores of every way, for each distance of WITHIN."""
    at = split(len(values), kind, seed=m)
    others = np.setdiff1d(np.arange(len(values)), at)
    stream, gaps = values[at], with_gaps(values[at], m, seed=m)
    repository = lenders(values[others], others.astype(float), kind, m, seed=m)
    objects = with_history(gaps, gaps, at.astype(float), side_of(gaps))
    full, plain = (imputer_of(repository, m, history) for history in (True, False))
    rows = repository[:, :4]
    certain = {
        "nearest": impute_nearest(rows, gaps),
        "interpolation": interpolated(rows, gaps, at.astype(float), True),
        "last value": interpolated(rows, gaps, at.astype(float), False),
        "mean": impute_mean(rows, gaps),
    }
    result = []
    for within in WITHIN:
        true = certain_pairs(stream, within)
        row: dict[str, float] = {"pairs": len(true)}
        for name, imputer, alpha in zip(
            OURS, (full, plain, full), (ALPHA, ALPHA, HALF), strict=True
        ):
            row[name] = f_score(uncertain_pairs(imputer, objects, within, alpha), true)
        for name, imputed in certain.items():
            row[name] = f_score(certain_pairs(imputed, within), true)
        result.append(row)
    return result


def averaged(rows: list[dict[str, Any]], kind: str, within: float) -> dict[str, Any]:
    """The mean of the rows of one kind and distance; met: dependencies beat every other way."""
    own = [row for row in rows if row["kind"] == kind and row["within"] == within]
    means = {way: float(np.mean([row[way] for row in own])) for way in (*OURS, *OTHERS)}
    met = means["dependencies"] > max(means[way] for way in OTHERS)
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
                for within, row in zip(WITHIN, scores(values, kind, m), strict=True):
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
