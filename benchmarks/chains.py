"""What a chain of operators costs beside its first one: in one step, and each in a step of its own.

Micro-batches of 100,000 disordered rows of 1,000 keys, one file each, into a sink that discards
rows; the queries take turns, and the time of a micro-batch is the median of Spark's own figure over
the later half of the runs of the last turns: a stream runs for days, and Java spends much of its
first minutes on compiling. Behind "per key" the controllers are those of the keys; behind "one
controller" all rows have one, and two windows share it.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spark_path import later, readings, stream_of, times_of, write_files

SIZE, BATCHES, KEYS, TURNS, COLD = 100_000, 8, 1_000, 5, 3  # COLD: turns that do not count
FUSE = "spark.sfumato.fuse"
FIRST = {"per key": "per key: reorder", "one controller": "one controller: reorder"}
GOALS = {  # times the first operator alone
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
    """The queries by name."""
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


def measured(spark: Any, folder: Path, only: str) -> dict[tuple[str, str], float]:
    """Median seconds of a micro-batch by query and by the setting."""
    source = write_files(readings(SIZE * BATCHES, KEYS, 3, seed=4), SIZE, folder / "in")
    stream = stream_of(spark, source).selectExpr("*", "device % 10 AS highway")
    times: dict[tuple[str, str], list[float]] = {}
    for turn in range(TURNS):
        for name, made in chains(stream).items():
            if only not in name and name not in FIRST.values():
                continue
            for fuse in ("true",) if name in FIRST.values() else ("true", "false"):
                spark.conf.set(FUSE, fuse)
                place = folder / f"{turn} {name} {fuse}"
                found = later(times_of(made(), place))
                if turn >= COLD:
                    times.setdefault((name, fuse), []).extend(found)
    spark.conf.unset(FUSE)
    return {which: statistics.median(found) for which, found in times.items()}


def run(only: str = "") -> list[dict[str, Any]]:
    from sfumato.cli.session import session

    spark, folder = session("sfumato benchmark"), Path(tempfile.mkdtemp())
    try:
        median = measured(spark, folder, only)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        spark.stop()
    rows = []
    for (name, fuse), seconds in median.items():
        if fuse == "false":
            continue
        first = median[FIRST[name.partition(":")[0]], "true"]
        apart = median.get((name, "false"))
        found = {
            "name": name,
            "ms a micro-batch": round(1e3 * seconds),
            "time / time of reorder": round(seconds / first, 2),
        }
        if apart is not None:
            found["ms in a step each"] = round(1e3 * apart)
            found["in a step each / time of reorder"] = round(apart / first, 2)
        if name in GOALS:
            goal = GOALS[name]
            found |= {"goal": f"<= {goal:g}", "met": seconds / first <= goal}
        rows.append(found)
    return rows


if __name__ == "__main__":
    for result in run(*sys.argv[1:]):
        print(result)
