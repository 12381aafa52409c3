"""Many top-k queries over one window of uncertain tuples: `sfumato.top_k` without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pyarrow as pa

from sfumato.local.model.frame import frame_of
from sfumato.local.model.kind import same_kind
from sfumato.local.model.run import Input, Job, run, struct_of
from sfumato.local.model.window_plan import WindowPlan
from sfumato.operators.ranking.semantics import semantics_of
from sfumato.queries import Top
from sfumato.tables.operator import ROW
from sfumato.tables.ranking.query import ANSWER, Columns, RankingQuery
from sfumato.tables.reading.naming import Shown
from sfumato.tables.reading.shared_rows import RANKED, SHARED
from sfumato.windows import Range, Rows


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
    rescale: bool = False,
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
    columns = Columns(order, key, existence, rules, streams)
    ranking = Ranking.asked(frame_of(df), queries, by, ascending, window, columns)
    ranked_by = semantics_of(semantics, probability, alpha, weights)
    config = ranking.config(ranked_by, plan, forget_after, rescale)
    given = Input(ranking.frame, ranking.reading())
    return run(Job("top_k", "top_k", name), [given], config, ranking.shown())


@dataclass(frozen=True)
class Ranking(WindowPlan, RankingQuery):
    """What of the table the ranking reads, and what it gives."""

    def shown(self) -> list[Shown]:
        """The columns of the result."""
        keys = self.frame.fields(self.keys)
        found = [Shown((f"key{i}",), field) for i, field in enumerate(keys)]
        kinds = {
            "query": pa.string(), "k": pa.int64(), "time": self.time_type, "rank": pa.int64(),
            "score": pa.float64(), "probability": pa.float64(),
            "row": struct_of(self.row(False), self.frame), "answered": self.time_type,
        }  # fmt: skip
        if "stream" in self.others:
            kinds["stream"] = self.frame.type(self.others["stream"])
        said = {"probability": {SHARED: RANKED}}
        for name in ANSWER:
            if name in kinds:
                field = pa.field(name, kinds[name], metadata=said.get(name))
                found.append(Shown((ROW if name == "row" else name,), field))
        return found
