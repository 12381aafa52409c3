"""C's experiment on the tuples that each measure of disorder drops, and how long it waits (C7)."""

from statistics import NormalDist
from typing import Any

import altair as alt
import pandas as pd

from sfumato.reproduce.disorder.measures import (
    AVERAGED,
    DRATIO,
    MAX,
    MEAN_DELAY,
    MEASURES,
    OURS,
    SD_DELAY,
    judged,
    readings,
)
from sfumato.reproduce.drawing import PALETTE
from sfumato.reproduce.experiment import Experiment, Setting, Verdict, verdict

Z = NormalDist().inv_cdf(0.01)
TWICE = NormalDist().cdf(2**0.5 * Z)  # how often a delay exceeds z standard deviations of two
SHORT, LONG = 30, 300  # seconds of a set
SETS = [16 + i // 4 for i in range(20)]  # sensors


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
    return verdict(
        " ".join(said),
        met=all(all(of) for of in holds),
        refuted=not all(never for never, _, _ in holds) or not any(above for _, above, _ in holds),
        because="DRATIO keeps its promise, and more cautiously than reported (0.51%): (5.6) "
        "counts the delays' variance twice, so that under its own assumptions it drops "
        f"{100 * TWICE:.2f}%. MAX exceeds 1% only in short sets: a tuple is dropped "
        "when its delay is a record, and records become rare. The paper gives neither length nor "
        f"delays; ours are N({MEAN_DELAY:g} s, {SD_DELAY:g} s), and with the sets of 30 s chosen "
        "so that MAX drops what is reported of it: its figure is an input here, not a result.",
    )


def draw_drops(rows: pd.DataFrame) -> Any:
    """Drops of each set, with the 1% wanted; waiting times and buffers of the short sets."""
    return alt.concat(
        _sets(rows, SHORT, "dropped", "tuples dropped (%), 1% wanted", wanted=1),
        _sets(rows, LONG, "dropped", "tuples dropped (%), 1% wanted", wanted=1),
        _sets(rows, SHORT, "waiting", "mean waiting time (s)"),
        _sets(rows, SHORT, "buffer", "mean buffer (tuples)"),
        columns=2,
    )


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


EXPERIMENTS = (
    Experiment(
        name="C7",
        title="Tuples dropped and time waited by each measure of disorder",
        claim="Over 20 sets DRATIO 1% drops 0.51% on average and never above 1%; the largest "
        "difference of delays (MAX) drops 1.10%, above 1% in 13 sets, with buffers and waiting "
        "times a little smaller; averaged MAX drops more than 3%.",
        source="C, section 7, Figure 7",
        measure=drops_by_set,
        draw=draw_drops,
        judge=judge_drops,
    ),
)
