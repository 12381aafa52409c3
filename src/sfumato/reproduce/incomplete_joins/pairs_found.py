"""E's experiments: pairs found in spite of missing attributes, and the time they take.

The text of E at hand breaks off within section 6.1, before its figures: they are numbered here in
the order of its table of parameters. Its defaults are not marked: middle values serve, but for
the window and the repository, which are the smallest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from sfumato.operators.discovery import discover_dependencies
from sfumato.operators.imputation import Imputer
from sfumato.operators.imputation_baselines import (
    impute_mean,
    impute_nearest,
    interpolate_stream,
)
from sfumato.operators.incomplete_join import IncompleteArrivals, IncompleteJoin
from sfumato.operators.similarity_join import Answers, Arrivals, SimilarityJoin
from sfumato.reproduce.drawing import Titles, lines
from sfumato.reproduce.experiment import Experiment, Setting, Verdict
from sfumato.reproduce.incomplete_joins.incomplete_streams import (
    SETS,
    Floats,
    Objects,
    complete_rows,
    split,
)
from sfumato.reproduce.panels import side_by_side

ALPHA, DIMENSIONS, WITHIN, ROWS, REPOSITORY, MISSING = 0.5, 4, 0.3, 500, 10_000, 1
JUDGED = 300  # arrivals whose pairs are counted and timed, after those that fill the windows
NEAR = (0.02, 0.1)  # of the determinants of dependencies
MOST_ALTERNATIVES = 64
FUSED, SEPARATE = "DD, at once (Join-iDS)", "DD, then join"
BASELINES = ("kNN, then join", "interpolation, then join", "mean, then join")

Pairs = npt.NDArray[np.int64]


@dataclass
class Imputations:
    """What does not depend on alpha, epsilon or the window: made once for a stream."""

    objects: Objects
    gaps: Floats
    imputer: Imputer
    certain: dict[str, tuple[Floats, float]] = field(default_factory=dict)  # values, s an object


def imputations(objects: Objects, gaps: Floats, seed: int) -> Imputations:
    """The imputer by discovered dependencies, and the streams filled by the baselines."""
    names = tuple(f"a{i}" for i in range(gaps.shape[1]))
    found = []
    for epsilon in NEAR:
        found += discover_dependencies(
            objects.repository, names=names, max_determinants=1, epsilons=(epsilon,), within=1.0,
            confidence=0.5, seed=seed,
        )  # fmt: skip
    imputer = Imputer(objects.repository, found, names=names, max_alternatives=MOST_ALTERNATIVES)
    ready = Imputations(objects, gaps, imputer)
    ways: dict[str, Callable[[], Floats]] = {
        BASELINES[0]: lambda: impute_nearest(objects.repository, gaps),
        BASELINES[1]: lambda: interpolated(objects.repository, gaps),
        BASELINES[2]: lambda: impute_mean(objects.repository, gaps),
    }
    for name, fill in ways.items():
        begin = time.thread_time()
        values = fill()
        ready.certain[name] = values, (time.thread_time() - begin) / len(gaps)
    return ready


def interpolated(repository: Floats, gaps: Floats) -> Floats:
    """Each side from its own rows before and after; what none of them has, from the mean."""
    result = gaps.copy()
    for side in (0, 1):
        result[side::2] = interpolate_stream(gaps[side::2])
    return impute_mean(repository, result)


def certain_join(objects: Objects, values: Floats, within: float, rows: int) -> tuple[Pairs, float]:
    """Pairs of the judged arrivals when every object has one value; seconds for each arrival."""
    join = SimilarityJoin(values.shape[1], within, 0.5, rows, 1.0, alternatives=False)
    parts = []
    for part in (slice(0, objects.first), slice(objects.first, None)):
        points = np.ascontiguousarray(values[part])
        n = len(points)
        parts.append(
            Arrivals(
                objects.side[part], np.zeros(n, np.int64), np.arange(n + 1), np.ones(n), points
            )
        )
    join.process(parts[0])
    return timed(lambda: join.process(parts[1]), parts[1].side.size)


def fused_join(ready: Imputations, within: float, alpha: float, rows: int) -> tuple[Pairs, float]:
    """The same for the join that imputes only what comes near."""
    objects = ready.objects
    join = IncompleteJoin(ready.imputer, within, alpha, rows)
    parts = [
        IncompleteArrivals(
            objects.side[part], np.zeros(len(ready.gaps[part]), np.int64), ready.gaps[part].copy()
        )
        for part in (slice(0, objects.first), slice(objects.first, None))
    ]
    join.process(parts[0])
    return timed(lambda: join.process(parts[1])[0], parts[1].side.size)


def separate_join(
    ready: Imputations, within: float, alpha: float, rows: int
) -> tuple[Pairs, float]:
    """The same when every object is imputed in full before it is joined."""
    objects = ready.objects
    join = SimilarityJoin(ready.gaps.shape[1], within, alpha, rows, 1.0, alternatives=False)

    def run(part: slice) -> Answers:
        done = ready.imputer.impute(ready.gaps[part])
        side = objects.side[part]
        return join.process(
            Arrivals(side, np.zeros(side.size, np.int64), done.offsets, done.prob, done.values)
        )

    run(slice(0, objects.first))
    return timed(lambda: run(slice(objects.first, None)), len(ready.gaps) - objects.first)


def timed(call: Callable[[], Answers], arrivals: int) -> tuple[Pairs, float]:
    begin = time.thread_time()
    answers = call()
    spent = time.thread_time() - begin
    return np.sort(answers.left * 2**31 + answers.right), spent / arrivals


def f_score(found: Pairs, true: Pairs) -> float:
    """2 precision recall / (precision + recall) = 2 both / (found + true); of nothing, 1."""
    if not found.size + true.size:
        return 1.0
    both = np.intersect1d(found, true, assume_unique=True).size
    return 2.0 * both / (found.size + true.size)


def compared(ready: Imputations, within: float, alpha: float, rows: int) -> list[dict[str, Any]]:
    """A row for each way. Raises RuntimeError if the two with DDs find different pairs."""
    objects = ready.objects
    true, _ = certain_join(objects, objects.complete, within, rows)
    ways = {
        FUSED: fused_join(ready, within, alpha, rows),
        SEPARATE: separate_join(ready, within, alpha, rows),
    }
    if not np.array_equal(ways[FUSED][0], ways[SEPARATE][0]):
        raise RuntimeError("imputing at once and imputing first found different pairs")
    for name, (values, spent) in ready.certain.items():
        found, joining = certain_join(objects, values, within, rows)
        ways[name] = found, spent + joining
    return [
        {
            "way": name,
            "f_score": f_score(found, true),
            "true_pairs": true.size,
            "found_pairs": found.size,
            "arrival_seconds": spent,
        }
        for name, (found, spent) in ways.items()
    ]


def measured(setting: Setting, parameter: str, values: tuple[Any, ...]) -> pd.DataFrame:
    """F-score and time over one parameter, the others at their defaults, on each data set."""
    names = {"d": ("gas", "weather"), "R": ("Intel lab", "weather", "stocks")}.get(parameter, SETS)
    small = setting.quick
    result = []
    for name in setting.steps(names):
        ready: dict[tuple[int, ...], Imputations] = {}
        for value in values:
            use = {
                "alpha": ALPHA, "d": DIMENSIONS, "epsilon": WITHIN, "w": 100 if small else ROWS,
                "R": 2_000 if small else REPOSITORY, "m": MISSING, parameter: value,
            }  # fmt: skip
            key = (use["d"], use["R"], use["m"], use["w"])
            if key not in ready:
                rows = complete_rows(setting, name, use["d"])
                judged = 200 if small else JUDGED
                place = SETS.index(name)
                objects = split(setting.rng(place), rows, use["w"], judged, use["R"])
                if parameter == "w" and len(objects.complete) < 2 * use["w"] + judged:
                    continue  # the set is too short to fill these windows
                if parameter == "R" and len(objects.repository) < use["R"]:
                    continue
                gaps = objects.with_gaps(setting.rng(place, use["m"]), use["m"])
                ready[key] = imputations(objects, gaps, setting.seed)
            for row in compared(ready[key], use["epsilon"], use["alpha"], use["w"]):
                result.append({"data": name, parameter: value, **row})
    return pd.DataFrame(result)


def draw(parameter: str, x_title: str, title: str) -> Callable[[pd.DataFrame], Any]:
    def chart(rows: pd.DataFrame) -> Any:
        shown = rows.assign(microseconds=rows.arrival_seconds * 1e6)
        # Imputing at once and imputing first find the same pairs: one line for both.
        shown.loc[shown.way == SEPARATE, "f_score"] = np.nan
        parts = []
        for column, y_title, log in (
            ("f_score", "F-score of pairs", False),
            ("microseconds", "time an arrival (µs)", True),
        ):
            for name, own in shown.dropna(subset=column).groupby("data", sort=False):
                part = lines(
                    own, parameter, column, "way", Titles(x_title, y_title, "way to the pairs"), title="", log_y=log,
                )  # fmt: skip
                parts.append((str(name), part))
        return side_by_side(parts, title, columns=rows.data.nunique())

    return chart


def judge(rows: pd.DataFrame) -> Verdict:
    """DDs find the pairs better than every baseline, and at once is faster than one by one."""
    parameter = str(rows.columns[1])
    score = rows.pivot_table(index=["data", parameter], columns="way", values="f_score")
    times = rows.pivot_table(index=["data", parameter], columns="way", values="arrival_seconds")
    mean, faster = score.mean(), times[SEPARATE] / times[FUSED]
    rivals = {name: name.split(",")[0] for name in BASELINES}
    won = {name: int((score[FUSED] < score[name] - 0.005).sum()) for name in BASELINES}
    slower = times[BASELINES[0]] / times[FUSED]
    said = (
        f"Mean F-score {mean[FUSED]:.3f} with DDs, "
        + ", ".join(f"{mean[name]:.3f} {short}" for name, short in rivals.items())
        + f"; imputing at once takes {times[FUSED].median() * 1e6:.0f} µs an arrival (median), "
        f"imputing first {faster.min():.2g} to {faster.max():.2g} times as long (median "
        f"{faster.median():.2g}), kNN {slower.min():.2g} to {slower.max():.2g} times."
    )
    better = all(mean[FUSED] >= mean[name] - 0.005 for name in BASELINES)
    quicker = faster.median() >= 1.0
    if better and quicker:
        return Verdict("reproduced", said)
    if not quicker and all(mean[FUSED] < mean[name] for name in BASELINES):
        return Verdict("refuted", said)
    because = []
    if not better:
        beaten = [
            f"{short} at {won[name]} of {len(score)} points"
            for name, short in rivals.items()
            if mean[name] > mean[FUSED] + 0.005
        ]
        because.append(
            f"Better than DDs: {', '.join(beaten)}. An object with many donors spreads its "
            "probability over values of which few lie on the true side of ε (hence the fall with "
            "α, E1), while rows that follow each other hardly differ, which interpolation uses and "
            "DDs do not."
        )
    if not quicker:
        because.append("Imputing at once saves nothing where nearly every object is near another.")
    return Verdict("differs", f"{said} {' '.join(because)}")


def swept(
    name: str, parameter: str, values: tuple[Any, ...], quick: tuple[Any, ...], x_title: str
) -> Experiment:
    title = f"F-score and time an arrival over {x_title}"
    return Experiment(
        name=name,
        title=title,
        claim="Imputing by differential dependencies finds the pairs of the complete data better "
        "than other imputation, and imputing and joining at once is faster than one after the "
        "other. (The figures with E's numbers are not in the text at hand.)",
        source="E, sections 1 and 6; numbered in the order of its parameters",
        measure=lambda setting: measured(setting, parameter, setting.pick(quick, values)),
        chart=draw(parameter, x_title, f"{name}: {title}"),
        judge=judge,
    )


EXPERIMENTS = (
    swept("E1", "alpha", (0.1, 0.2, 0.5, 0.8, 0.9), (0.1, 0.9), "probability threshold α"),
    swept("E2", "d", (2, 3, 4, 5, 6, 10), (2, 6), "attributes d"),
    swept(
        "E3", "epsilon", (0.1, 0.2, 0.3, 0.4, 0.5), (0.1, 0.5),
        "distance ε (attributes in [0, 1])",
    ),
    swept("E4", "w", (500, 1_000, 2_000, 4_000), (50, 100), "window w (objects)"),
    swept(
        "E5", "R", (10_000, 20_000, 30_000, 40_000, 50_000), (1_000, 2_000),
        "repository R (objects)",
    ),
    swept("E6", "m", (1, 2, 3), (1, 3), "missing attributes m"),
)  # fmt: skip
