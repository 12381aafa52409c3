"""Experiments of Dallachiesa et al. (2015): the time of a similarity join with each strategy."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from experiments.continuation import continued
from experiments.datasets import load
from experiments.drawing import Lines, Titles
from experiments.experiment import Experiment, Setting, Verdict, verdict
from experiments.repeats import means, seconds
from experiments.uncertain_windows.perturbed_streams import (
    EXISTENCE_SUBSTITUTION,
    SAMPLES,
    UCR_SUBSTITUTIONS,
    distance_of_selectivity,
    uncertain_pair,
)
from experiments.uncertain_windows.plain_joins import IndexMatchJoin, PlainNestedJoin
from sfumato.operators.joins.similarity_join import ArrivalBatch, SimilarityJoin
from sfumato.windows import Rows

CONFIDENCE, PROBABILITY, ROWS = 0.95, 0.5, 500
NESTED, INDEX, SORT = "nested (paper)", "Index-Match (paper)", "Sort-Match (paper)"
WIDE, OURS = "nested, SIMD (ours)", "index (ours)"
WAYS: dict[str, tuple[type[SimilarityJoin], str]] = {
    NESTED: (PlainNestedJoin, "nested"),
    INDEX: (IndexMatchJoin, "index"),
    SORT: (SimilarityJoin, "sort"),
    WIDE: (SimilarityJoin, "nested"),
    OURS: (SimilarityJoin, "index"),
}
WARM, TIMED, CHUNK = 20, 120, 40  # arrivals after the windows are full


def times(arrivals: ArrivalBatch, within: float, rows: int) -> dict[str, float]:
    """Measure seconds per arriving tuple with each strategy, once the windows are full."""
    fill = arrivals.side.size - WARM - TIMED
    filled = SimilarityJoin(1, within, PROBABILITY, Rows(rows, CONFIDENCE), alternatives=False)
    filled.process(arrivals.part(0, fill))
    begins = range(fill + WARM, arrivals.side.size, CHUNK)
    chunks = [arrivals.part(begin, begin + CHUNK) for begin in begins]
    spent, answers = {}, set()
    for name, (kind, strategy) in WAYS.items():
        join = continued(filled, kind, strategy=strategy)
        join.process(arrivals.part(fill, fill + WARM))
        took = [seconds(partial(join.process, chunk)) for chunk in chunks]
        spent[name] = float(np.median(took)) / CHUNK  # other programs disturb some chunks
        answers.add(join.counters["answers"])
    if len(answers) > 1:
        raise AssertionError(f"strategies found different answers: {answers}")
    return spent


def overlap(arrivals: ArrivalBatch, within: float) -> tuple[float, float]:
    """Return the shares of sample pairs, and of pairs of tuples' regions, within the distance."""
    values = arrivals.points.reshape(arrivals.side.size, -1)
    left, right = values[:200:2], values[1:200:2]
    near = np.abs(left[:, None, :, None] - right[None, :, None, :]) <= within
    gap = np.maximum(
        left.min(axis=1)[:, None] - right.max(axis=1), right.min(axis=1) - left.max(axis=1)[:, None]
    )
    return float(near.mean()), float((gap <= within).mean())


def times_over(
    setting: Setting, over: str, values: Sequence[Any] | None = None, least: int = 2
) -> pd.DataFrame:
    """Return a row per point and strategy."""
    sets = load(setting, "UCR archive")
    values = list(sets)[:: setting.pick(4, 1)] if values is None else values
    points: list[dict[str, Any]]
    points = [{"rows": ROWS, "samples": SAMPLES, "dataset": "Coffee", over: v} for v in values]
    runs, shares = [], []
    times(uncertain_pair(setting.rng(0), sets["Coffee"], n=150), 0.1, 10)  # compile first
    for i, point in enumerate(setting.steps(points)):
        shared = []
        for run in range(setting.pick(least, 15)):
            rng = setting.rng(i, run)
            n = point["rows"] * 5 // 4 + WARM + TIMED  # a window holds about 1.22 w tuples
            arrivals = uncertain_pair(rng, sets[point["dataset"]], point["samples"], n)
            within = distance_of_selectivity(rng, arrivals, PROBABILITY, pairs=20_000, closest=0.25)
            for name, spent in times(arrivals, within, point["rows"]).items():
                runs.append({**point, "way": name, "tuple_seconds": spent})
            shared.append(overlap(arrivals, within))
        near, overlapping = np.mean(shared, axis=0)
        shares.append({over: point[over], "near": near, "overlapping": overlapping})
    return means(runs, "tuple_seconds").merge(pd.DataFrame(shares), on=over)


def _table(measured: pd.DataFrame, x: str) -> pd.DataFrame:
    """Return microseconds, one column per strategy."""
    return measured.pivot(index=x, columns="way", values="tuple_seconds") * 1e6


def judge_windows(measured: pd.DataFrame) -> Verdict:
    """Check that Nested is slowest, then Index-Match, then Sort-Match, at every w."""
    table = _table(measured, "rows")
    return _ranking(measured, table, f"At w = {table.index[-1]:,}", table.iloc[-1])


def judge_datasets(measured: pd.DataFrame) -> Verdict:
    """Check like `judge_windows`, on average and for all sets; 32.72, 32.13 and 27.51 ms."""
    table = _table(measured, "dataset")
    return _ranking(measured, table, f"On average over {len(table)} sets", table.mean())


def _ranking(measured: pd.DataFrame, table: pd.DataFrame, where: str, at: pd.Series) -> Verdict:
    paper = table[[NESTED, INDEX, SORT]]
    first = int((paper.idxmin(axis=1) == SORT).sum())
    less = paper.min(axis=1).mean() / table[OURS].mean()
    said = (
        f"{where}, the microseconds per tuple are: "
        f"{', '.join(f'{way} {at[way]:.1f}' for way in WAYS)}. Sort-Match is the fastest of the "
        f"paper's three methods at {first} of {len(table)} points. The best of the three takes "
        f"{less:.1f} times as long as our index."
    )
    return verdict(
        said,
        met=at[SORT] < at[INDEX] <= 1.05 * at[NESTED] and first >= 0.8 * len(table),
        refuted=at[SORT] > at[INDEX] and first == 0,
        because=_why(measured),
        allowing="The verdict depends on the order, not on the milliseconds: nested loops may be "
        "5% faster than Index-Match, and four of five points suffice.",
    )


def _why(measured: pd.DataFrame) -> str:
    return (
        f"With this noise, {measured.overlapping.mean():.0%} of the pairs of tuples have regions "
        f"within the distance, so Index-Match saves little. {measured.near.mean():.0%} of the "
        "pairs of samples are near: Sort-Match visits these pairs one by one through a tree, and "
        "nested loops visit all pairs in memory order."
    )


def judge_samples(measured: pd.DataFrame) -> Verdict:
    """Check that Sort-Match leads for few samples, Index-Match for many, beyond the intervals."""
    table = _table(measured, "samples")
    low = measured.pivot(index="samples", columns="way", values="low_seconds")
    high = measured.pivot(index="samples", columns="way", values="high_seconds")
    ahead, behind = high[SORT] < low[INDEX], high[INDEX] < low[SORT]
    ratio = table[INDEX] / table[SORT]
    best = table[[NESTED, INDEX, SORT]].min(axis=1) / table[OURS]
    few, many = table.index[0], table.index[-1]
    shown = ", ".join(f"{ratio[n]:.2f} at {n}" for n in table.index)
    said = (
        f"The ratio of the time of Index-Match to the time of Sort-Match is {shown} samples. The "
        f"fastest of the paper's methods takes {best[few]:.1f} to {best[many]:.1f} times as long "
        "as our index."
    )
    level = [str(n) for n in table.index[~ahead & ~behind]]
    return verdict(
        said,
        met=ahead[few] and behind[many],
        refuted=behind.all() or ahead[many],
        because="Index-Match is faster for many samples, as reported. For few samples, the two "
        f"methods are equal within the 95% intervals (at {', '.join(level)} samples). "
        f"{_why(measured)}",
    )


def _over(x: str, x_title: str, named: bool = False) -> Lines:
    titles = Titles(x_title, "time per arriving tuple (microseconds)", "strategy")
    return Lines(x, "tuple_seconds", "way", titles, named=named, log_y=True, microseconds=True)


SUBSTITUTIONS = (
    "Index-Match uses balls around the centroid over part of the samples (Lian and Chen 2009, "
    "Lemmas 5.1 and 5.2) in the library's grid. Section 6.2.1 of the paper uses an approximate "
    "minimum enclosing ball of a subset, without defining the subset.",
    f"Times are measured over {TIMED} arrivals once the windows are full; the paper uses streams "
    "of 2,000.",
    *UCR_SUBSTITUTIONS,
    EXISTENCE_SUBSTITUTION,
    "The distance is determined from random pairs, for a selectivity of 0.05%.",
)
EXPERIMENTS = (
    Experiment(
        name="A13",
        title="Time per tuple of a similarity join as windows grow",
        claim="On Coffee, nested loops are the slowest, followed by Index-Match and Sort-Match, "
        "at every w from 100 to 1,000.",
        source="Dallachiesa et al. (2015), section 7.4.3, Figure 13",
        measure=lambda setting: times_over(
            setting, "rows", setting.pick((100, 500, 1_000), (100, 250, 500, 750, 1_000))
        ),
        draw=_over("rows", "window size w (tuples), of 10 samples"),
        judge=judge_windows,
        substitutions=SUBSTITUTIONS,
    ),
    Experiment(
        name="A14",
        title="Time per tuple of a similarity join as the number of samples grows",
        claim="Sort-Match is faster than Index-Match for few samples (by up to 20% at 16), and "
        "Index-Match is faster for many samples.",
        source="Dallachiesa et al. (2015), section 7.4.3, Figure 14",
        measure=lambda setting: times_over(
            setting, "samples", setting.pick((2, 8, 16, 30), (2, 5, 10, 16, 20, 30))
        ),
        draw=_over("samples", "samples per tuple, w = 500"),
        judge=judge_samples,
        substitutions=SUBSTITUTIONS,
    ),
    Experiment(
        name="A15",
        title="Time per tuple of a similarity join on every data set",
        claim="On average, a tuple takes 32.72 ms (nested), 32.13 ms (Index-Match) or 27.51 ms "
        "(Sort-Match). Sort-Match is the fastest on every set, by 16% on average.",
        source="Dallachiesa et al. (2015), section 7.4.3, Figure 15",
        measure=lambda setting: times_over(setting, "dataset", least=1),
        draw=_over("dataset", "data set, w = 500, 10 samples", named=True),
        judge=judge_datasets,
        substitutions=SUBSTITUTIONS,
    ),
)
