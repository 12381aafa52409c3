"""What of a table a window aggregate reads, and the columns of its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from sfumato.local.model.controlled import (
    BY_US,
    MARKS,
    controlled_by,
    has_punctuations,
    marks_late,
    never_behind,
    says_order,
)
from sfumato.local.model.frame import Frame
from sfumato.tables.reading.expressions import Expression
from sfumato.tables.reading.input import Reading, of_window
from sfumato.tables.reading.naming import Shown, without
from sfumato.tables.reading.parse import parsed
from sfumato.tables.scope import scope_of
from sfumato.tables.windows.extents import ExtentTableConfig
from sfumato.tables.windows.query import ALTERNATIVES, WindowQuery
from sfumato.tables.windows.results import quantile_name
from sfumato.tables.windows.wanted import Wanted
from sfumato.tables.windows.window_aggregate import RowWindowTableConfig
from sfumato.windows import Delta, Range, Rows

NUMBER = pa.float64()


@dataclass(frozen=True)
class WindowPlan(WindowQuery):
    """The query over a table; checks what the arguments name."""

    frame: Frame
    wanted: list[Wanted]
    window: Rows | Range | Delta
    order: str | Sequence[str]
    key: str | Sequence[str] | None
    existence: str | None
    distribution: int | None

    def __post_init__(self) -> None:
        assert self.parsed is not None  # or it has raised
        if not isinstance(self.window, Rows | Range | Delta):
            raise TypeError(f"`window` must be sf.Rows, sf.Range or sf.Delta; got {self.window!r}")
        if not self.orders:
            raise ValueError("`order` must name the column(s) of the order; got none")
        if self.existence is not None:
            self.frame.one("existence", self.existence)
            if self.frame.uncertain:
                raise ValueError(
                    "`existence` is for tables without alternatives, which carry their own "
                    "probabilities: leave it out"
                )
        self.frame.require_orders("order", self.orders)
        if isinstance(self.window, Range):
            self._check_time()
        if isinstance(self.window, Delta) and self.window.on not in self.frame.attributes:
            self.frame.one("window.on", self.window.on)
        self.check_results(self._passed(False))

    def check_members(self) -> None:
        """Raise ValueError for a result that has the name of a column of the rows."""
        self.check_results(self._passed(True))

    def _check_time(self) -> None:
        if len(self.orders) != 1:
            raise ValueError(
                f"`order` must be the one column of the event time for sf.Range; got {self.orders}"
            )
        self.frame.require_time("order", self.orders[0], " for sf.Range")
        if self.controlled:
            assert self.scope is not None  # or it has raised

    @cached_property
    def parsed(self) -> list[Expression]:
        """The expressions whose values the operator reads."""
        of = {w.expression: f"aggregates[{w.name!r}]" if w.name else "by" for w in self.wanted}
        found = []
        for text in self.expressions:
            # The attribute of a sf.Delta is a name as it stands.
            plain = text not in of or text in (*self.frame.attributes, *self.frame.columns)
            quoted = "`" + text.replace("`", "``") + "`"
            found.append(parsed(of.get(text, "window.on"), quoted if plain else text))
        return found

    @cached_property
    def orders(self) -> list[str]:
        return self.frame.resolved("order", self.order)

    @cached_property
    def keys(self) -> list[str]:
        return self.frame.keys("key", self.key)

    @cached_property
    def controlled(self) -> bool:
        """Whether extents are complete by the punctuations of a controller."""
        return isinstance(self.window, Range) and has_punctuations(self.frame.schema)

    @cached_property
    def marks_late(self) -> bool:
        return not isinstance(self.window, Range) and marks_late(self.frame.schema, self.orders)

    @cached_property
    def never_behind(self) -> bool:
        return never_behind(self.frame.schema, self.orders, self.keys)

    @cached_property
    def in_order_within(self) -> list[str]:
        """The keys of the controller before; `key`, if it does not say."""
        known = says_order(self.frame.schema, "punctuation") if self.controlled else None
        return self.keys if known is None else known

    @cached_property
    def scope(self) -> tuple[int, ...] | None:
        return scope_of(self.keys, self.in_order_within) if self.controlled else None

    @cached_property
    def time_type(self) -> pa.DataType:
        """The type of the answers' times."""
        kind = self.frame.type(self.orders[0])
        return kind if pa.types.is_timestamp(kind) else pa.int64()

    @cached_property
    def time(self) -> str:
        if not pa.types.is_timestamp(self.time_type):
            return "long"
        return "timestamp_ntz" if self.time_type.tz is None else "timestamp"

    @property
    def reads_rows(self) -> bool:
        """Whether rows come out again."""
        return not isinstance(self.window, Range)

    def row(self, members: bool) -> list[str]:
        """The columns that come out with each row of an answer."""
        dropped = {ALTERNATIVES} if not members else {*MARKS, "window", "held"}
        return [name for name in self.frame.columns if name not in dropped]

    def _passed(self, members: bool) -> list[str]:
        """Columns of the input that come out again: of rows, or the keys of extents."""
        keys = isinstance(self.window, Range) and not members
        return self.keys if keys else self.row(members)

    @property
    def read_as_it_is(self) -> Mapping[str, str]:
        """The columns that the operator reads beside values: fixed name -> column."""
        if self.controlled:
            return {name: name for name in MARKS}
        return {"late": "late"} if self.marks_late else {}

    def reading(self, members: bool = False, scored: bool = False) -> Reading:
        """How the operator reads the table."""
        rows = members or self.reads_rows
        return of_window(
            self.row(members) if rows else [],
            self.orders,
            self.keys,
            self.parsed,
            self.existence_column,
            self.read_as_it_is,
            scored,
        )

    @property
    def existence_column(self) -> str | None:
        """The column of probabilities of a table without alternatives."""
        if self.existence is not None:
            return self.frame.one("existence", self.existence)
        return "existence" if "existence" in self.frame.columns else None

    def columns(self, settings: RowWindowTableConfig | ExtentTableConfig) -> list[Shown]:
        """The columns of the result."""
        names = self._passed(settings.members)
        titles = without(names, self.added)
        keys = isinstance(self.window, Range) and not settings.members
        found = [
            Shown((f"{'key' if keys else 'c'}{i}",), field.with_name(title))
            for i, (field, title) in enumerate(zip(self.frame.fields(names), titles, strict=True))
        ]
        kinds = {"held": pa.int64(), "punctuation": self.time_type, "late": pa.int64()}
        kinds["window"] = pa.struct([("start", self.time_type), ("end", self.time_type)])
        scope = self.in_order_within if self.controlled else self.keys
        for name in self.added:
            if name != "accuracy":
                said = controlled_by(scope) if name == "window" else None
                said = BY_US if name == "held" else said
                found.append(Shown((name,), pa.field(name, kinds[name], metadata=said)))
        for i, w in enumerate(self.wanted):
            kind = self._result(self.field(w), settings)
            found.append(Shown((f"result{i}",), pa.field(w.name, kind, metadata=BY_US)))
        if self.distribution is not None:
            parts = pa.struct([("moved", NUMBER), ("error", NUMBER)])
            accuracy = pa.struct([(w.name, parts) for w in self.wanted])
            found.append(Shown(("accuracy",), pa.field("accuracy", accuracy, metadata=BY_US)))
        return found

    def _result(
        self, field: str, settings: RowWindowTableConfig | ExtentTableConfig
    ) -> pa.DataType:
        if self.distribution is not None:
            return pa.list_(pa.struct([("prob", NUMBER), (field, NUMBER)]))
        parts = ["mean", "stddev", "existence", *map(quantile_name, settings.quantiles)]
        parts += ["error"] if settings.quantiles else []
        return pa.struct([(part, NUMBER) for part in parts])
