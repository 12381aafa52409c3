"""The toy operator: the newest row of each key. It is all that a new operator has to say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from sfumato.operators.arguments import whole
from sfumato.operators.state.declared import Array
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.names import Passed
from sfumato.spark.runtime.lineage import Input
from sfumato.spark.runtime.run import metrics_name, run_operator
from sfumato.sql.plan.bracket import FunctionBracket
from sfumato.sql.text.words import Word
from sfumato.tables.arrow import as_numbers
from sfumato.tables.operator import ROW, TableConfig, TableOperator
from sfumato.tables.reading.input import Reading, Ties


@dataclass(frozen=True, kw_only=True)
class NewestConfig(TableConfig):
    step: int

    kind, counters = "newest rows", ("rows", "invalid", "out_of_order", "news")

    def __post_init__(self) -> None:
        whole("step", self.step)

    def make(self) -> Newest:
        return Newest(self)


class Newest(TableOperator):
    """Gives the rows whose order exceeds the newest of their key by at least `step`."""

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


def newest_rows(df: DataFrame, *, order: str, key: str | Sequence[str], step: int = 1) -> DataFrame:
    """The rows that are newer, by `step` at least, than all before them of their key."""
    frame, passed = SparkFrame(df), Passed(df.schema, df.columns)
    keys, orders = frame.keys("key", key), frame.resolved("order", order)
    config, answers = NewestConfig(step=step, keys=len(keys)), StructType().add(ROW, passed.type)
    reading = Reading(tuple(df.columns), tuple(orders), tuple(keys), tie=Ties(frame.tied))
    results, metrics = passed.results(ROW), metrics_name("newest_rows")
    return run_operator([Input(df, reading)], config, answers, results, metrics=metrics)


NEWEST = FunctionBracket(
    words=(
        Word("NEWEST", "name", "key"),
        Word("ORDER", "names", "order", needed=True),
        Word("STEP", "number", "step"),
    ),
    function=newest_rows,
    title=lambda given: f"newest rows of each {given['key']}",
    lines=lambda given: [("state", "a number a key")],
)
