"""A's experiments on the time of a similarity join: nested loops, Index-Match, Sort-Match, ours."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd

from sfumato.operators.similarity_join import Arrivals, SimilarityJoin
from sfumato.reproduce import datasets, stand_ins
from sfumato.reproduce.drawing import dots, lines
from sfumato.reproduce.experiment import Experiment, Setting, Verdict
from sfumato.reproduce.index_match import IndexMatchJoin
from sfumato.reproduce.perturbation import Floats
from sfumato.reproduce.repeats import interval, seconds
from sfumato.reproduce.streams import SAMPLES, distance_of_selectivity, uncertain_pair

CONFIDENCE, PROBABILITY, ROWS = 0.95, 0.5, 500
NESTED, INDEX, SORT = "nested (paper)", "Index-Match (paper)", "Sort-Match (paper)"
OURS = "index (ours)"


def _joins(within: float, rows: int) -> dict[str, Callable[[], SimilarityJoin]]:
    make: dict[str, Callable[[], SimilarityJoin]] = {
        name: partial(
            SimilarityJoin,
            1, within, PROBABILITY, rows, CONFIDENCE, strategy=strategy, alternatives=False,
        )
        for name, strategy in ((NESTED, "nested"), (SORT, "sort"), (OURS, "index"))
    }  # fmt: skip
    make[INDEX] = partial(IndexMatchJoin, within, PROBABILITY, rows, CONFIDENCE, alternatives=False)
    return make


def times(arrivals: Arrivals, within: float, rows: int) -> dict[str, float]:
    """Seconds an arriving tuple under each strategy. Raises AssertionError if answers differ."""
    spent, answers = {}, set()
    for name, make in _joins(within, rows).items():
        made: list[SimilarityJoin] = []

        def run(make: Callable[[], SimilarityJoin] = make, made: list = made) -> None:
            made.append(make())
            made[-1].process(arrivals)

        spent[name] = seconds(run, tries=2) / arrivals.side.size
        answers.add(made[-1].counters["answers"])
    if len(answers) > 1:
        raise AssertionError(f"strategies found different answers: {answers}")
    return spent


def _measure(
    setting: Setting, points: list[dict[str, Any]], sets: dict[str, Floats], runs: int
) -> pd.DataFrame:
    """A row a point and strategy. A point has `rows`, `samples` and `dataset`."""
    rows = []
    warm_up = uncertain_pair(setting.rng(0), sets["Coffee"], n=40)
    times(warm_up, 0.1, 10)  # compiled by now
    for i, point in enumerate(setting.steps(points)):
        spent: dict[str, list[float]] = {}
        for run in range(runs):
            rng = setting.rng(i, run)
            arrivals = uncertain_pair(rng, sets[point["dataset"]], point["samples"])
            within = distance_of_selectivity(rng, arrivals, PROBABILITY, pairs=20_000)
            for name, took in times(arrivals, within, point["rows"]).items():
                spent.setdefault(name, []).append(took)
        rows += [
            {**point, "way": name, **interval(t, "tuple_seconds")} for name, t in spent.items()
        ]
    return pd.DataFrame(rows)


def by_window(setting: Setting) -> pd.DataFrame:
    """Time per tuple on Coffee for windows of 100 to 1,000 tuples."""
    sets = setting.load("UCR archive", datasets.ucr, stand_ins.ucr)
    windows = setting.pick((100, 500, 1_000), (100, 200, 300, 400, 500, 600, 700, 800, 900, 1_000))
    points = [{"rows": w, "samples": SAMPLES, "dataset": "Coffee"} for w in windows]
    return _measure(setting, points, sets, setting.pick(2, 15))


def by_samples(setting: Setting) -> pd.DataFrame:
    """Time per tuple on Coffee for 2 to 30 samples a tuple."""
    sets = setting.load("UCR archive", datasets.ucr, stand_ins.ucr)
    counts = setting.pick((2, 8, 16, 30), (2, 4, 6, 8, 10, 12, 16, 20, 25, 30))
    points = [{"rows": ROWS, "samples": n, "dataset": "Coffee"} for n in counts]
    return _measure(setting, points, sets, setting.pick(2, 15))


def by_dataset(setting: Setting) -> pd.DataFrame:
    """Time per tuple on every set."""
    sets = setting.load("UCR archive", datasets.ucr, stand_ins.ucr)
    points = [{"rows": ROWS, "samples": SAMPLES, "dataset": name} for name in sets]
    return _measure(setting, points[:: setting.pick(4, 1)], sets, setting.pick(1, 15))


def _table(measured: pd.DataFrame, x: str) -> pd.DataFrame:
    """Microseconds, a column a strategy."""
    return measured.pivot(index=x, columns="way", values="tuple_seconds") * 1e6


def judge_windows(measured: pd.DataFrame) -> Verdict:
    """Nested slowest, then Index-Match, then Sort-Match, at every w."""
    table = _table(measured, "rows")
    return _ranking(table, f"At w = {table.index[-1]:,}", table.iloc[-1])


def judge_datasets(measured: pd.DataFrame) -> Verdict:
    """As `judge_windows`, on average and for all sets; 32.72, 32.13 and 27.51 ms."""
    table = _table(measured, "dataset")
    return _ranking(table, f"On average over {len(table)} sets", table.mean())


def _ranking(table: pd.DataFrame, where: str, at: pd.Series) -> Verdict:
    ahead = int((table[SORT] < table[INDEX]).sum())
    said = (
        f"{where} {at[NESTED]:.1f} (nested), {at[INDEX]:.1f} (Index-Match), {at[SORT]:.1f} "
        f"(Sort-Match) microseconds a tuple; Sort-Match is ahead of Index-Match at {ahead} of "
        f"{len(table)} points. Our index takes {at[OURS]:.2f}, {at[SORT] / at[OURS]:.1f} times less "
        "than the best of the paper's."
    )
    if ahead == 0:
        return Verdict("refuted", said)
    if ahead < len(table) or at[NESTED] < at[INDEX] * 0.95:
        return Verdict("differs", said)
    return Verdict(
        "reproduced",
        f"{said} The order is the paper's; the times are not (32.72, 32.13 and 27.51 ms there).",
    )


def judge_samples(measured: pd.DataFrame) -> Verdict:
    """Sort-Match ahead for few samples, Index-Match for many."""
    table = _table(measured, "samples")
    ratio = table[INDEX] / table[SORT]
    few, many = ratio[ratio.index <= 16], float(ratio.iloc[-1])
    said = (
        f"Index-Match takes {few.min():.1f} to {few.max():.1f} times as long as Sort-Match up to 16 "
        f"samples and {many:.1f} times at {table.index[-1]}; our index takes {table[OURS].iloc[0]:.2f} "
        f"microseconds a tuple at {table.index[0]} samples, {table[OURS].iloc[-1]:.2f} at "
        f"{table.index[-1]} (Sort-Match {table[SORT].iloc[0]:.2f} and {table[SORT].iloc[-1]:.2f})."
    )
    if (few > 1).all() and many < 1:
        return Verdict("reproduced", said)
    if (few > 1).all():
        return Verdict(
            "differs",
            f"{said} The first half holds. The second does not: the regions of all samples overlap "
            "nearly always, so Index-Match pairs ever more samples; pruning by quantiles of the "
            "samples (ours) is what makes an index the better one, at every number of samples.",
        )
    return Verdict("refuted" if (few < 1).all() else "differs", said)


def _microseconds(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(
        us=rows.tuple_seconds * 1e6, low=rows.low_seconds * 1e6, high=rows.high_seconds * 1e6
    )


def _lines(x: str, x_title: str, title: str, rows: pd.DataFrame) -> Any:
    return lines(
        _microseconds(rows),
        x,
        "us",
        "way",
        x_title=x_title,
        y_title="time per arriving tuple (microseconds)",
        series_title="strategy",
        title=title,
        log_y=True,
        interval=("low", "high"),
    )


def _dots(rows: pd.DataFrame) -> Any:
    return dots(
        _microseconds(rows),
        "dataset",
        "us",
        "way",
        x_title="data set",
        y_title="time per arriving tuple (microseconds)",
        series_title="strategy",
        title="A15: time per tuple on 17 sets, w = 500, 10 samples",
        log_y=True,
        interval=("low", "high"),
    )


EXPERIMENTS = (
    Experiment(
        name="A13",
        title="Time per tuple of a similarity join for growing windows",
        claim="On Coffee nested loops are slowest, then Index-Match, then Sort-Match, at every w "
        "from 100 to 1,000.",
        source="A, section 7.4.3, Figure 13",
        measure=by_window,
        chart=partial(
            _lines, "rows", "window size w (tuples)", "A13: time per tuple on Coffee, 10 samples"
        ),
        judge=judge_windows,
    ),
    Experiment(
        name="A14",
        title="Time per tuple of a similarity join for growing numbers of samples",
        claim="Sort-Match beats Index-Match for few samples (by up to 20% at 16), Index-Match is "
        "the better one for many.",
        source="A, section 7.4.3, Figure 14",
        measure=by_samples,
        chart=partial(
            _lines, "samples", "samples per tuple", "A14: time per tuple on Coffee, w = 500"
        ),
        judge=judge_samples,
    ),
    Experiment(
        name="A15",
        title="Time per tuple of a similarity join on every data set",
        claim="On average 32.72 ms (nested), 32.13 ms (Index-Match), 27.51 ms (Sort-Match); "
        "Sort-Match is the fastest on every set, by 16% on average.",
        source="A, section 7.4.3, Figure 15",
        measure=by_dataset,
        chart=_dots,
        judge=judge_datasets,
    ),
)
