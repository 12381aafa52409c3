"""The pairs that a join still finds when values are missing: F-score against the complete join.

Four real sets, with four attributes each, scaled to [0, 1]. A stream is a sample of the rows in
time order, whose objects each lose m random attributes; a sample of the remaining data is the
repository. The join of the complete data, over count windows, is the truth. Streams are of two
kinds: `stretches` of consecutive rows, as a sensor sends them, and `scattered` rows drawn one by
one. An arrival's pairs are answers if their probability is at least 0.2, one of the thresholds of
Ren et al. (2019); `half` uses 0.5 instead. The compared ways:

dependencies   every attribute depends on every other one, in three degrees of nearness, and on its
               own earlier value (see below), in the same degrees
no history     the same without the earlier values
kNN            the mean of the five nearest rows of the repository
interpolation  between the stream's own previous and next rows: it waits for the next one, which no
               join could do
last value     of the stream itself, which does not wait
mean           of the repository

An object's earlier values are the newest known values of its stream, with their age
(`EarlierValues`). The repository has them too: its rows are dealt out to streams as dense as the
real ones, with the same share of gaps. Each complete row keeps the values its stream knew before.
Every way uses only the stream's own rows, the repository and the time of each row.
"""

import numpy as np

from benchmarks.data.real_sets import SETS, load
from benchmarks.harness import NO_DATA, Row
from experiments.incomplete_joins import baselines
from experiments.incomplete_joins.baselines import BASELINES
from experiments.incomplete_joins.earlier_dependencies import (
    Discovery,
    imputer_of,
    with_gaps,
    with_history,
)
from experiments.incomplete_joins.pairs import Pairs, certain_join, f_score, found, fused_join
from sfumato.operators.imputation.imputer import Imputer

NAMES = ("a", "b", "c", "d")
REPOSITORY = 10_000
STRETCHES, LENGTH = 10, 60  # every second row is of the left side
WITHIN, ALPHA, HALF, ROWS = (0.1, 0.3), 0.2, 0.5, 100
KINDS = ("stretches", "scattered")
QUICK = {"SETS": ["weather"], "MISSING": (1,), "REPOSITORY": 2_000}
MISSING = (1, 2, 3)  # attributes that an object loses

OURS = ("dependencies", "no history", "half")


def split(n: int, kind: str, seed: int) -> np.ndarray:
    """Return the places of the stream's rows among n, ascending; the others may be donors."""
    if kind == "stretches":
        starts = (np.arange(STRETCHES) + 0.5) * n / STRETCHES
        return (starts.astype(int)[:, None] + np.arange(LENGTH)).reshape(-1)
    return np.sort(np.random.default_rng(seed).choice(n, STRETCHES * LENGTH, replace=False))


def side_of(values: np.ndarray) -> np.ndarray:
    return (np.arange(len(values)) % 2).astype(np.uint8)


def lenders(rest: np.ndarray, at: np.ndarray, kind: str, m: int, seed: int) -> np.ndarray:
    """Build the repository with history: rows dealt out to streams like the real ones, repeatedly
    until there are enough.
    """
    rng = np.random.default_rng(seed)
    streams = 2 if kind == "stretches" else 2 * len(rest) // (STRETCHES * LENGTH)
    dealt: list[np.ndarray] = []
    while sum(map(len, dealt)) < REPOSITORY:
        key = rng.permutation(len(rest)) if kind == "scattered" else np.arange(len(rest))
        gaps = with_gaps(np.random.default_rng(seed + len(dealt)), rest, m)
        rows = with_history(rest, gaps, at, key % streams)
        dealt.append(rows[np.isfinite(rows).all(axis=1)])
    rows = np.concatenate(dealt)
    return rows[np.sort(rng.choice(len(rows), REPOSITORY, replace=False))]


def certain_pairs(values: np.ndarray, within: float) -> Pairs:
    """Join objects with one value each."""
    return found(certain_join(side_of(values), values, within, ROWS), 0, len(values))[0]


def uncertain_pairs(imputer: Imputer, objects: np.ndarray, within: float, alpha: float) -> Pairs:
    """Join incomplete objects with the fused operator."""
    own = objects[:, : len(imputer.names)]
    join = fused_join(imputer, side_of(objects), own, within, alpha, ROWS)
    return found(join, 0, len(objects))[0]


def scores(values: np.ndarray, kind: str, m: int) -> list[dict[str, float]]:
    """Return F-scores of every way, for each distance of WITHIN."""
    at = split(len(values), kind, seed=m)
    others = np.setdiff1d(np.arange(len(values)), at)
    stream, gaps = values[at], with_gaps(np.random.default_rng(m), values[at], m)
    repository = lenders(values[others], others.astype(float), kind, m, seed=m)
    objects = with_history(gaps, gaps, at.astype(float), side_of(gaps))
    full, plain = (
        imputer_of(repository, NAMES, m, Discovery(history, tight=np.inf))
        for history in (True, False)
    )
    ways = baselines.ways(repository[:, :4], gaps, at.astype(float))
    certain = {name: fill() for name, fill in ways.items()}
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


def averaged(rows: list[Row], kind: str, within: float) -> Row:
    """Average the rows of one kind and distance; met: dependencies beat every other way."""
    own = [row for row in rows if row["kind"] == kind and row["within"] == within]
    means = {way: float(np.mean([row[way] for row in own])) for way in (*OURS, *BASELINES)}
    met = means["dependencies"] > max(means[way] for way in BASELINES)
    about = {"name": "average", "setting": "", "kind": kind, "within": within}
    return {**about, "pairs": sum(row["pairs"] for row in own), **means, "met": met}


def run() -> list[Row]:
    rows = [
        {"name": name, "setting": f"m = {m}", "kind": kind, "within": within, **row}
        for name in SETS
        if (values := load(name)) is not None
        for kind in KINDS
        for m in MISSING
        for within, row in zip(WITHIN, scores(values, kind, m), strict=True)
    ]
    means = [averaged(rows, kind, within) for kind in KINDS for within in WITHIN if rows]
    return rows + means or NO_DATA
