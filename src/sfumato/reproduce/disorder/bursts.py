"""C's experiment on an early burst of disorder: what it costs each measure later on (C8)."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from sfumato.reproduce.disorder.measures import DRATIO, MAX, MEASURES, SECOND, judged, readings
from sfumato.reproduce.drawing import Titles, lines
from sfumato.reproduce.experiment import Experiment, Setting, Verdict
from sfumato.reproduce.repeats import interval

LENGTH = 1_000  # seconds of a set


def cost_of_a_burst(setting: Setting) -> pd.DataFrame:
    """Mean buffer and waiting time when 10 early tuples come so many seconds later than usual."""
    rows = []
    for size in setting.steps([0, 5, 10, 20, 30, 40, 50, 60]):
        found: dict[str, list[dict[str, float]]] = {name: [] for name in MEASURES}
        for run in range(setting.pick(2, 15)):
            event, delay = readings(setting.rng(run), 18, LENGTH)  # the same for every size
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


def draw_burst(rows: pd.DataFrame) -> Any:
    """Buffer and waiting time against the size of the burst."""
    panels = [
        lines(
            rows,
            "disorder",
            name,
            "measure",
            Titles("size of the early disorder (s)", y_title, "measure"),
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
