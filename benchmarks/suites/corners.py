"""The time per row of each operator from one setting to the next; "ours" is the slower setting.

Each operator has a basic setting. One of its numbers at a time (keys, rows or time of the window,
alternatives per row, overlap, rows per call, percentage of late rows, rows of a single call) runs
through an ascending list, while the others stay. For every two neighbours in a list, the ratio is
the slower setting's time per row over the cheaper setting's; the row shows the worst pair. A ratio
above 5 marks a corner that users will notice. With many keys, count windows are not yet full after
so few rows, and therefore cheaper, which explains most of `quantile of rows: keys`. Quantiles of
small windows are exact, and cost more than those of larger windows, which are sampled.

`bytes` is the memory of the arrays at the end of the basic setting, per held row or key.
"""

import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import Row, fastest, row
from sfumato.operators.disorder.reorder import Reorder
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.imputation.earlier_values import EarlierValues
from sfumato.operators.joins.arrivals import ArrivalBatch
from sfumato.operators.joins.similarity_join import SimilarityJoin
from sfumato.operators.ranking.top_k_windows import TopKWindows
from sfumato.operators.windows.count.count_window_aggregate import CountWindowAggregate
from sfumato.operators.windows.delta_window_aggregate import DeltaWindowAggregate
from sfumato.operators.windows.extent_aggregate import ExtentAggregate
from sfumato.operators.windows.session_aggregate import SessionAggregate
from sfumato.windows import Rows

ROWS, REPEATS, MOST = 3_000, 2, 5.0
ONE_CALL = (1_000, 8_000, 64_000)  # numbers of rows in one call
QUICK = {"ROWS": 200, "REPEATS": 1, "ONE_CALL": (100, 200)}
KEYS, BATCH = (1, 4, 16, 64, 256, 1024), (1, 4, 16, 64, 256, 1024)
Setting = dict[str, int]


class Corner(NamedTuple):
    """An operator to scan.

    make : builds the operator of a setting    feed : passes it the rows of a call
    base : the basic setting    axes : the lists of its numbers; all have `keys` and `batch`, and
        `scanned` adds `rows`, of one call
    """

    make: Callable[[Setting], Any]
    feed: Callable[[Any, Mapping[str, np.ndarray]], Any]
    base: Setting
    axes: Mapping[str, tuple[int, ...]]


def rows_of(setting: Setting, certain: bool = False) -> list[dict[str, np.ndarray]]:
    """Return the rows of each call, one time unit apart."""
    rng, many = np.random.default_rng(3), setting.get("alternatives", 1)
    n = max(ROWS // many, 50) if setting["batch"] > 1 else max(ROWS // 10, 50)
    n, batch = setting.get("rows", n), setting.get("rows", setting["batch"])
    key, number = rng.integers(0, setting["keys"], n), np.arange(n)
    exists = np.where(rng.random(n) < 0.5, 1.0, rng.uniform(0.2, 1.0, n))
    prob = np.repeat(np.ones(n) if certain else exists / many, many)
    values = rng.normal(0.0, 1.0, (n * many, 1))
    late = rng.random(n) < setting.get("late", 0) / 100
    time = number - late * rng.integers(0, 600, n)
    found = []
    for begin in range(0, n, batch):
        end = min(begin + batch, n)
        flat = slice(begin * many, end * many)
        found.append({
            "key": key[begin:end], "time": time[begin:end], "late": late[begin:end],
            "punctuation": number[begin:end] - 1,
            "offsets": many * np.arange(end - begin + 1), "prob": prob[flat],
            "values": values[flat],
        })  # fmt: skip
    return found


def of_window(function: str, **settings: Any) -> Callable[[Setting], Any]:
    asked = [Aggregate(function, 0, 0.5 if function == "quantile" else None)]
    return lambda at: CountWindowAggregate(at["window"], 0.9, asked, **settings)


def of_extents(function: str, **settings: Any) -> Callable[[Setting], Any]:
    asked = [Aggregate(function, 0)]

    def make(at: Setting) -> Any:
        return ExtentAggregate(at["window"], at["window"] // at["overlap"], asked, **settings)

    return make


def feed_rows(operator: Any, rows: Mapping[str, np.ndarray]) -> Any:
    return operator.process(rows["key"], rows["offsets"], rows["prob"], rows["values"])


def feed_times(operator: Any, rows: Mapping[str, np.ndarray]) -> Any:
    given = rows["offsets"], rows["prob"], rows["values"]
    return operator.process(rows["key"], rows["time"], None, None, *given)


def feed_late_times(operator: Any, rows: Mapping[str, np.ndarray]) -> Any:
    given = rows["offsets"], rows["prob"], rows["values"]
    one_scope = np.zeros_like(rows["key"])
    return operator.process(
        rows["key"], rows["time"], rows["punctuation"], rows["late"], *given, scope=one_scope
    )


def feed_join(operator: Any, rows: Mapping[str, np.ndarray]) -> Any:
    side = (rows["time"] % 2).astype(np.uint8)
    given = rows["offsets"], rows["prob"], rows["values"]
    return operator.process(ArrivalBatch(side, rows["key"], *given))


def feed_ranking(operator: Any, rows: Mapping[str, np.ndarray]) -> Any:
    return operator.extend(
        rows["time"], scores=rows["values"][:, 0], prob=rows["prob"], offsets=rows["offsets"],
        key=rows["key"],
    )  # fmt: skip


def feed_reorder(operator: Any, rows: Mapping[str, np.ndarray]) -> Any:
    return operator.process(rows["key"], rows["time"] - rows["key"] % 7, rows["time"])


def feed_readings(operator: Any, rows: Mapping[str, np.ndarray]) -> Any:
    return operator.process(rows["key"], rows["time"].astype(float), rows["values"])


COMMON = {"keys": KEYS, "batch": BATCH}
OF_ROWS = {**COMMON, "window": (10, 40, 160, 640), "alternatives": (1, 2, 4, 16)}
OF_TIME = {**COMMON, "window": (100, 1_000, 10_000), "overlap": (1, 5, 20, 100)}
BASE = {"keys": 10, "batch": 1024, "window": 40, "alternatives": 1}
EXTENT = {"keys": 10, "batch": 1024, "window": 1_000, "overlap": 5}
CORNERS = {
    **{
        f"{of} of rows": Corner(of_window(of), feed_rows, BASE, OF_ROWS)
        for of in ("sum", "avg", "max", "quantile")
    },
    "distribution of count of rows": Corner(
        of_window("count", distribution=8), feed_rows, BASE, OF_ROWS
    ),
    "sum of certain rows": Corner(
        of_window("sum", certain=True), feed_rows, {**BASE, "certain": 1},
        {**COMMON, "window": OF_ROWS["window"]},
    ),
    **{
        f"{of} of extents": Corner(of_extents(of), feed_times, EXTENT, OF_TIME)
        for of in ("sum", "avg", "max")
    },
    "sum of certain extents": Corner(
        of_extents("sum", certain=True), feed_times, {**EXTENT, "certain": 1}, OF_TIME
    ),
    "sum of extents with late rows": Corner(
        of_extents("sum"), feed_late_times, {**EXTENT, "keys": 1, "late": 40},
        {**COMMON, "late": (0, 10, 40)},
    ),
    "sum of sessions": Corner(
        lambda at: SessionAggregate(at["window"], 100 * at["window"], [Aggregate("sum", 0)]),
        feed_times, {**BASE, "window": 5}, {**COMMON, "window": (1, 5, 20, 100)},
    ),
    "sum of delta windows": Corner(
        lambda at: DeltaWindowAggregate(at["window"] / 10, 0, [Aggregate("sum", 0)]), feed_rows,
        {**BASE, "window": 20}, {**COMMON, "window": (10, 20, 30), "alternatives": (1, 2, 4, 16)},
    ),
    "similarity join": Corner(
        lambda at: SimilarityJoin(1, 0.05, 0.5, Rows(at["window"], 0.9)), feed_join, BASE, OF_ROWS
    ),
    "top-k": Corner(
        lambda at: TopKWindows({"top": (at["k"], at["window"])}, rows=None, length=at["window"]),
        feed_ranking, {**BASE, "k": 3}, {**COMMON, "window": (10, 40, 160), "k": (1, 3, 10)},
    ),
    "reorder": Corner(
        lambda at: Reorder(slack=at["window"]), feed_reorder, BASE,
        {**COMMON, "window": (0, 10, 100)},
    ),
    "earlier values": Corner(lambda at: EarlierValues(1), feed_readings, BASE, COMMON),
}  # fmt: skip


def cost(corner: Corner, setting: Setting) -> tuple[float, Any]:
    """Return the seconds per row, and the operator at the end."""
    calls = rows_of(setting, "certain" in setting)
    last: list[Any] = []

    def run() -> None:
        last[:] = [corner.make(setting)]
        for rows in calls:
            corner.feed(last[0], rows)

    run()  # compiles
    seconds = fastest(run, REPEATS, time.process_time)
    return seconds / sum(rows["key"].size for rows in calls), last[0]


def scanned(name: str, corner: Corner) -> list[Row]:
    rows = []
    _, operator = cost(corner, corner.base)
    held = getattr(operator, "counters", {}).get("held", 0) or corner.base["keys"]
    for axis, values in {**corner.axes, "rows": ONE_CALL}.items():
        spent = {value: cost(corner, {**corner.base, axis: value})[0] for value in values}
        pairs = [(max(pair, key=spent.__getitem__), min(pair, key=spent.__getitem__))
                 for pair in pairwise(values)]  # fmt: skip
        dear, cheap = max(pairs, key=lambda pair: spent[pair[0]] / spent[pair[1]])
        rows.append(
            row(
                f"{name}: {axis}",
                f"{axis} {dear:,} / {cheap:,}, of {', '.join(f'{value:,}' for value in values)}",
                f"{spent[dear] * 1e6:.3g} µs",
                f"{spent[cheap] * 1e6:.3g} µs",
                spent[dear] / spent[cheap],
                most=MOST,
                bytes=int(operator.nbytes / held),
            )
        )
    return rows


def run() -> list[Row]:
    return [line for name, corner in CORNERS.items() for line in scanned(name, corner)]
