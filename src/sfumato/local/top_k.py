"""Many top-k queries over one window of uncertain tuples: `sfumato.top_k` without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

import pyarrow as pa

from sfumato.local.model.controlled import (
    MARKS,
    has_punctuations,
    marks_late,
    require_late,
    require_said,
)
from sfumato.local.model.forgetting import forget_after_of
from sfumato.local.model.frame import frame_of
from sfumato.local.model.kind import same_kind
from sfumato.local.model.run import Input, Job, run, struct_of
from sfumato.local.model.window_plan import WindowPlan
from sfumato.operators.ranking.semantics import semantics_of
from sfumato.queries import Top, direction, registered
from sfumato.tables.operator import ROW
from sfumato.tables.ranking.top_k import TopKTableConfig
from sfumato.tables.reading.naming import Shown
from sfumato.tables.reading.tuples import ALTERNATIVES
from sfumato.tables.reading.types import is_time
from sfumato.tables.windows.wanted import Wanted
from sfumato.windows import Range, Rows, window_of

ANSWER = ("query", "k", "time", "rank", "score", "probability", "row", "stream", "answered")


@same_kind
def top_k(
    df: Any,
    queries: Top | int | Sequence[Top | int],
    *,
    by: str,
    window: Range | Rows,
    order: str,
    key: str | Sequence[str] | None = None,
    rules: str | None = None,
    semantics: str = "pk_topk",
    probability: float | None = None,
    alpha: float | None = None,
    weights: Sequence[float] | None = None,
    existence: str | None = None,
    streams: str | None = None,
    plan: str = "dp",
    ascending: bool | None = None,
    forget_after: str | timedelta | float | None = None,
    name: str | None = None,
) -> pa.Table:
    """The most probable top-k tuples of a window, for many k at once, each in time.

    df : a pandas, Polars or Arrow table: the whole stream
    by : a tuple's score, made of attributes, columns, fields of structs (m.mean), numbers, + - * /
        and parentheses; `asc` or `desc` behind it says which end ranks first
    The other arguments, the columns and the counters are those of `sfumato.top_k` over a static
    frame. Raises ValueError or TypeError for wrong arguments, and what cannot be computed.
    """
    window = window_of(window)
    if not isinstance(window, Range | Rows):
        raise TypeError(f"`window` must be sf.Range or sf.Rows; got {window!r}")
    by, ascending = direction(by, ascending)
    named = registered(queries, window.every if isinstance(window, Range) else None)
    frame = frame_of(df)
    require_late(frame.schema)
    require_said(frame.schema, frame.forgotten)
    wanted = [Wanted("", "sum", by)]
    ranking = Ranking(frame, wanted, window, order, key, existence, None, rules, streams)
    config = TopKTableConfig(
        queries=tuple((query, k, every) for query, (k, every) in named.items()),
        window=window,
        semantics=semantics_of(semantics, probability, alpha, weights),
        plan=plan,
        ascending=ascending,
        rules=rules is not None,
        streams=streams is not None,
        keys=len(ranking.keys),
        scope=ranking.scope,
        time=ranking.time,
        one_controller=ranking.one_controller,
        forget_after=forget_after_of(frame, ranking.orders[0], ranking.keys, forget_after),
        by=by,
    )
    given = Input(frame, ranking.reading(scored=True))
    return run(Job("top_k", "top_k", name), [given], config, ranking.shown())


@dataclass(frozen=True)
class Ranking(WindowPlan):
    """What of the table the ranking reads, and what it gives."""

    rules: str | None
    streams: str | None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_instants()
        for argument, name in (("rules", self.rules), ("streams", self.streams)):
            if name is not None:
                self.frame.one(argument, name)
        taken = [name for name in self.keys if name in ANSWER]
        if taken:
            raise ValueError(
                f"`key` names a column `{taken[0]}`, but the answer has one of that name: rename it"
            )

    @cached_property
    def controlled(self) -> bool:
        """Whether instants are past by the punctuations of a controller: of sf.Rows too."""
        if isinstance(self.window, Range):
            return has_punctuations(self.frame.schema)
        return marks_late(self.frame.schema, self.orders)

    def _check_instants(self) -> None:
        kind = self.frame.type(self.orders[0])
        if len(self.orders) != 1 or not is_time(kind):
            raise TypeError(
                "`order` must be the one column of the event time, a timestamp or whole "
                f"microseconds; got {self.orders} ({kind})"
            )

    def row(self, members: bool) -> list[str]:
        """The certain columns of a tuple."""
        added = set(MARKS) if self.controlled else set()
        return [name for name in self.frame.columns if name not in {ALTERNATIVES, *added}]

    @property
    def reads_rows(self) -> bool:
        return True

    @property
    def read_as_it_is(self) -> Mapping[str, str]:
        read = {**super().read_as_it_is}
        for fixed, name in (("rule", self.rules), ("stream", self.streams)):
            if name is not None:
                read[fixed] = self.frame.one(f"{fixed}s", name)
        return read

    def shown(self) -> list[Shown]:
        """The columns of the result."""
        keys = self.frame.fields(self.keys)
        found = [Shown((f"key{i}",), field) for i, field in enumerate(keys)]
        kinds = {
            "query": pa.string(), "k": pa.int64(), "time": self.time_type, "rank": pa.int64(),
            "score": pa.float64(), "probability": pa.float64(),
            "row": struct_of(self.row(False), self.frame), "answered": self.time_type,
        }  # fmt: skip
        if self.streams is not None:
            kinds["stream"] = self.frame.type(self.frame.one("streams", self.streams))
        for name in ANSWER:
            if name in kinds:
                found.append(Shown((ROW if name == "row" else name,), pa.field(name, kinds[name])))
        return found
