"""What E's experiments show: charts of their rows, and the verdict, with 95% intervals.

A row is one way to the pairs on one stretch of a point. Intervals are of means over the stretches,
by Student's t; ways are compared by their differences on the same stretch.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from experiments.drawing import Lines, Titles, each, side_by_side
from experiments.experiment import Verdict, verdict
from experiments.incomplete_joins.baselines import BASELINES, INTERPOLATION, KNN, LAST, MEAN
from experiments.repeats import half_widths

FUSED, SEPARATE = "DD, at once (paper)", "DD, then join"
OURS, OURS_SEPARATE = "DD with earlier values, at once (ours)", "DD with earlier values, then join"
EVERY = "every pair (trivial)"
SCORED = [FUSED, OURS, KNN, INTERPOLATION, LAST, MEAN]  # their twins find the same
TIMED = [FUSED, OURS, KNN, MEAN, SEPARATE]  # the other single values take the mean's time
TWINS = {FUSED: SEPARATE, OURS: OURS_SEPARATE}  # which find the same pairs
MEASURED = ("f_score", "microseconds")
JUDGED = 100  # arrivals whose pairs are counted and timed, after those that fill the windows


def averaged(rows: pd.DataFrame) -> pd.DataFrame:
    """A row a point and way: means over its stretches, with NAME_low and NAME_high.

    Where no more than one stretch was measured the interval has no length.
    """
    parameter = str(rows.columns[1])
    result = []
    for point, own in rows.groupby(["data", parameter, "way"], sort=False):
        row = dict(zip(("data", parameter, "way"), point, strict=True))
        for name in MEASURED:
            known = own[name].dropna().to_numpy()
            half = float(half_widths(known)[0]) if known.size > 1 else 0.0
            mean = float(known.mean()) if known.size else np.nan
            # Times have a logarithmic axis, which has no 0.
            low = max(mean - half, 0.05 * mean)
            row |= {name: mean, f"{name}_low": low, f"{name}_high": mean + half}
        result.append(row)
    return pd.DataFrame(result)


def draw(parameter: str, x_title: str) -> Callable[[pd.DataFrame], Any]:
    def chart(rows: pd.DataFrame) -> Any:
        scored = pd.concat([rows, every_pair(rows)], ignore_index=True)
        shown = averaged(scored.assign(microseconds=scored.arrival_seconds * 1e6))
        parts = []
        for column, ways, y_title in (
            ("f_score", [*SCORED, EVERY], "F-score of pairs"),
            ("microseconds", TIMED, "time per arrival (µs)"),
        ):
            part = Lines(
                parameter, column, "way", Titles(x_title, y_title, "way to the pairs"),
                log_y=ways is TIMED, order=[*SCORED, SEPARATE, EVERY],
            )  # fmt: skip
            parts += each(shown[shown.way.isin(ways)], "data", part)
        return side_by_side(parts, columns=rows.data.nunique())

    return chart


def every_pair(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row per stretch of a point: the F-score of answering every opposing pair.

    Each judged arrival is compared with a full window. The recall is 1 and the precision the share
    of pairs that are true.
    """
    parameter = str(rows.columns[1])
    one = rows[rows.way == FUSED]
    share = one.true_pairs / (JUDGED * one.held)
    return one.assign(way=EVERY, f_score=2 * share / (1 + share), arrival_seconds=np.nan)[
        ["data", parameter, "stretch", "way", "f_score", "arrival_seconds"]
    ]


def judge(rows: pd.DataFrame) -> Verdict:
    """E's claim is on time alone: imputing at once must be faster than imputing first, everywhere.

    The F-scores are not claimed by E; they are given with those of trivial answers.
    """
    parameter = str(rows.columns[1])
    rows = rows.copy()
    trivial = every_pair(rows)
    scored = pd.concat([rows, trivial])
    score = scored.pivot_table(
        index=["data", parameter, "stretch"], columns="way", values="f_score"
    )
    times = rows.pivot_table(index=["data", parameter], columns="way", values="arrival_seconds")
    faster = times[SEPARATE] / times[FUSED]
    slower = faster[faster < 1]
    said = (
        f"Imputing at once takes {times[FUSED].median() * 1e6:.0f} µs per arrival (median), "
        f"imputing first {_span(faster)} times as long, with equal pairs.{_scores(rows, score)} "
        f"{_gain(score, times)}{_shortage(rows)} {_certainty(rows)}"
    )
    places = ", ".join(f"{name} at {value:g}" for name, value in slower.index)
    return verdict(
        said,
        met=slower.empty,
        refuted=faster.median() < 1,
        because=f"Imputing at once is slower at {len(slower)} of {len(faster)} points ({places}): "
        "it saves nothing where nearly every object is near another.",
    )


def _scores(rows: pd.DataFrame, score: pd.DataFrame) -> str:
    """The F-scores of all ways and of trivial answers, in sentences."""
    sets = score.groupby("data")
    every, best = sets[EVERY].mean(), sets[[FUSED, OURS, *BASELINES]].mean()
    alike = [str(name) for name in every.index if best.loc[name].min() > 0.995]
    difference = score[EVERY] - score[FUSED]
    above = int((difference.unstack("stretch").mean(axis=1) > 0).sum())
    per_set = ", ".join(f"{name} {value:.2f}" for name, value in every.items())
    said = (
        f" E's text gives no F-score; ours: {_mean(score[FUSED])} with DDs, "
        + ", ".join(f"{_mean(score[name])} {name}" for name in BASELINES)
        + f". Trivial answers: every pair scores {_mean(score[EVERY])} ({per_set}), as "
        f"{_share(rows)} of the opposing pairs are true; no pair scores 0. Every pair is above DDs "
        f"at {above} of {_count(score)} points, surely at {_points(difference)[0]}."
    )
    if alike:
        said += f" On {_and(alike)} all ways score above 0.995: the set tells nothing apart."
    worse = [name for name in BASELINES if _surely_above(score[name] - score[FUSED])]
    if worse:
        beaten = [f"{name} at {_points(score[name] - score[FUSED])[0]}" for name in worse]
        said += (
            f" Better than DDs, of {_count(score)} points: {', '.join(beaten)}. An object with "
            "many donors spreads its probability over values of which few lie on the true side of "
            "ε, and rows that follow each other hardly differ, which DDs do not use; interpolation "
            "even waits for the next row, as no join can."
        )
    return said


def _share(rows: pd.DataFrame) -> str:
    """The share of opposing pairs that are true, least and greatest of the sets' means."""
    one = rows[rows.way == FUSED]
    shares = (100 * one.true_pairs / (JUDGED * one.held)).groupby(one.data).mean()
    return f"{shares.min():.0f} to {shares.max():.0f}%"


def _gain(score: pd.DataFrame, times: pd.DataFrame) -> str:
    """What earlier values add, in a sentence."""
    ours = score[OURS]
    rivals = [
        (FUSED, "plain DDs"), (KNN, KNN), (INTERPOLATION, "interpolation, which looks ahead"),
        (LAST, LAST),
    ]  # fmt: skip
    compared = []
    for name, said in rivals:
        above, below = _points(ours - score[name])
        compared.append(f"{above} above and {below} below {said}")
    faster = times[OURS_SEPARATE] / times[OURS]
    return (
        f"With earlier values as determinants (ours) the mean is {_mean(ours)}: of {_count(score)} "
        f"points {'; '.join(compared)}; at the others the 95% interval of the difference has 0 in "
        f"it. It takes {times[OURS].median() * 1e6:.0f} µs at once, imputing first {_span(faster)} "
        "times as long, and finds the same pairs."
    )


def _points(difference: pd.Series) -> tuple[int, int]:
    """Number of points at which it is surely above 0, and surely below."""
    table = difference.unstack("stretch")
    mean, half = table.mean(axis=1), half_widths(table)
    return int((mean > half).sum()), int((mean < -half).sum())


def _surely_above(difference: pd.Series) -> bool:
    """Whether the mean over all points is above 0, beyond what stretches differ by."""
    mean, half = _of_all(difference)
    return mean > half


def _mean(score: pd.Series) -> str:
    mean, half = _of_all(score)
    return f"{mean:.3f} ± {half:.3f}" if np.isfinite(half) else f"{mean:.3f}"


def _of_all(score: pd.Series) -> tuple[float, float]:
    """Mean over all points, and half its 95% interval.

    Points of a set share its stretches, those of another set are others: the squared half lengths
    of the sets' means add up.
    """
    sets = [own.groupby("stretch").mean() for _, own in score.groupby("data", sort=False)]
    weight = score.groupby("data", sort=False).size().to_numpy() / len(score)
    half = np.array([half_widths(own)[0] for own in sets])
    return float(score.mean()), float(np.sqrt(((weight * half) ** 2).sum()))


def _count(score: pd.DataFrame) -> int:
    return len(score.unstack("stretch"))


def _certainty(rows: pd.DataFrame) -> str:
    """What the intervals are of, and what of the scores is no surprise."""
    stretches = rows.stretch.nunique()
    clocked = rows[rows.way == FUSED].dropna(subset="arrival_seconds").stretch.nunique()
    pairs = int(rows.groupby("stretch").true_pairs.median().median())
    overlapping = ", ".join(rows[rows.overlapping].data.unique())
    said = (
        f"A point is the mean over {stretches} stretches of the set, evenly spread, each with its "
        f"own gaps and repository (median of {pairs:,} true pairs in each; times of imputing at "
        f"once from {clocked} of them); ± and what is called above or below are 95% intervals by "
        "Student's t over the stretches"
    )
    if overlapping:
        said += f", too short for {overlapping}, whose stretches have rows of windows in common"
    return (
        f"{said}. What ours are discovered with (nearness 0.005, 0.02, 0.08, tightness 2) was "
        "chosen on short streams of these same sets, which favours ours; nothing was chosen for "
        "the paper's way and the baselines."
    )


def _shortage(rows: pd.DataFrame) -> str:
    """Which sets are too short for what was asked, in a sentence."""
    least = rows[rows.short].groupby("data")[["held", "lent"]].min()
    said = [
        f"{name}, whose windows hold {row.held:,} and repository {row.lent:,}"
        for name, row in least.iterrows()
    ]
    return f" Too short a set: {'; '.join(said)}." if said else ""


def _and(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _span(ratio: pd.Series) -> str:
    """The least and the greatest of some ratios, and their median."""
    return f"{_short(ratio.min())} to {_short(ratio.max())} (median {_short(ratio.median())})"


def _short(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}"
