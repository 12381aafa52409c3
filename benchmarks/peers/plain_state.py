"""User code with Spark's own state, one key at a time: a reorder and a window aggregate; and a
processor that does nothing.

Tuned as a user would tune it: a key's rows are one Arrow table in one state value, all work on rows
is done by pandas or Arrow, and a key is only touched in micro-batches that have rows with it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import BooleanType, StructField, StructType

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import benchmarks


class PlainReorder(StatefulProcessor):
    """A reorder by key: a row is late if it is behind the newest one less a fixed delay."""

    def __init__(self, delay: pd.Timedelta) -> None:
        self.delay = delay

    def init(self, handle: Any) -> None:
        self.held = handle.getValueState("held", "newest timestamp, rows binary")

    def handleInputRows(  # noqa: N802
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        new = pd.concat(list(rows)).sort_values("arrival", kind="stable")
        before = self.held.get()
        newest = new["event"].cummax()
        if before is not None:
            newest = newest.clip(lower=pd.Timestamp(before[0]))
        late = (new["event"] < (newest - self.delay).shift(fill_value=pd.Timestamp.min)).to_numpy()
        if before is not None:
            first = pd.Timestamp(before[0]) - self.delay
            late[0] = new["event"].iloc[0] < first
        out = [new[late].assign(late=True)]
        waiting = new[~late]
        if before is not None and before[1] is not None:
            with pa.ipc.open_stream(pa.py_buffer(bytes(before[1]))) as reader:
                waiting = pd.concat([reader.read_pandas(), waiting])
        waiting = waiting.sort_values("event", kind="stable")
        due = (waiting["event"] <= newest.iloc[-1] - self.delay).to_numpy()
        out.append(waiting[due].assign(late=False))
        self.held.update((newest.iloc[-1].to_pydatetime(), _bytes(waiting[~due])))
        yield pd.concat(out)

    def close(self) -> None:
        pass


def _bytes(rows: pd.DataFrame) -> bytes:
    table = pa.Table.from_pandas(rows, preserve_index=False)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def reorder(stream: DataFrame, delay: str) -> DataFrame:
    """Reorder columns device, event, arrival and others, add `late`; never emit the end."""
    schema = StructType([*stream.schema.fields, StructField("late", BooleanType())])
    return stream.groupBy("device").transformWithStateInPandas(
        PlainReorder(pd.Timedelta(delay)), schema, "Append", "None"
    )


class Nothing(StatefulProcessor):
    """A processor that keeps nothing and emits nothing."""

    def init(self, handle: Any) -> None:
        pass

    def handleInputRows(  # noqa: N802
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        yield from ()

    def close(self) -> None:
        pass


def nothing(stream: DataFrame) -> DataFrame:
    """Run `Nothing` with processing-time timers, so that Spark runs micro-batches without rows."""
    return stream.groupBy("device").transformWithStateInPandas(
        Nothing(), "device long", "Append", "ProcessingTime"
    )


MINUTE = 60_000_000  # microseconds: the slide of the windows, which are five minutes long


def window(stream: DataFrame) -> DataFrame:
    """Return count and mean of x in five-minute windows every minute, per key, of ordered rows."""

    def advance(key: Any, parts: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        first, data = state.get if state.exists else (None, b"")
        open_steps = np.frombuffer(data).reshape(2, -1)  # counts and sums
        for part in parts:
            step = part["event"].to_numpy().astype("datetime64[us]").astype(np.int64) // MINUTE
            first = int(step[0]) - 4 if first is None else first
            found = np.zeros((2, step[-1] - first + 1))
            found[:, : open_steps.shape[1]] = open_steps
            np.add.at(found[0], step - first, 1)
            np.add.at(found[1], step - first, part["x"].to_numpy())
            five = np.lib.stride_tricks.sliding_window_view
            whole = max(found.shape[1] - 5, 0)  # the last step is open
            if whole:
                n = five(found[0], 5)[:whole].sum(axis=1)
                total = five(found[1], 5)[:whole].sum(axis=1)
                ends = (first + np.arange(whole) + 5) * MINUTE
                at = pd.to_datetime(ends * 1000, utc=True)
                rows = {"device": key[0], "end": at, "n": n.astype(np.int64), "mean": total / n}
                yield pd.DataFrame(rows)[n > 0]
            first += whole
            open_steps = found[:, whole:]
        state.update((first, open_steps.tobytes()))

    return stream.groupBy("device").applyInPandasWithState(
        advance,
        "device long, end timestamp, n long, mean double",
        "first long, open binary",
        "append",
        "NoTimeout",
    )
