"""C's experiments: drops, waiting and buffers of the estimators of disorder."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import altair as alt
import numpy as np
import numpy.typing as npt
import pandas as pd

from sfumato.operators.punctuator import Punctuator
from sfumato.reproduce.drawing import PALETTE, lines
from sfumato.reproduce.experiment import Experiment, Setting, Verdict
from sfumato.reproduce.repeats import interval

Z = NormalDist().inv_cdf(0.01)
TWICE = NormalDist().cdf(2**0.5 * Z)  # how often a delay exceeds z standard deviations of two

Times = npt.NDArray[np.int64]
SECOND = 1_000_000
# The paper names neither the length of its sets nor their delays. These make MAX drop in short sets
# what it reports.
MEAN_DELAY, SD_DELAY = 2.0, 0.7
SHORT, LONG, BURST = 30, 300, 1_000  # seconds of a set
SETS = [16 + i // 4 for i in range(20)]  # sensors

DRATIO, MAX, AVERAGED, OURS = "DRATIO 1% (paper)", "MAX", "MAX, averaged", "conformal 1% (ours)"
MEASURES: dict[str, dict[str, Any]] = {
    DRATIO: {"drop_ratio": 0.01, "rounding": "floor"},
    MAX: {"estimator": "max"},
    AVERAGED: {"estimator": "max", "averaged": True},
    OURS: {"drop_ratio": 0.01, "estimator": "conformal"},
}


def readings(rng: np.random.Generator, sensors: int, seconds: int) -> tuple[Times, Times]:
    """(event time, delay) in microseconds: a reading of each sensor in each second, normal delays.

    Source: C, section 7.
    """
    event = np.repeat(np.arange(seconds), sensors) + rng.random(sensors * seconds)
    delay = np.maximum(rng.normal(MEAN_DELAY, SD_DELAY, event.size), 0.0)
    order = np.argsort(event, kind="stable")
    return (event[order] * SECOND).astype(np.int64), (delay * SECOND).astype(np.int64)


def judged(event: Times, delay: Times, measure: str) -> dict[str, float]:
    """What a measure does to readings: dropped (%), mean waiting time (s), mean buffer (tuples).

    A tuple waits in the buffer from its arrival to the first arrival whose punctuation is at or
    above its event time; dropped ones do not. The buffer is taken after each arrival.
    """
    order = np.argsort(event + delay, kind="stable")
    event, arrival = event[order], (event + delay)[order]
    punctuation = Punctuator(**MEASURES[measure]).extend(event, arrival)
    before = np.concatenate([[np.iinfo(np.int64).min], punctuation[:-1]])
    kept, n = event > before, event.size
    release = np.maximum(np.searchsorted(punctuation, event), np.arange(n))
    leaving = np.bincount(release[kept], minlength=n + 1)[:n]
    out = kept & (release < n)
    waits = arrival[release[out]] - arrival[out]
    return {
        "dropped": 100 * float((~kept).mean()),
        "waiting": float(waits.mean()) / SECOND if waits.size else 0.0,
        "buffer": float((np.cumsum(kept) - np.cumsum(leaving)).mean()),
    }


def drops_by_set(setting: Setting) -> pd.DataFrame:
    """Drops, waiting and buffer for each of 20 sets, of 30 and of 300 seconds."""
    rows = []
    points = [(length, i) for length in (SHORT, LONG) for i in range(len(SETS))]
    for length, i in setting.steps(points):
        event, delay = readings(setting.rng(i, length), SETS[i], length)
        for measure in MEASURES:
            row = {"length": length, "set": i + 1, "sensors": SETS[i], "measure": measure}
            rows.append({**row, **judged(event, delay, measure)})
    return pd.DataFrame(rows)


def judge_drops(measured: pd.DataFrame) -> Verdict:
    """DRATIO never above 1%; MAX at 1.10%, 13 of 20 above 1%; averaged MAX above 3%."""
    said, holds = [], []
    for seconds, part in measured.groupby("length"):
        dropped = {name: group.dropped for name, group in part.groupby("measure")}
        waiting = part.groupby("measure").waiting.mean()
        buffer = part.groupby("measure").buffer.mean()
        never = dropped[DRATIO].max() <= 1
        above = int((dropped[MAX] > 1).sum())
        holds.append((never, above >= 7, dropped[AVERAGED].mean() > 3))
        said.append(
            f"Sets of {seconds} s: DRATIO 1% drops {dropped[DRATIO].mean():.2f}% on average and "
            f"{dropped[DRATIO].max():.2f}% at most, MAX {dropped[MAX].mean():.2f}% ({above} of 20 "
            f"above 1%), averaged MAX {dropped[AVERAGED].mean():.2f}%, our conformal estimator "
            f"{dropped[OURS].mean():.2f}%; waiting {waiting[DRATIO]:.2f}, {waiting[MAX]:.2f}, "
            f"{waiting[AVERAGED]:.2f} and {waiting[OURS]:.2f} s, buffers {buffer[DRATIO]:.0f}, "
            f"{buffer[MAX]:.0f}, {buffer[AVERAGED]:.0f} and {buffer[OURS]:.0f} tuples."
        )
    text = " ".join(said)
    if all(all(of) for of in holds):
        return Verdict("reproduced", text)
    if not all(never for never, _, _ in holds) or not any(above for _, above, _ in holds):
        return Verdict("refuted", text)
    return Verdict(
        "differs",
        f"{text} DRATIO keeps its promise, and more cautiously than reported (0.51%): (5.6) "
        "counts the delays' variance twice, so that under its own assumptions it drops "
        f"{100 * TWICE:.2f}%. MAX exceeds 1% only in short sets: a tuple is dropped "
        "when its delay is a record, and records become rare. The paper gives neither length nor "
        f"delays; ours are N({MEAN_DELAY:g} s, {SD_DELAY:g} s).",
    )


def cost_of_a_burst(setting: Setting) -> pd.DataFrame:
    """Mean buffer and waiting time when 10 early tuples come so many seconds later than usual."""
    rows = []
    for size in setting.steps([0, 5, 10, 20, 30, 40, 50, 60]):
        found: dict[str, list[dict[str, float]]] = {name: [] for name in MEASURES}
        for run in range(setting.pick(2, 15)):
            event, delay = readings(setting.rng(run), 18, BURST)  # the same for every size
            delay[100:110] += size * SECOND
            for measure in MEASURES:
                found[measure].append(judged(event, delay, measure))
        for measure, got in found.items():
            row: dict[str, Any] = {"disorder": size, "measure": measure}
            for name in ("waiting", "buffer", "dropped"):
                mean, low, high = interval([one[name] for one in got]).values()
                row |= {name: mean, f"{name}_low": low, f"{name}_high": high}
            rows.append(row)
    return pd.DataFrame(rows)


def judge_burst(measured: pd.DataFrame) -> Verdict:
    """MAX's waiting and buffer grow with the burst; DRATIO's grow by less than a quarter."""
    growth = {}
    for measure in MEASURES:
        part = measured[measured.measure == measure].set_index("disorder")
        growth[measure] = {
            name: float(part[name].iloc[-1] / part[name][0]) for name in ("waiting", "buffer")
        }
    said = (
        "With 10 early tuples 60 s later than usual waiting time and buffer grow by these factors: "
    ) + "; ".join(
        f"{name} {of['waiting']:.2f} and {of['buffer']:.2f}" for name, of in growth.items()
    )
    grows = min(growth[MAX].values()) > 2
    steady = max(growth[DRATIO].values()) < 1.25
    if grows and steady:
        return Verdict("reproduced", f"{said}. Up to 1.25 counts as no growth.")
    return Verdict("refuted" if not grows else "differs", f"{said}.")


def draw_drops(rows: pd.DataFrame) -> Any:
    """Drops of each set, with the 1% wanted; waiting times and buffers of the short sets."""
    return alt.concat(
        _sets(rows, SHORT, "dropped", "tuples dropped (%)", wanted=1),
        _sets(rows, LONG, "dropped", "tuples dropped (%)", wanted=1),
        _sets(rows, SHORT, "waiting", "mean waiting time (s)"),
        _sets(rows, SHORT, "buffer", "mean buffer (tuples)"),
        columns=2,
    ).properties(title="C7: drops (1% wanted, dashed), waiting and buffers of 20 sets")


def _sets(
    rows: pd.DataFrame, length: int, y: str, y_title: str, wanted: float | None = None
) -> Any:
    base = alt.Chart(rows[rows.length == length])
    points = base.mark_point(filled=True, size=45, opacity=1).encode(
        x=alt.X("set:Q", title="data set (16 to 20 sensors, four sets each)"),
        y=alt.Y(f"{y}:Q", title=y_title),
        color=alt.Color("measure:N", title="measure", scale=alt.Scale(range=PALETTE)),
        shape=alt.Shape("measure:N", title="measure"),
    )
    layers = [points]
    if wanted is not None:
        layers.insert(0, base.mark_rule(strokeDash=[4, 3]).encode(y=alt.datum(wanted)))
    return alt.layer(*layers).properties(width=300, height=180, title=f"sets of {length} s")


def draw_burst(rows: pd.DataFrame) -> Any:
    """Buffer and waiting time against the size of the burst."""
    panels = [
        lines(
            rows,
            "disorder",
            name,
            "measure",
            x_title="size of the early disorder (s)",
            y_title=y_title,
            series_title="measure",
            title=title,
            interval=(f"{name}_low", f"{name}_high"),
        ).properties(width=300)
        for name, y_title, title in (
            ("buffer", "mean buffer (tuples)", "buffer"),
            ("waiting", "mean waiting time (s)", "waiting time"),
        )
    ]
    return alt.hconcat(*panels).properties(title="C8: after an early burst of disorder")


EXPERIMENTS = (
    Experiment(
        name="C7",
        title="Tuples dropped and time waited by each measure of disorder",
        claim="Over 20 sets DRATIO 1% drops 0.51% on average and never above 1%; the largest "
        "difference of delays (MAX) drops 1.10%, above 1% in 13 sets, with buffers and waiting "
        "times a little smaller; averaged MAX drops more than 3%.",
        source="C, section 7, Figure 7",
        measure=drops_by_set,
        chart=draw_drops,
        judge=judge_drops,
    ),
    Experiment(
        name="C8",
        title="Buffer and waiting time after an early burst of disorder",
        claim="Buffer and waiting time of MAX grow with the disorder of an early burst, those of "
        "DRATIO do not.",
        source="C, section 7, Figure 8",
        measure=cost_of_a_burst,
        chart=draw_burst,
        judge=judge_burst,
    ),
)
