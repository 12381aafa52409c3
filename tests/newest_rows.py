"""A toy operator, the newest row per key, with everything that a new operator must define."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.api.calls import frame_of, public_function, run
from sfumato.operators.arguments import whole
from sfumato.operators.state.declared import Array
from sfumato.tables.arrow import as_numbers
from sfumato.tables.operator import ROW, TableConfig, TableOperator
from sfumato.tables.reading.job import Input, Job
from sfumato.tables.reading.results import passthrough_outputs
from sfumato.tables.reading.rows import Reading, Ties


@dataclass(frozen=True, kw_only=True)
class NewestConfig(TableConfig):
    step: int

    kind, counters = "newest rows", ("rows", "invalid", "out_of_order", "news")

    def __post_init__(self) -> None:
        whole("step", self.step)


class Newest(TableOperator):
    """Passes the rows whose order exceeds their key's newest by at least `step`."""

    config: NewestConfig
    state = {"newest": Array(float, "keys")}

    def __init__(self, config: NewestConfig) -> None:
        super().__init__(config)
        self.newest = np.empty(0)

    def answers(self, rows: pa.Table, now: int) -> list[pa.Table]:
        codes, order = self.codes(rows), as_numbers(rows.column("order0")).astype(float)
        more = self.index.size - len(self.newest)
        self.newest = np.append(self.newest, np.full(more, -np.inf))
        news = np.zeros(len(codes), bool)
        for i, (code, at) in enumerate(zip(codes, order, strict=True)):
            news[i] = at >= self.newest[code] + self.config.step
            self.newest[code] = at if news[i] else self.newest[code]
        self.counts["news"] += int(news.sum())
        return [rows.filter(pa.array(news)).select([ROW])]


@public_function('newest_rows(df, order="at", key="k")', "df")
def newest_rows(df: Any, *, order: str, key: str | Sequence[str], step: int = 1) -> Any:
    """Return the rows that are at least `step` newer than all earlier rows of their key."""
    frame = frame_of(df)
    keys, orders = frame.keys("key", key), frame.resolve("order", order)
    config = NewestConfig(step=step, keys=len(keys))
    reading = Reading(tuple(frame.columns), tuple(orders), tuple(keys), tie=Ties(frame.tie_columns))
    outputs = passthrough_outputs(frame, frame.columns, ROW)
    return run(Job("newest_rows", "newest_rows", None, [Input(frame, reading)], config, outputs))
