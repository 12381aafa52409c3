"""Imputation with an order, compared with the usual choices: last values, and multiple imputation.

Two real sets of several devices. A tenth of the known cells is hidden at random. With `past`, the
repository is the first three quarters of the time, and hidden cells of the last quarter are
imputed; with `between`, every fourth of forty stretches of time is imputed, and the others are the
repository. All ways see the gaps of both parts. Scores are in standard deviations of their
attribute: the absolute error of the median, the continuous ranked probability score, the coverage
of the range from 5% to 95%, and its width. The compared ways:

changes        sf.impute(order=..., key=...)
not corrected  the same, without correction by known values
last + past    the last value, plus the changes since the last value seen in the past
multiple       20 draws by scikit-learn's IterativeImputer, from the attributes and last values
               (only if it is installed)

The last rows are about walks with gaps of 1 to 10 values: walks around a level, and random walks,
some of which leave the levels of their past. They show the coverage of single values, and of the
average over each gap (`window_aggregate`, one window per gap). The values of a gap depend on the
same last value, but a window treats its rows as independent. `shared coverage` is the coverage of
the average with `gap_values` and `shared`.

The rows about changes in a stream are about two attributes that follow a random walk with noise.
The past does not change. During the stream, its steps, its noise or its level change; a tenth of
the values of one attribute is hidden. The goal is a coverage from 88% to 92%.
"""

import contextlib
import importlib.util
from collections.abc import Callable
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.signal import lfilter

import sfumato as sf
from benchmarks.data.real_sets import CHECK_SETS, MORE_SETS, data_folder
from benchmarks.harness import NO_DATA, Row
from benchmarks.suites.imputation_coverage import judged
from sfumato.operators.arrays import Floats
from sfumato.operators.imputation import stream_imputer
from sfumato.operators.imputation.earlier_values import EarlierValues

KEYS = {"airports": "origin", "St Bernard": "station_id"}
DEVICES = 3  # per set
HIDDEN, PAST = 0.1, 0.75  # shares: of cells, of time
FITTED = 8_000  # rows to which the multiple imputation is fitted
DRAWS = 20
STRETCHES = 40
KINDS = ("past", "between")
WALKS, WALK_ROWS, WALK_PAST = 4, 12_000, 8_000
RETURNS = {"walks around a level": 0.001, "random walks": 0.0}  # share of the way, per step
LONGEST, LONG = 10, 5  # values of the longest gap, and of a gap that is treated as long
GAP_VALUES = 20  # values of an imputed row
# Of a changing stream: the steps of the walk, the noise and the level, by time from 0 to 1.
CHANGES: dict[str, Callable[[Floats], tuple[Floats, Floats, Floats]]] = {
    "no change": lambda u: (1 + 0 * u, 1 + 0 * u, 0 * u),
    "a trend": lambda u: (1 + 0 * u, 1 + 0 * u, 100 * u),
    "a jump": lambda u: (1 + 0 * u, 1 + 0 * u, 50.0 * (u > 0.5)),
    "steps grow 6 times": lambda u: (6**u, 1 + 0 * u, 0 * u),
    "noise grows 6 times": lambda u: (1 + 0 * u, 6**u, 0 * u),
    "noise and steps switch to 5 times": lambda u: (1 + 4 * (u > 0.5), 1 + 4 * (u > 0.5), 0 * u),
    "noise and steps switch 6 times": lambda u: (*[1 + 3 * (u * 6 % 2 >= 1)] * 2, 0 * u),
}
CHANGING_STREAMS = {400: 16, 3000: 4}  # number of streams of each length
CHANGING_PAST = 600
LEAST_HELD, MOST_HELD = 0.88, 0.92
LOW, HIGH = 0.05, 0.95
QUICK = {
    "KEYS": {"airports": "origin"},
    "KINDS": ("past",),
    "FITTED": 1_000,
    "WALKS": 1,
    "RETURNS": {"walks around a level": 0.001},
    "CHANGING_STREAMS": {400: 1},
}

Laws = dict[int, list[tuple[np.ndarray, np.ndarray, float]]]  # by attribute: values, prob, true


class Stream:
    """The rows of a set, with hidden cells, and the cells that are judged."""

    def __init__(self, name: str, kind: str) -> None:
        file, order, attributes = {**MORE_SETS, **CHECK_SETS}[name]
        columns = [KEYS[name], order, *attributes]
        table = pq.read_table(data_folder() / f"{file}.parquet", columns=columns)
        self.table = table.sort_by([(order, "ascending"), (KEYS[name], "ascending")])
        rng = np.random.default_rng(0)
        key = np.unique(self._column(KEYS[name]), return_inverse=True)[1]
        kept = np.isin(key, rng.permutation(key.max() + 1)[:DEVICES])
        self.table, self.key = self.table.filter(pa.array(kept)), key[kept]
        self.names, self.order, self.by = attributes, order, KEYS[name]
        self.time = self.table.column(order).cast(pa.timestamp("us")).cast("int64").to_numpy() / 1e6
        self.true = np.column_stack([self._column(of).astype(float) for of in attributes])
        hidden = (rng.random(self.true.shape) < HIDDEN) & np.isfinite(self.true)
        self.given = np.where(hidden, np.nan, self.true)
        share = np.argsort(np.argsort(self.time, kind="stable")) / len(self.time)
        self.last = share >= PAST if kind == "past" else (share * STRETCHES).astype(int) % 4 == 3
        self.past = ~self.last
        self.unit = np.nanstd(self.true, axis=0)
        history = EarlierValues(len(attributes))
        self.earlier, self.age = history.process(self.key, self.time, self.given)
        self.judged = hidden & self.last[:, None] & np.isfinite(self.earlier)

    def _column(self, name: str) -> np.ndarray:
        column: np.ndarray = self.table.column(name).to_numpy()
        return column

    def frame(self, rows: np.ndarray) -> pa.Table:
        found = self.table.select([self.by, self.order])
        for name, column in zip(self.names, self.given.T, strict=True):
            found = found.append_column(name, pa.array(column, mask=np.isnan(column)))
        return found.append_column("row", pa.array(np.arange(len(rows)))).filter(pa.array(rows))

    def cells(self) -> list[tuple[int, int]]:
        return [(i, t) for i, t in np.argwhere(self.judged).tolist()]


def by_changes(stream: Stream) -> Laws:
    found = sf.impute(
        stream.frame(stream.last),
        repository=stream.frame(stream.past),
        attributes=stream.names,
        order=stream.order,
        key=stream.by,
        least_rows=10**9,
    )
    place = {row: i for i, row in enumerate(found.column("row").to_pylist())}
    alternatives = found.column("alternatives").combine_chunks()
    offsets, flat = alternatives.offsets.to_numpy(), alternatives.values
    prob = flat.field("prob").to_numpy()
    values = [flat.field(name).to_numpy() for name in stream.names]
    laws: Laws = {t: [] for t in range(len(stream.names))}
    for i, t in stream.cells():
        part = slice(offsets[place[i]], offsets[place[i] + 1])
        laws[t].append((values[t][part], prob[part], stream.true[i, t]))
    return laws


def not_corrected(stream: Stream) -> Laws:
    none: Callable[..., tuple[int, int, int]] = lambda *_: (0, 0, 0)  # noqa: E731
    with mock.patch.object(stream_imputer, "correct_widths", none):
        return by_changes(stream)


def last_and_past(stream: Stream) -> Laws:
    changes, rng = (stream.given - stream.earlier)[stream.past], np.random.default_rng(1)
    laws: Laws = {}
    for t in range(len(stream.names)):
        known = changes[np.isfinite(changes[:, t]), t]
        seen, prob = rng.choice(known, 2000), np.full(2000, 1 / 2000)
        rows = [i for i, of in stream.cells() if of == t]
        laws[t] = [(stream.earlier[i, t] + seen, prob, stream.true[i, t]) for i in rows]
    return laws


def multiple(stream: Stream) -> Laws:
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    table = np.column_stack([stream.given, stream.earlier])
    rng, past = np.random.default_rng(1), np.flatnonzero(stream.past)
    fitted = table[np.sort(rng.choice(past, min(FITTED, len(past)), replace=False))]
    rows = np.unique([i for i, _ in stream.cells()])
    draws = [
        IterativeImputer(sample_posterior=True, random_state=seed)
        .fit(fitted)
        .transform(table[rows])
        for seed in range(DRAWS)
    ]
    place, prob = {i: n for n, i in enumerate(rows.tolist())}, np.full(DRAWS, 1 / DRAWS)
    laws: Laws = {t: [] for t in range(len(stream.names))}
    for i, t in stream.cells():
        values = np.array([draw[place[i], t] for draw in draws])
        laws[t].append((values, prob, stream.true[i, t]))
    return laws


WAYS: dict[str, Callable[[Stream], Laws]] = {
    "changes": by_changes,
    "not corrected": not_corrected,
    "last + past": last_and_past,
    "multiple": multiple,
}


def scores(stream: Stream, laws: Laws) -> tuple[float, float, float, float]:
    """Return error of the median, score, coverage and width, over all cells."""
    found = []
    for t, cells in laws.items():
        for values, prob, true in cells:
            held, score = judged(values, prob, true)
            order = np.argsort(values)
            below = np.cumsum(prob[order])
            places = np.minimum(np.searchsorted(below, (0.05, 0.5, 0.95)), len(values) - 1)
            low, middle, high = values[order][places]
            unit = stream.unit[t]
            found.append((abs(middle - true) / unit, score / unit, held, (high - low) / unit))
    error, score, coverage, width = np.mean(found, axis=0).tolist()
    return error, score, coverage, width


def walk_with_gaps(seed: int, returns: float) -> pd.DataFrame:
    """Return a walk: `true`, and `x` with gaps of 1 to 10 values."""
    rng = np.random.default_rng(seed)
    true = 20 + lfilter([1.0], [1.0, returns - 1.0], rng.normal(0, 0.1, WALK_ROWS))
    missing, at = np.zeros(WALK_ROWS, bool), 1
    while at < WALK_ROWS:
        end = at + int(rng.integers(1, LONGEST + 1))
        missing[at:end] = True
        at = end + int(rng.integers(1, LONGEST + 2))
    walk = pd.DataFrame({"minute": np.arange(WALK_ROWS), "x": np.where(missing, np.nan, true)})
    walk["noise"], walk["true"] = rng.normal(0, 1, WALK_ROWS), true
    return walk


def gaps_of_walk(seed: int, returns: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Impute the gaps of a walk, and return its missing values and their gaps.

    Both have `true`, and the range from 5% to 95%, from `low` to `high`. Gaps also have the range
    from `shared_low` to `shared_high`, with errors that are shared within the gap.
    """
    walk = walk_with_gaps(seed, returns)
    given, last = walk.drop(columns="true"), walk.iloc[WALK_PAST:]
    how = {"attributes": ["x", "noise"], "order": "minute"}
    past, now = given.iloc[:WALK_PAST], given.iloc[WALK_PAST:]
    rows = sf.impute(now, repository=past, **how)
    coupled = sf.impute(now, repository=past, gap_values=GAP_VALUES, **how)
    missing = last["x"].isna().to_numpy()
    rows["true"], rows["gap"] = last["true"].to_numpy(), np.cumsum(np.diff(missing, prepend=True))
    coupled["gap"] = rows["gap"]
    rows, coupled = (of[missing].reset_index(drop=True) for of in (rows, coupled))
    rows["low"], rows["high"] = (sf.quantile("x", q, rows["alternatives"]) for q in (LOW, HIGH))
    gaps = rows.groupby("gap").agg(true=("true", "mean"), size=("true", "size"))
    for prefix, of, shared in (("", rows, None), ("shared_", coupled, "gap_x")):
        averages = sf.window_aggregate(
            of[["minute", "gap", "alternatives", *([shared] if shared else [])]],
            {"x": "avg(x)"},
            window=sf.Range(f"{WALK_ROWS} us"),
            order="minute",
            key="gap",
            quantiles=[LOW, HIGH],
            shared=shared,
        )
        found = pd.DataFrame(list(averages["x"]), index=averages["gap"])
        gaps[f"{prefix}low"], gaps[f"{prefix}high"] = found["q05"], found["q95"]
    return rows, gaps


def gaps_of_walks(name: str) -> list[Row]:
    """Measure the coverage of imputed values, and of averages over the gaps they fill."""
    found = [gaps_of_walk(seed, RETURNS[name]) for seed in range(WALKS)]
    rows, gaps = (pd.concat(parts) for parts in zip(*found, strict=True))
    cells = {
        "single values": rows,
        f"averages over gaps of 1 to {LONG - 1}": gaps[gaps["size"] < LONG],
        f"averages over gaps of {LONG} to {LONGEST}": gaps[gaps["size"] >= LONG],
    }
    out: list[Row] = []
    for setting, part in cells.items():
        row: Row = {"name": name, "setting": setting, "cells": len(part)}
        row["changes coverage"] = part["true"].between(part["low"], part["high"]).mean()
        if "shared_low" in part:
            shared = part["true"].between(part["shared_low"], part["shared_high"])
            row["shared coverage"] = shared.mean()
        out.append(row)
    return out


def changing_stream(seed: int, name: str, rows: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the past and the stream of two attributes whose noise, steps or level change."""
    rng = np.random.default_rng(seed)
    share = np.concatenate([np.zeros(CHANGING_PAST), np.linspace(0, 1, rows)])
    steps, noise, level = CHANGES[name](share)
    walk = np.cumsum(rng.normal(0, 0.15, len(share)) * steps) + 0.3 * level
    readings = pd.DataFrame({"minute": np.arange(len(share))})
    readings["x"] = walk + rng.normal(0, 0.3, len(share)) * noise
    readings["y"] = -2 * walk + rng.normal(0, 0.3, len(share)) * noise
    return readings[:CHANGING_PAST], readings[CHANGING_PAST:]


def held_while_changing(name: str, rows: int) -> Row:
    """Measure the coverage of imputed values of changing streams."""
    found: Row = {"name": name, "setting": f"{rows} rows"}
    none: Callable[..., tuple[int, int, int]] = lambda *_: (0, 0, 0)  # noqa: E731
    for way in ("changes", "not corrected"):
        held = []
        for seed in range(CHANGING_STREAMS[rows]):
            past, now = changing_stream(seed, name, rows)
            hidden = np.random.default_rng(seed + 1000).random(rows) < HIDDEN
            given = now.assign(x=now["x"].mask(hidden))
            corrected = mock.patch.object(stream_imputer, "correct_widths", none)
            with corrected if way == "not corrected" else contextlib.nullcontext():
                filled = sf.impute(given, repository=past, attributes=["x", "y"], order="minute")
            low, high = (sf.quantile("x", q, filled["alternatives"][hidden]) for q in (LOW, HIGH))
            held.append(now["x"][hidden].between(np.array(low), np.array(high)))
        found[f"{way} coverage"] = float(np.concatenate(held).mean())
    return found | {"met": LEAST_HELD <= found["changes coverage"] <= MOST_HELD}


def run() -> list[Row]:
    rows: list[Row] = []
    walks = [row for name in RETURNS for row in gaps_of_walks(name)]
    walks += [held_while_changing(name, size) for name in CHANGES for size in CHANGING_STREAMS]
    installed = importlib.util.find_spec("sklearn") is not None
    for name in KEYS:
        if not data_folder().exists():
            return [*NO_DATA, *walks]
        for kind in KINDS:
            stream, row = Stream(name, kind), {"name": name, "setting": kind}
            for way, law in WAYS.items():
                if way == "multiple" and not installed:
                    continue
                error, score, coverage, width = scores(stream, law(stream))
                row |= {f"{way} error": error, f"{way} score": score}
                row |= {f"{way} coverage": coverage, f"{way} width": width}
            peers = [row[f"{way} score"] for way in WAYS if f"{way} score" in row][2:]
            best, held = row["changes score"] <= min(peers), row["changes coverage"]
            rows.append({**row, "met": best and 0.88 <= held <= 0.92})
    return [*rows, *walks]
