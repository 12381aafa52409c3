"""Earlier values over Arrow tables: columns to arrays, `EarlierValues`, and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from sfumato.operators.imputation.earlier_values import EarlierValues
from sfumato.operators.state.snapshot import Snapshot, pack, unpack
from sfumato.tables.arrival_order import arrival_order, count_out_of_order
from sfumato.tables.arrow import as_numbers, complete, joined
from sfumato.tables.imputation.imputation import numbers_of
from sfumato.tables.keys import KeyIndex

KIND, VERSION = "earlier values bucket", 1
TIE = "__tie"  # a column that decides between rows of equal order
MICROSECONDS = 1e6  # in a second

Floats = np.ndarray[Any, np.dtype[np.float64]]


def earlier_name(attribute: str) -> str:
    """The column of an attribute's newest known value."""
    return f"earlier_{attribute}"


def age_name(attribute: str) -> str:
    """The column of that value's age."""
    return f"age_{attribute}"


@dataclass(frozen=True)
class EarlierValuesSettings:
    """What it is told: plain values, so that they can go to workers and into checkpoints.

    attributes, order, keys : column names
    columns, buckets : the schema of the rows and the number of buckets, only to recognise a
        checkpoint of another query
    """

    attributes: tuple[str, ...]
    order: str
    keys: tuple[str, ...]
    columns: str
    buckets: int

    counters: ClassVar[tuple[str, ...]] = ("rows", "invalid", "out_of_order")

    def make(self) -> TableEarlierValues:
        return TableEarlierValues(self, EarlierValues(len(self.attributes)))

    def restore(self, data: bytes) -> TableEarlierValues:
        saved = unpack(data, KIND, VERSION)
        bucket = TableEarlierValues(self, EarlierValues.restore(saved.arrays["operator"].tobytes()))
        bucket.index = KeyIndex(saved.tables.get("keys"))
        bucket.latest, bucket.counts = saved.values["latest"], saved.values["counts"]
        return bucket

    def fingerprint(self) -> str:
        return json.dumps({"operator": "earlier values", **asdict(self)}, sort_keys=True)


class TableEarlierValues:
    """`EarlierValues` over Arrow tables with any columns, for the keys of one bucket."""

    def __init__(self, settings: EarlierValuesSettings, operator: EarlierValues) -> None:
        self.settings = settings
        self.operator = operator
        self.index = KeyIndex()
        self.latest: float | None = None  # order of the newest row
        self.counts = dict.fromkeys(settings.counters, 0)

    def process(self, batch: Sequence[tuple[int, pa.Table]], now: int) -> list[pa.Table]:
        rows = joined([table for _, table in batch])
        self.counts["rows"] += rows.num_rows
        valid = complete(rows, [self.settings.order, *self.settings.keys])
        outputs = []
        if not valid.all():
            outputs.append(self._unknown(rows.filter(pa.array(~valid))))
            rows = rows.filter(pa.array(valid))
        if rows.num_rows:
            outputs.append(self._known(rows))
        return outputs

    def _known(self, rows: pa.Table) -> pa.Table:
        order = as_numbers(rows.column(self.settings.order))
        places = arrival_order([order], [as_numbers(rows.column(TIE))])
        rows, order = rows.take(pa.array(places)), order[places]
        self.counts["out_of_order"] += count_out_of_order(
            [order], None if self.latest is None else (self.latest,)
        )
        newest = order[-1].item()
        self.latest = newest if self.latest is None else max(newest, self.latest)
        earlier, age = self.operator.process(
            self.index.encode(rows.select(list(self.settings.keys))),
            order,
            numbers_of(rows, self.settings.attributes),
        )
        timed = pa.types.is_timestamp(rows.schema.field(self.settings.order).type)
        return self._with(rows, earlier, age / MICROSECONDS if timed else age)

    def _unknown(self, rows: pa.Table) -> pa.Table:
        self.counts["invalid"] += rows.num_rows
        nothing = np.full((rows.num_rows, len(self.settings.attributes)), np.nan)
        return self._with(rows, nothing, nothing)

    def _with(self, rows: pa.Table, earlier: Floats, age: Floats) -> pa.Table:
        rows = rows.drop_columns([TIE])
        for a, attribute in enumerate(self.settings.attributes):
            for name, column in ((earlier_name(attribute), earlier), (age_name(attribute), age)):
                rows = rows.append_column(name, pa.array(column[:, a], mask=np.isnan(column[:, a])))
        return rows

    def idle(self, now: int) -> list[pa.Table]:
        return []

    def flush(self) -> list[pa.Table]:
        return []

    def counters(self) -> dict[str, int]:
        return dict(self.counts)

    def snapshot(self) -> bytes:
        table = self.index.table
        return pack(
            KIND,
            VERSION,
            Snapshot(
                values={"latest": self.latest, "counts": self.counts},
                arrays={"operator": np.frombuffer(self.operator.snapshot(), np.uint8)},
                tables={} if table is None else {"keys": table},
            ),
        )
