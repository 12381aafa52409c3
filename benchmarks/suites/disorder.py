"""Disorder control: dropped rows and waiting time, against the best fixed slack in hindsight.

For every trace of `data/traces.py` and each estimator, at a drop ratio of 1%: the share of late
rows; the mean and the 99th percentile of the rows' waits in seconds; the mean wait over the mean of
the best fixed slack (three kinds, see `peers/hindsight.py`); the most rows held at once; rows/s.

The constants of the conformal measure were chosen on these synthetic traces (with other seeds), so
its figures are slightly too good. docs/research/conformal-delay.md gives the figures for new seeds,
and describes where it fails.
"""

import time

import numpy as np

from benchmarks.data import traces
from benchmarks.data.real_sets import data_folder
from benchmarks.harness import Row
from benchmarks.peers import hindsight
from sfumato.operators.disorder.punctuator import Punctuator

ESTIMATORS = ("conformal", "normal", "max")
DROP_RATIO = 0.01
EVERY = 1  # use every n-th trace
QUICK = {"EVERY": 20}


def run() -> list[Row]:
    rows = []
    for family, name, (event, arrival) in list(traces.all_traces(data_folder()))[::EVERY]:
        fixed = hindsight.best_fixed(event, arrival, DROP_RATIO)
        kind = min(fixed, key=lambda k: fixed[k])
        for estimator in ESTIMATORS:
            row = {"family": family, "trace": name, "rows": len(event), "estimator": estimator}
            row |= measure(event, arrival, estimator)
            best = fixed[kind]
            row |= {"best fixed": kind, "best fixed wait": best / traces.SECOND}
            row["ratio"] = row["mean wait"] * traces.SECOND / best if best else float("nan")
            rows.append(row)
    return rows


def measure(event: np.ndarray, arrival: np.ndarray, estimator: str) -> Row:
    """Measure one estimator on one trace; waits in seconds."""
    ratio = None if estimator == "max" else DROP_RATIO
    Punctuator(ratio, estimator=estimator).extend(event[:100], arrival[:100])  # compile first
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
    """Return the largest number of rows held after an arrival."""
    n = len(event)
    release = np.maximum(np.searchsorted(punctuation, event, "left"), np.arange(n))
    leaving = np.bincount(release[~late], minlength=n + 1)[:n]
    return int((np.cumsum(~late) - np.cumsum(leaving)).max(initial=0))
