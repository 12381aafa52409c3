"""Compile the kernels of the demo's two queries, by running them over a few rows in memory.

    python -m examples.demo_kernels [order] [join]

`make demo` runs both, each in a separate process, while Spark is installed, so this module does not
need Spark. `sf.ops.warm_up` compiles the kernels of all estimators and joins, and takes several
times longer.
"""

import logging
import sys
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

import sfumato as sf

ROWS = 60
MINUTE = 60_000_000  # microseconds


def order_by_timetable() -> None:
    departed = np.arange(ROWS) * MINUTE
    scheduled = departed - np.arange(ROWS) % 7 * MINUTE
    stamp = pa.timestamp("us", "UTC")
    flights = pa.table(
        {"scheduled": pa.array(scheduled, stamp), "departed": pa.array(departed, stamp)}
    )
    control = {"drop_ratio": 0.01, "estimator": "conformal"}
    sf.reorder(flights, event_time="scheduled", arrival="departed", **control)
    sf.engine_free.Punctuator(**control).extend(scheduled, departed)


def join_similar_frost() -> None:
    sf.similarity_join(
        _readings(1),
        _readings(2),
        on=["temp", "pressure"],
        within=3.0,
        probability=0.5,
        window=sf.Rows(24, confidence=0.95),
        order="time_hour",
    )


def _readings(seed: int) -> pa.Table:
    points = np.random.default_rng(seed).normal(0.0, 1.0, (ROWS, 4, 2))
    return pa.table(
        {
            "time_hour": pa.array(np.arange(ROWS) * 60 * MINUTE, pa.timestamp("us", "UTC")),
            "alternatives": [
                [{"prob": 0.2, "temp": t, "pressure": p} for t, p in row] for row in points.tolist()
            ],
        }
    )


QUERIES = {"order": order_by_timetable, "join": join_similar_frost}


def compile_kernels(names: Iterable[str] = ()) -> None:
    """Compile the kernels of these queries, or read them from disk. names : empty for both"""
    for name in names or QUERIES:
        QUERIES[name]()


if __name__ == "__main__":
    logging.getLogger("sfumato").setLevel(logging.ERROR)  # hide the message about compiling
    compile_kernels(sys.argv[1:])
