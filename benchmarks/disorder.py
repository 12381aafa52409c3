"""Disorder control: rows dropped and time waited, against the best fixed slack with hindsight.

    python benchmarks/disorder.py [--drop-ratio 0.01] [--data FOLDER] [--quick]

For every trace of `traces.py` and each estimator: the share of late rows, the mean and the 99th
percentile of the time rows waited, that mean over the best fixed slack's (three kinds, the smallest
of each that drops at most as much, see `hindsight.py`), the most rows held at once, and rows/s.

The constants of the conformal measure were chosen on these synthetic traces (and other seeds of
them), so its figures here flatter it a little; its kernel's head gives those of fresh seeds, and
says where it fails.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import hindsight
import traces
from sfumato.operators.disorder.punctuator import Punctuator
from sfumato.operators.disorder.reorder import Reorder
from sfumato.tables.disorder.ordered_rows import RowReorder

ESTIMATORS = ("conformal", "normal", "max")


def run(
    drop_ratio: float = 0.01, data: Path | None = None, quick: bool = False
) -> list[dict[str, object]]:
    """One dict a trace and estimator; `quick` takes every fourth trace."""
    rows = []
    for i, (family, name, (event, arrival)) in enumerate(traces.all_traces(data)):
        if quick and i % 4:
            continue
        fixed = hindsight.best_fixed(event, arrival, drop_ratio)
        kind = min(fixed, key=lambda k: fixed[k])
        for estimator in ESTIMATORS:
            row = {"family": family, "trace": name, "rows": len(event), "estimator": estimator}
            row |= measure(event, arrival, estimator, drop_ratio)
            best = fixed[kind]
            row |= {"best fixed": kind, "best fixed wait": best / traces.SECOND}
            row["ratio"] = row["mean wait"] * traces.SECOND / best if best else float("nan")
            rows.append(row)
    return rows


def measure(
    event: np.ndarray, arrival: np.ndarray, estimator: str, drop_ratio: float
) -> dict[str, float]:
    """What one estimator does on one trace; waits in seconds."""
    ratio = None if estimator == "max" else drop_ratio
    Punctuator(ratio, estimator=estimator).extend(event[:100], arrival[:100])  # compiled by now
    start = time.perf_counter()
    punctuation = Punctuator(ratio, estimator=estimator).extend(event, arrival)
    took = time.perf_counter() - start
    late, wait = hindsight.waits(event, arrival, punctuation)
    return {
        "dropped": float(late.mean()),
        "mean wait": float(wait.mean()) / traces.SECOND,
        "p99 wait": float(np.quantile(wait, 0.99)) / traces.SECOND,
        "most held": most_held(event, late, punctuation),
        "rows/s": len(event) / took,
    }


def most_held(event: np.ndarray, late: np.ndarray, punctuation: np.ndarray) -> int:
    """The largest number of rows held after an arrival."""
    n = len(event)
    release = np.maximum(np.searchsorted(punctuation, event, "left"), np.arange(n))
    leaving = np.bincount(release[~late], minlength=n + 1)[:n]
    return int((np.cumsum(~late) - np.cumsum(leaving)).max(initial=0))


def speed() -> list[dict[str, object]]:
    """Rows a second through `RowReorder`: one key, and a thousand keys of ten rows a call."""
    rows = []
    for keys, each in ((1, 10_000), (1000, 10)):
        for estimator in ESTIMATORS:
            ratio = None if estimator == "max" else 0.01
            reorder = RowReorder(Reorder(drop_ratio=ratio, estimator=estimator))
            rng = np.random.default_rng(1)
            took = []
            for second in range(12):
                arrival = np.sort(rng.integers(0, 10**6, keys * each)) + second * 10**6
                event = arrival - rng.integers(0, 200_000, keys * each)
                key = rng.permutation(np.repeat(np.arange(keys), each))
                table = pa.table({"key": key, "event": event, "value": rng.random(keys * each)})
                start = time.perf_counter()
                reorder.process(key, event, arrival, table)
                took.append(time.perf_counter() - start)
            best = float(np.median(took[2:]))
            row = {"keys": keys, "rows a call": keys * each, "estimator": estimator}
            rows.append(row | {"ms a call": 1000 * best, "rows/s": keys * each / best})
    return rows


def show(title: str, rows: list[dict[str, object]]) -> None:
    """A table, by rich if it is installed."""
    cells = [[_text(value) for value in row.values()] for row in rows]
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        print(title, "\t".join(rows[0]), *("\t".join(row) for row in cells), sep="\n")
        return
    table = Table(title=title)
    for name in rows[0]:
        table.add_column(name, justify="left" if isinstance(rows[0][name], str) else "right")
    for row in cells:
        table.add_row(*row)
    Console(width=170).print(table)


def _text(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    root = Path(__file__).resolve().parents[2]
    folder = Path(os.environ.get("SFUMATO_DATA", root / "shared" / "data"))
    parser.add_argument("--drop-ratio", type=float, default=0.01)
    parser.add_argument("--data", type=Path, default=folder)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    show(
        f"Disorder control at a drop ratio of {options.drop_ratio:.2%} (waits in seconds)",
        run(options.drop_ratio, options.data, options.quick),
    )
    show("Reorder", speed())


if __name__ == "__main__":
    main()
