"""Experiment of Kim et al. (2006): the later cost of an early burst of disorder (C8)."""

from typing import Any

import pandas as pd

from experiments.disorder.measures import DRATIO, MAX, MEASURES, SECOND, judged, readings
from experiments.drawing import Lines, Titles, side_by_side
from experiments.experiment import Experiment, Setting, Verdict, verdict
from experiments.repeats import means

LENGTH = 1_000  # seconds per set
STEADY = 1.1  # growth that is treated as none


def cost_of_a_burst(setting: Setting) -> pd.DataFrame:
    """Measure mean buffer and wait when 10 early tuples are some seconds later than usual."""
    runs = []
    for size in setting.steps([0, 5, 10, 20, 30, 40, 50, 60]):
        for run in range(setting.pick(2, 15)):
            event, delay = readings(setting.rng(run), 18, LENGTH)  # the same for every size
            delay[100:110] += size * SECOND
            for name in MEASURES:
                runs.append({"disorder": size, "measure": name, **judged(event, delay, name)})
    return means(runs, "waiting", "buffer", "dropped")


def judge_burst(measured: pd.DataFrame) -> Verdict:
    """Check that MAX's wait and buffer at least double, and DRATIO's grow by at most a tenth."""
    growth = {}
    for measure in MEASURES:
        part = measured[measured.measure == measure].set_index("disorder")
        growth[measure] = {
            name: float(part[name].iloc[-1] / part[name][0]) for name in ("waiting", "buffer")
        }
    said = (
        "With 10 early tuples 60 s later than usual, waiting time and buffer grow by these "
        "factors: "
    ) + "; ".join(
        f"{name} {of['waiting']:.2f} and {of['buffer']:.2f}" for name, of in growth.items()
    )
    grows = min(growth[MAX].values()) > 2
    steady = max(growth[DRATIO].values()) <= STEADY
    return verdict(
        f"{said}.",
        met=grows and steady,
        refuted=not grows,
        because=f"DRATIO grows by more than the {STEADY - 1:.0%} that are treated as no growth, "
        "and MAX grows by far more."
        if grows
        else "MAX does not double.",
        allowing=f"Up to {STEADY:g} counts as no growth.",
    )


def draw_burst(rows: pd.DataFrame) -> Any:
    """Draw buffer and waiting time against the size of the burst."""
    panels = []
    for name, title, unit in (("buffer", "buffer", "tuples"), ("waiting", "waiting time", "s")):
        titles = Titles("size of the early disorder (s)", f"mean {title} ({unit})", "measure")
        panels.append((title, Lines("disorder", name, "measure", titles)(rows)))
    return side_by_side(panels, columns=2)


EXPERIMENTS = (
    Experiment(
        name="C8",
        title="Buffer and waiting time after an early burst of disorder",
        claim="Buffer and waiting time of MAX grow with the disorder of an early burst; buffer "
        "and waiting time of DRATIO do not.",
        source="Kim et al. (2006), section 7, Figure 8",
        measure=cost_of_a_burst,
        draw=draw_burst,
        judge=judge_burst,
        substitutions=(
            "The paper does not state the place, the number or the size of its early disorder. "
            "Here, 10 tuples after the first 100 are up to 60 s late, in sets of 18 sensors and "
            "1,000 s, with simulated delays as in C7.",
        ),
    ),
)
