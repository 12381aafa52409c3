"""The configuration of ranking windows, their tuples, and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np

from sfumato.operators.arguments import microseconds, whole
from sfumato.operators.arrays import Bools, Floats, Ints
from sfumato.operators.ranking.semantics import Semantics
from sfumato.operators.ranking.timetable import timetable
from sfumato.operators.state.columns import Columns
from sfumato.operators.state.declared import Array, Offsets

DEFAULT_SEMANTICS = Semantics()


@dataclass(frozen=True)
class TopKWindowConfig:
    """Arguments of `TopKWindows`, with queries as (name, k, every) and least as (name, Pr_k); both
    may be given as dictionaries, by name."""

    queries: tuple[tuple[str, int, int], ...]
    length: int | None = None
    rows: int | None = None
    confidence: float | None = None
    max_tuples: int | None = None
    semantics: Semantics = DEFAULT_SEMANTICS
    plan: str = "dp"
    start: int | None = None
    ascending: bool = False
    streams: bool = False
    rescale: bool = False
    least: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        rows, least = self.queries, self.least
        if isinstance(rows, Mapping):
            rows = tuple((name, *query) for name, query in rows.items())
        named = [(str(name), *timetable([query], self.plan).queries[0]) for name, *query in rows]
        object.__setattr__(self, "queries", tuple(named))
        if self.length is not None:
            microseconds("length", self.length)
        if self.rows is not None:
            whole("rows", self.rows)
        if isinstance(least, Mapping):
            object.__setattr__(self, "least", tuple(least.items()))
        if not isinstance(self.semantics, Semantics):
            object.__setattr__(self, "semantics", Semantics(self.semantics))
        if self.streams and (self.least or self.semantics.name != "pk_topk"):
            asked = "one `probability` per query" if self.least else f'"{self.semantics.name}"'
            raise ValueError(f'streams can be ranked only by "pk_topk"; got {asked}')
        if self.least and self.semantics.name not in ("pk_topk", "pt_k"):
            raise ValueError(
                'the `probability` of a query is allowed only with the semantics "pk_topk" and '
                f'"pt_k", as a minimum Pr_k; got "{self.semantics.name}"'
            )


@dataclass(frozen=True)
class RankingTuples(Columns, flat=("score", "prob"), begins="begin"):
    """Batch of n tuples with m alternatives; only `valid` is mutable.

    window : int64[n], code of the window;  number : int64[n], arrival number in the window
    id : int64[n], given by the caller
    time : int64[n] microseconds;  rule, stream : int64[n], -1 if there is none
    valid : bool[n], False for a tuple that overfilled its rule
    begin : int64[n + 1], tuple i has the alternatives begin[i] ... begin[i + 1] - 1
    score, prob : float64[m], per alternative
    """

    window: Annotated[Ints, Array(int, "held", low=0, high="keys")]
    number: Annotated[Ints, Array(int, "held", low=0)]
    id: Annotated[Ints, Array(int, "held")]
    time: Annotated[Ints, Array(int, "held")]
    rule: Annotated[Ints, Array(int, "held")]
    stream: Annotated[Ints, Array(int, "held")]
    valid: Annotated[Bools, Array(bool, "held")]
    begin: Annotated[Ints, Offsets("held", "items")]
    score: Annotated[Floats, Array(float, "items")]
    prob: Annotated[Floats, Array(float, "items")]

    @property
    def size(self) -> int:
        return self.number.size

    @property
    def existence(self) -> Floats:
        """Each tuple's probability of existence: float64[n]."""
        sums = np.add.reduceat(self.prob, self.begin[:-1]) if self.size else np.empty(0)
        return np.minimum(sums, 1.0)

    def check_restored(self, arrived: Ints) -> None:
        """Raise ValueError if windows with arrived[w] arrivals cannot hold these tuples."""
        prob, order = self.prob, np.argsort(self.window, kind="stable")
        window, number = self.window[order], self.number[order]
        rises = (np.diff(number) > 0) | (np.diff(window) > 0)
        if not (rises.all() and (number < arrived[window]).all()):
            raise ValueError("the tuples of a window must be numbered in order of arrival")
        if (np.diff(self.begin) < 1).any() or (self.rule < -1).any():
            raise ValueError("tuples must have alternatives, and rules must be numbered from 0")
        if not (np.isfinite(self.score).all() and (prob > 0.0).all() and (prob <= 1.0).all()):
            raise ValueError("scores must be finite, and probabilities must be in (0, 1]")


class TopKAnswers(NamedTuple):
    """Answer rows as parallel arrays, by window, then due time, query and rank.

    names : query names;  window : int64, window code
    query : int64, place in `names`;  k : int64;  time : int64 microseconds, the due instant
    answered : int64 microseconds, the time of the first tuple or call of `advance` that closed the
        instant; answered - time is the latency of the answer
    rank : int64, from 1;  id : int64, tuple id
    stream : int64, -1 unless streams are ranked;  score, probability : float64, as in Rankings
    rejected : int64, ids of tuples excluded because they overfill their rule
    ranked : bool[w, queries], queries for which each window of the call was ranked
    """

    names: tuple[str, ...]
    window: Ints
    query: Ints
    k: Ints
    time: Ints
    answered: Ints
    rank: Ints
    id: Ints
    stream: Ints
    score: Floats
    probability: Floats
    rejected: Ints
    ranked: Bools
