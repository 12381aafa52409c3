"""The conformal estimator on fresh traces: drops and waits against hindsight and a former one.

    python -m benchmarks.fresh_traces [--set tuning|judging|all] [--save FILE] [--against FILE]

The families of `data/traces.py`, with seeds used nowhere else, in several
lengths. The constants of the estimator may be chosen on the set `tuning`; `judging` is for looking
at once they are. A trace is missed if more than 1.05 times the drop ratio comes late, from the
first row on.

**Apart** are counted, by the trace alone, whether they are held or not:
- *bursts*: the rule that waits, behind the newest event time and from the 16th row on, as long as
  the largest lateness it has seen, and at least twice the best fixed slack for what has come so
  far, drops too much. A burst looks like what came before it until its first row is there, and
  then what a punctuation has passed is lost: whoever waits no longer than that rule drops as much.
- *short*: the stream lasts less than three times the lateness that the drop ratio leaves in time.
  So much of it is still under way at any time that its tail is a guess.

In a line of their own are the families that the estimator is known to fail, by their kind: links
that stall while others go on, storms and uploads after outages, a step of the delays in the last
tenth, streams of two minutes, clocks that jump back. The others are to be missed less than once in
a hundred.

`--save` keeps the figures, `--against` compares waits with those that were kept.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.data import traces
from benchmarks.harness import Row
from benchmarks.page import show
from benchmarks.peers import hindsight
from sfumato.kernels.compile import compiled
from sfumato.operators.disorder.punctuator import Punctuator

FAMILIES = (
    (traces.heavy_tailed, (10_000, 40_000)),
    (traces.shifting, (10_000, 40_000)),
    (traces.mixed, (10_000, 40_000)),
    (traces.bursty, (10_000, 40_000)),
    (traces.devices, (10_000, 40_000)),
    (traces.short, (2_000, 10_000)),
)
TUNING = (10_000, 20_000, 30_000, 110_000, 120_000, 130_000, *range(210_000, 290_000, 10_000))
SEEDS = {"tuning": TUNING, "judging": tuple(range(910_000, 980_000, 10_000))}
HARD = ("stall", "storm", "uploads", "up late", "at 0.95", "two minutes", "dense", "offset back")
MISSED = 1.05  # drop ratios
KNOWN = 16  # rows before the rule of the bursts begins
SHORT = 3  # times the lateness of the drop ratio


def fresh(seeds: tuple[int, ...]) -> Iterator[tuple[str, str, int, int, traces.Trace]]:
    """(family, name, length, seed, trace) of every trace with these seeds."""
    for family, lengths in FAMILIES:
        for n in lengths:
            for seed in seeds:
                for name, trace in family(n, seed):
                    yield family.__name__, name, n, seed, trace


def hard(name: str) -> bool:
    """Whether a trace is of a family that the estimator is known to fail."""
    return any(word in name for word in HARD)


@compiled
def lost_to_bursts(lateness, event, share, known):
    """How many rows are late for the rule of the bursts; see the head of this file.

    lateness : int64[n] behind the newest event time before     event : int64[n]
    O(share n) a row that is among the latest, else O(1).
    """
    tail = np.zeros(int(share * event.size) + 2, np.int64)  # the largest lateness, descending
    size = 0
    newest = event[0]
    punctuation = np.iinfo(np.int64).min
    lost = 0
    for i in range(event.size):
        lost += event[i] <= punctuation
        if size < tail.size or lateness[i] > tail[size - 1]:
            size = min(size + 1, tail.size)
            place = size - 1
            while place > 0 and tail[place - 1] < lateness[i]:
                tail[place] = tail[place - 1]
                place -= 1
            tail[place] = lateness[i]
        newest = max(newest, event[i])
        if i + 1 >= known:
            best = tail[min(int(share * (i + 1)), size - 1)]
            punctuation = max(punctuation, newest - max(tail[0], 2 * best) - 1)
    return lost


def apart(event: np.ndarray, drop_ratio: float) -> str:
    """Why a trace is counted apart: "burst", "short", or ""."""
    newest = np.maximum.accumulate(event)
    lateness = np.maximum(np.concatenate([[0], newest[:-1] - event[1:]]), 0)
    if lost_to_bursts(lateness, event, drop_ratio, KNOWN) > MISSED * drop_ratio * len(event):
        return "burst"
    lasts = event.max() - event.min()
    return "short" if lasts < SHORT * np.quantile(lateness, 1 - drop_ratio) else ""


def measured(names: tuple[str, ...], drop_ratio: float) -> list[Row]:
    """One dict a trace of these sets."""
    rows = []
    for which in names:
        for family, name, n, seed, (event, arrival) in fresh(SEEDS[which]):
            punctuation, late = Punctuator(drop_ratio).extend_with_late(event, arrival)
            wait = hindsight.waits(event, arrival, punctuation)[1].mean()
            rows.append(
                {
                    "set": which,
                    "family": family,
                    "trace": name,
                    "rows": n,
                    "seed": seed,
                    "dropped": late.mean() / drop_ratio,
                    "apart": apart(event, drop_ratio),
                    "wait": float(wait),
                    "best": min(hindsight.best_fixed(event, arrival, drop_ratio).values()),
                }
            )
    return rows


def by_family(rows: list[Row], former: dict[str, float]) -> list[Row]:
    """One line a trace's name and length, over its seeds."""
    lines = {}
    for row in rows:
        lines.setdefault((row["family"], row["trace"], row["rows"]), []).append(row)
    return [
        {"family": family, "trace": name, "rows": n, "seeds": len(some), **summary(some, former)}
        for (family, name, n), some in lines.items()
    ]


def summary(rows: list[Row], former: dict[str, float]) -> Row:
    """Drops in drop ratios; waits as ratios; misses, also of the traces counted apart."""
    dropped = np.array([row["dropped"] for row in rows])
    hind = [row["wait"] / row["best"] for row in rows if row["best"]]
    out = {
        "missed": sum(row["dropped"] > MISSED for row in rows if not row["apart"]),
        "apart": sum(bool(row["apart"]) for row in rows),
        "of them missed": sum(row["dropped"] > MISSED for row in rows if row["apart"]),
        "dropped": float(dropped.mean()),
        "most": float(dropped.max()),
        "wait / hindsight": float(np.median(hind)) if hind else float("nan"),
    }
    ratio = [row["wait"] / former[key_of(row)] for row in rows if former.get(key_of(row))]
    if ratio:
        out |= {"wait / former": float(np.mean(ratio)), "median": float(np.median(ratio))}
    return out


def key_of(row: Row) -> str:
    """A trace's name for `--save`."""
    return "/".join(str(row[k]) for k in ("family", "trace", "rows", "seed"))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", choices=[*SEEDS, "all"], default="tuning")
    parser.add_argument("--drop-ratio", type=float, default=0.01)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--against", type=Path)
    options = parser.parse_args()
    rows = measured(tuple(SEEDS) if options.set == "all" else (options.set,), options.drop_ratio)
    former = json.loads(options.against.read_text()) if options.against else {}
    if options.save:
        options.save.write_text(json.dumps({key_of(row): row["wait"] for row in rows}))
    show("Fresh traces; drops in drop ratios", by_family(rows, former))
    inside = [row for row in rows if not row["apart"]]
    parts = {
        "all": rows,
        "not apart": inside,
        "of them, known to fail": [row for row in inside if hard(row["trace"])],
        "of them, the others": [row for row in inside if not hard(row["trace"])],
    }
    lines = [{"": k, "traces": len(v), **summary(v, former)} for k, v in parts.items()]
    show("All", lines)


if __name__ == "__main__":
    main()
