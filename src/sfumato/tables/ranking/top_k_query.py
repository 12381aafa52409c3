"""The arguments of `top_k`, and the config derived from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any, ClassVar, Self

from sfumato.operators.arguments import flag
from sfumato.operators.ranking.semantics import Semantics
from sfumato.queries import Top, intervals_by_name, probabilities_by_name, split_direction
from sfumato.tables.ranking.table_top_k import TopKTableConfig
from sfumato.tables.reading.frame import CONTROLLER_COLUMNS, Frame, forget_after_of
from sfumato.tables.reading.results import (
    DOUBLE_TYPE,
    LONG_TYPE,
    STRING_TYPE,
    Output,
    mark_shared,
    passthrough_outputs,
    row_of,
)
from sfumato.tables.reading.tuples import ALTERNATIVES
from sfumato.tables.reading.user_warnings import RANKED
from sfumato.tables.windows.window_query import AggregateSpec, WindowQuery
from sfumato.windows import Range, Rows, window_of

TOP_K_COLUMNS = ("query", "k", "time", "rank", "score", "probability", "row", "stream", "answered")


@dataclass(eq=False)
class RankingQuery(WindowQuery):
    """The validated arguments of `top_k` over a frame.

    queries : name -> (k, every in microseconds)    least : name -> `probability`, where given
    """

    called: ClassVar[str] = "top_k"
    scored: ClassVar[bool] = True

    exclusive: str | None
    group: str | None
    queries: Mapping[str, tuple[int, int]]
    ascending: bool
    least: Mapping[str, float]

    @classmethod
    def from_arguments(
        cls,
        frame: Frame,
        queries: Top | int | Sequence[Top | int],
        by: str,
        ascending: bool | None,
        window: Any,
        **columns: Any,
    ) -> Self:
        """Check the arguments; `columns` are those that name columns."""
        window = window_of(window)
        if not isinstance(window, Range | Rows):
            raise TypeError(f"`window` must be sf.Range or sf.Rows; got {window!r}")
        if isinstance(window, Range) and window.empty:
            raise ValueError(
                "`empty` of sf.Range is allowed only for aggregates, because a ranking is "
                f"answered at the times of its queries even without tuples; got {window!r}. Leave "
                "`empty` out"
            )
        if isinstance(window, Rows) and window.slide is not None:
            raise ValueError(
                "`slide` of sf.Rows is allowed only for aggregates; a ranking needs the `every` "
                f"of its queries instead; got {window!r}. Leave `slide` out"
            )
        by, ascending = split_direction(by, ascending)
        named = intervals_by_name(queries, window.slide_us if isinstance(window, Range) else None)
        return cls(
            frame,
            [AggregateSpec("", "sum", by)],
            window,
            distribution=None,
            queries=named,
            ascending=ascending,
            least=probabilities_by_name(queries),
            **columns,
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.orders) != 1 or not self.frame.is_time(self.orders[0]):
            raise TypeError(
                "`order` must be one event-time column, a timestamp or whole microseconds; got "
                f"{self.orders} ({self.frame.type_name(self.orders[0])})"
            )
        self.frame.warn_of_time_unit("order", self.orders[0])
        assert self.unchanged_columns is not None  # guaranteed by the check above
        taken = [name for name in self.keys if name in TOP_K_COLUMNS]
        if taken:
            raise ValueError(
                f"`key` names a column `{taken[0]}`, but the answer already has a column with "
                "this name: rename the key"
            )

    def config(
        self,
        semantics: Semantics,
        plan: str,
        forget_after: str | timedelta | float | None,
        rescale: bool = False,
        processing_time: bool = False,
    ) -> TopKTableConfig:
        """Return the operator's config. Raises ValueError or TypeError if it is invalid."""
        if flag("rescale", rescale) and self.exclusive is None:
            raise ValueError(
                "`rescale` needs `exclusive`, the column that identifies rows that exclude each "
                "other"
            )
        assert isinstance(self.window, Range | Rows)
        config = TopKTableConfig(
            queries=tuple((query, k, every) for query, (k, every) in self.queries.items()),
            least=tuple(self.least.items()),
            window=self.window,
            semantics=semantics,
            plan=plan,
            ascending=self.ascending,
            rules=self.exclusive is not None,
            rescale=rescale,
            streams=self.group is not None,
            keys=len(self.keys),
            scope=self.scope,
            time=self.time,
            one_controller=self.one_controller,
            forget_after=forget_after_of(self.frame, self.orders[0], self.keys, forget_after),
            by=str(self.wanted[0].expression),
            processing_time=flag("processing_time", processing_time),
        )
        config.windows()  # raises for an invalid config here, not in a worker
        return config

    @cached_property
    def controlled(self) -> bool:
        """Return whether instants follow a controller's punctuations, even for sf.Rows."""
        if isinstance(self.window, Range):
            return self.frame.has_punctuations
        return self.frame.marks_late(self.orders)

    @cached_property
    def unchanged_columns(self) -> dict[str, str]:
        named = {"rule": ("exclusive", self.exclusive), "stream": ("group", self.group)}
        return {
            column: self.frame.single_column(argument, name)
            for column, (argument, name) in named.items()
            if name is not None
        }

    def answers(self) -> list[Output]:
        kinds = {
            "query": STRING_TYPE, "k": LONG_TYPE, "time": self.time_type, "rank": LONG_TYPE,
            "score": DOUBLE_TYPE, "probability": DOUBLE_TYPE, "answered": self.time_type,
            "row": row_of(self.frame, self.row_columns),
        }  # fmt: skip
        if "stream" in self.unchanged_columns:
            kinds["stream"] = self.frame.type(self.unchanged_columns["stream"])
        found = passthrough_outputs(self.frame, self.keys, prefix="key")
        found += [Output(name, (name,), kinds[name]) for name in TOP_K_COLUMNS if name in kinds]
        return mark_shared(found, None if self.certain else RANKED)

    @property
    def emits_rows(self) -> bool:
        return True

    @property
    def row_columns(self) -> list[str]:
        """Return the names of a tuple's certain columns."""
        added = CONTROLLER_COLUMNS if self.controlled else ()
        return [name for name in self.frame.columns if name not in {ALTERNATIVES, *added}]
