"""What a top-k window is made of: its queries, what its window holds, and how that is ranked."""

import operator
from dataclasses import dataclass

from sfumato.operators.arguments import whole
from sfumato.operators.ranking.semantics import Semantics
from sfumato.operators.ranking.timetable import timetable

PK_TOPK = Semantics()


@dataclass(frozen=True)
class TopKWindowConfig:
    """The arguments of a `TopKWindow`, its queries as (name, k, every)."""

    queries: tuple[tuple[str, int, int], ...]
    length: int | None = None
    rows: int | None = None
    confidence: float | None = None
    max_tuples: int | None = None
    semantics: Semantics = PK_TOPK
    plan: str = "dp"
    start: int | None = None
    ascending: bool = False
    streams: bool = False
    strict: bool = False
    rescale: bool = False

    def __post_init__(self) -> None:
        named = [
            (str(name), *timetable([query], self.plan).queries[0]) for name, *query in self.queries
        ]
        object.__setattr__(self, "queries", tuple(named))
        if self.start is not None:
            object.__setattr__(self, "start", operator.index(self.start))
        if (self.length is None) == (self.rows is None):
            raise ValueError("give either `length` in microseconds or `rows`, and not both")
        for name in ("length", "rows"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name))
        if self.confidence is None and self.max_tuples is not None:
            raise ValueError("`max_tuples` bounds a window of `rows` with a `confidence`")
        if self.confidence is not None and self.rows is None:
            raise ValueError("`confidence` is that of a window of `rows`: give no `length`")
        if self.strict and self.rescale:
            raise ValueError("`strict` raises where `rescale` scales: give one of them")
        if self.streams and self.semantics.name != "pk_topk":
            raise ValueError(f'streams are ranked by "pk_topk"; got "{self.semantics.name}"')
