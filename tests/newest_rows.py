"""The toy operator: the newest row of each key. It is all that a new operator has to say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from sfumato.operators.arguments import whole
from sfumato.operators.state.declared import Array, Part
from sfumato.operators.state.stateful import Stateful
from sfumato.spark.model.columns import keys_of, resolved
from sfumato.spark.model.names import Passed
from sfumato.spark.runtime.run_operator import Input, metrics_name, run_operator
from sfumato.tables.arrow import as_numbers
from sfumato.tables.operator import ROW, TableConfig, TableOperator


class Newest(Stateful):
    """Which rows exceed the newest order of their key by at least `step`."""

    state = {"newest": Array(float, "keys")}

    def __init__(self, step: int) -> None:
        self.step, self.newest = step, np.empty(0)

    def process(self, key: np.ndarray, order: np.ndarray) -> np.ndarray:
        """bool[n]: rows (int64[n] codes, float64[n] order) that are news."""
        more = max(0, int(key.max(initial=-1)) + 1 - len(self.newest))
        self.newest = np.append(self.newest, np.full(more, -np.inf))
        news = np.zeros(len(key), bool)
        for i, (code, at) in enumerate(zip(key, order, strict=True)):
            news[i] = at >= self.newest[code] + self.step
            self.newest[code] = at if news[i] else self.newest[code]
        return news


@dataclass(frozen=True, kw_only=True)
class NewestConfig(TableConfig):
    step: int

    kind, counters = "newest rows", ("rows", "invalid", "out_of_order", "news")

    def __post_init__(self) -> None:
        whole("step", self.step)

    def make(self) -> TableNewest:
        return TableNewest(self)


class TableNewest(TableOperator):
    """`Newest` over Arrow tables."""

    config: NewestConfig
    state = {"operator": Part()}

    def __init__(self, config: NewestConfig) -> None:
        super().__init__(config)
        self.operator = Newest(config.step)

    def answers(self, rows: pa.Table, now: int) -> list[pa.Table]:
        order = as_numbers(rows.column("order0")).astype(float)
        news = self.operator.process(self.codes(rows), order)
        self.counts["news"] += int(news.sum())
        return [rows.filter(pa.array(news)).select([ROW])]


def newest_rows(df: DataFrame, *, order: str, key: str | Sequence[str], step: int = 1) -> DataFrame:
    """The rows that are newer, by `step` at least, than all before them of their key."""
    keys, orders = keys_of(df, "key", key), resolved(df, "order", order)
    config = NewestConfig(step=step, keys=len(keys))
    passed = Passed(df.schema, df.columns)
    answers = StructType([StructField(ROW, passed.type)])
    read = Input(df, passed, orders, keys)
    columns, metrics = passed.columns(ROW), metrics_name("newest_rows")
    return run_operator([read], config, answers, columns, metrics=metrics)
