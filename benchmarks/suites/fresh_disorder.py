"""The default estimator on new traces: missed drop ratios, and waits against the best fixed slack.

Per drop ratio and kind of trace (see `fresh_traces`): the number of traces, how many are missed,
and the mean wait over the mean wait of the best fixed slack with hindsight, as median and 90th
percentile. These are the figures of docs/research/conformal-delay.md.
"""

from collections import defaultdict

import numpy as np

from benchmarks import fresh_traces
from benchmarks.data import traces
from benchmarks.data.real_sets import data_folder
from benchmarks.harness import Row
from benchmarks.peers import hindsight
from sfumato.operators.disorder.punctuator import Punctuator

DROP_RATIOS = (0.01, 0.05, 0.002)
SEEDS = (910_000, 10_000)
QUICK = {"DROP_RATIOS": (0.01,), "SEEDS": ()}
MICROSECOND = 1.0  # added to both waits, because some traces can be released at once


def run() -> list[Row]:
    return [row for drop_ratio in DROP_RATIOS for row in measure(drop_ratio)]


def measure(drop_ratio: float) -> list[Row]:
    """Return one row per kind of trace."""
    found = defaultdict(list)
    for kind, (event, arrival) in all_traces(drop_ratio):
        late, wait = hindsight.waits(event, arrival, Punctuator(drop_ratio).extend(event, arrival))
        best = min(hindsight.best_fixed(event, arrival, drop_ratio).values())
        ratio = (wait.mean() + MICROSECOND) / (best + MICROSECOND)
        found[kind].append((late.mean() > fresh_traces.MISSED * drop_ratio, ratio))
    return [
        {
            "drop ratio": drop_ratio,
            "traces": kind,
            "count": len(each),
            "missed": int(sum(missed for missed, _ in each)),
            "wait, median": float(np.median([ratio for _, ratio in each])),
            "wait, p90": float(np.quantile([ratio for _, ratio in each], 0.9)),
        }
        for kind, each in found.items()
    ]


def all_traces(drop_ratio: float):
    """Yield (kind, trace) of the traces that are not counted apart."""
    for _, name, _, _, trace in fresh_traces.fresh(SEEDS):
        if not fresh_traces.apart(trace[0], drop_ratio):
            yield "hard" if fresh_traces.hard(name) else "ordinary", trace
    folder = data_folder()
    if folder is not None and folder.is_dir():
        for _, trace in traces.real(folder):
            yield "real", trace
