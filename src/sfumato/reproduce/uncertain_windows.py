"""A's experiments on count windows of tuples that may not exist."""

from __future__ import annotations

import pandas as pd

from sfumato.operators.uncertain_window import UncertainWindow
from sfumato.reproduce.drawing import lines
from sfumato.reproduce.experiment import Experiment, Setting, Verdict
from sfumato.reproduce.perturbation import existence


def held_by_noise(setting: Setting) -> pd.DataFrame:
    """Mean tuples held for w and the standard deviation of existence, with 95% intervals."""
    rows = []
    arrivals, repeats = 2_000, setting.pick(3, 15)
    points = [(sd, w) for sd in (0.025, 0.1, 0.175, 0.25) for w in (100, 250, 500)]
    for i, (sd, w) in enumerate(setting.steps(points)):
        means = []
        for repeat in range(repeats):
            p = existence(setting.rng(i, repeat), arrivals, sd)
            starts = UncertainWindow(w, 0.95).extend(p)
            held = pd.Series(range(1, arrivals + 1)) - starts
            means.append(float(held[starts > 0].mean()))  # once the window is full
        held_mean = pd.Series(means)
        error = 1.96 * float(held_mean.std(ddof=1)) / repeats**0.5
        mean = float(held_mean.mean())
        rows.append({"sd": sd, "rows": w, "held": mean, "low": mean - error, "high": mean + error})
    return pd.DataFrame(rows)


def _overhead(measured: pd.DataFrame, sd: float) -> float:
    at = measured[measured.sd == sd]
    return float((at.held / at["rows"] - 1).mean() * 100)


def _judge_held(measured: pd.DataFrame) -> Verdict:
    little, much = _overhead(measured, 0.025), _overhead(measured, 0.25)
    close = abs(little - 6.12) < 2 and abs(much - 82.97) < 10
    return Verdict(
        "reproduced" if close else "differs",
        f"Overhead {little:.2f}% at sd 0.025 and {much:.2f}% at sd 0.25.",
    )


EXPERIMENTS = (
    Experiment(
        name="A10",
        title="Tuples held for growing existential uncertainty",
        claim="On average 6.12% more tuples than w are held at sd 0.025, 82.97% more at sd 0.25.",
        source="A, section 7.4.2, Figure 10",
        measure=held_by_noise,
        chart=lambda rows: lines(
            rows,
            "sd",
            "held",
            "rows",
            x_title="standard deviation of existence",
            y_title="tuples held w' (mean)",
            series_title="window size w (tuples)",
            title="A10: tuples held for growing existential uncertainty",
            interval=("low", "high"),
        ),
        judge=_judge_held,
    ),
)
