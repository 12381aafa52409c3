"""The cost of a chain relative to its first operator, in one step and in separate steps.

Micro-batches of 100,000 disordered rows with 1,000 keys, one file each, are written to a sink that
discards rows. The queries take turns. The time of a micro-batch is the median of Spark's own figure
over the later half of the runs of the last turns: a stream runs for days, and Java spends much of
its first minutes compiling. With "per key", each key has a controller; with "one controller", all
rows share one, and two windows share its output.
"""

import statistics
from collections.abc import Callable
from itertools import chain
from typing import Any

from benchmarks.data.streams import readings
from benchmarks.harness import Row
from benchmarks.spark_streams import (
    benchmark_session,
    fresh_folder,
    stream_of,
    turns_through_spark,
    write_files,
)

SIZE, BATCHES, KEYS, TURNS = 100_000, 8, 1_000, 2
QUICK = {"SIZE": 1_000, "BATCHES": 2, "TURNS": 1}
FUSE = "spark.sfumato.fuse"
FIRST = {"per key": "per key: reorder", "one controller": "one controller: reorder"}
GOALS = {  # relative to the first operator alone
    "per key: reorder, count window, top_k": 1.3,
    "one controller: toll, in SQL": 1.5,
}
TOLL = """
    SELECT active.device, active.n, mean.x FROM
    (SELECT highway, device, window, COUNT(*) AS n
        FROM cars [RANGE 30 SECONDS WATTR event ARRIVAL arrival DRATIO 1%]
        GROUP BY highway, device) active
    JOIN (SELECT highway, window, EXPECTED(AVG(x)) AS x
        FROM cars [RANGE 5 MINUTES SLIDE 30 SECONDS WATTR event ARRIVAL arrival DRATIO 1%]
        GROUP BY highway HAVING EXPECTED(AVG(x)) < 0) mean
    ON active.highway = mean.highway
"""


def chains(stream: Any) -> dict[str, Callable[[], Any]]:
    """Return the queries by name."""
    import sfumato as sf

    spark = stream.sparkSession

    def reordered(key: str | None = "device") -> Any:
        return sf.reorder(stream, event_time="event", arrival="arrival", key=key, drop_ratio=0.01)

    def window(of: Any) -> Any:
        return sf.window_aggregate(
            reordered(), {"m": "avg(x)"}, window=of, order="event", key="device"
        )

    def ranked(rows: Any, by: str) -> Any:
        every = sf.Range("30 minutes", slide="10 minutes")
        return sf.top_k(rows, 3, by=by, window=every, order="event", key="device")

    return {
        "per key: reorder": reordered,
        "per key: reorder, extents": lambda: window(sf.Range("5 minutes")),
        "per key: reorder, count window": lambda: window(sf.Rows(20)),
        "per key: reorder, top_k": lambda: ranked(reordered(), "x"),
        "per key: reorder, count window, top_k": lambda: ranked(window(sf.Rows(20)), "highway"),
        "one controller: reorder": lambda: reordered(None),
        "one controller: toll, in SQL": lambda: sf.sql(spark, TOLL, cars=stream),
    }


def medians(spark: Any) -> dict[tuple[str, str], float]:
    """Return the median seconds of a micro-batch, by query and setting."""

    def with_setting(make: Callable[[], Any], fuse: str) -> Any:
        spark.conf.set(FUSE, fuse)
        return make()

    with fresh_folder() as folder:
        table = readings(SIZE * BATCHES, KEYS, 3, seed=4)
        stream = stream_of(spark, write_files(table, SIZE, folder / "in"))
        made = chains(stream.selectExpr("*", "device % 10 AS highway"))
        queries = {
            f"{name}/{fuse}": lambda name=name, fuse=fuse: with_setting(made[name], fuse)
            for name in made
            for fuse in (("true",) if name in FIRST.values() else ("true", "false"))
        }
        times = turns_through_spark(queries, folder, TURNS)
    spark.conf.unset(FUSE)
    return {
        tuple(query.split("/")): statistics.median(chain.from_iterable(turns))
        for query, turns in times.items()
    }


def run() -> list[Row]:
    with benchmark_session() as spark:
        median = medians(spark)
    rows = []
    for (name, fuse), seconds in median.items():
        if fuse == "false":
            continue
        first = median[FIRST[name.partition(":")[0]], "true"]
        apart = median.get((name, "false"))
        found = {
            "name": name,
            "ms per micro-batch": round(1e3 * seconds),
            "time / time of reorder": round(seconds / first, 2),
        }
        if apart is not None:
            found["ms, one step per operator"] = round(1e3 * apart)
            found["one step per operator / time of reorder"] = round(apart / first, 2)
        if name in GOALS:
            goal = GOALS[name]
            found |= {"goal": f"<= {goal:g}", "met": seconds / first <= goal}
        rows.append(found)
    return rows
