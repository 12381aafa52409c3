"""Queries that are registered with an operator: immutable, validated on construction."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sfumato.calls import checks_call
from sfumato.windows import Duration, duration_us


@checks_call('sf.Top(3, every="2 minutes")')
@dataclass(frozen=True)
class Top:
    """Top-k query: k, and the maximum time between two answers.

    Parameters
    ----------
    k
        Number of tuples (or streams) to return, >= 1.
    every
        Maximum difference in event time between two answers: "2 minutes" or a timedelta. None: the
        slide of the window.
    name
        Name of the query in the answers; None: "top_K".
    probability
        Return all tuples that are among the best k with at least this probability, in (0, 1], as
        with semantics="pt_k". None: use the `semantics` of `top_k`.

    Raises
    ------
    ValueError, TypeError
        For a number or duration out of range, and for values of the wrong type.

    Notes
    -----
    Cost: grows with k; `sf.top_k` shares the work of several queries.

    References
    ----------
    Chen et al. (2013), section 1 (FREQUENCY). IEEE TKDE 25(8), pages 1814-1829.

    Examples
    --------
    >>> Top(3, every="2 minutes").interval, Top(3).label
    (120000000, 'top_3')
    """

    k: int
    every: Duration | None = None
    name: str | None = None
    probability: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int):
            raise TypeError(f"`k` must be an integer; got {self.k!r}")
        if not 1 <= self.k < 2**31:
            raise ValueError(f"`k` must be an integer of at least 1; got {self.k!r}")
        if self.every is not None:
            duration_us("every", self.every)
        if self.name is not None and (not isinstance(self.name, str) or not self.name):
            raise TypeError(f"`name` must be a non-empty string or None; got {self.name!r}")
        given = self.probability
        if given is not None and not (hasattr(given, "__float__") and 0 < given <= 1):
            raise ValueError(
                f"`probability` must lie in (0, 1], for example 0.5; got {given!r}. Leave "
                "`probability` out for the k best tuples"
            )

    @property
    def label(self) -> str:
        """Return the query's name in the answers."""
        return f"top_{self.k}" if self.name is None else self.name

    @property
    def interval(self) -> int | None:
        """Return `every` in microseconds, or None."""
        return None if self.every is None else duration_us("every", self.every)


def as_list(queries: Top | int | Sequence[Top | int]) -> Sequence[Any]:
    """Return a query or a list of queries as a list."""
    return queries if isinstance(queries, Sequence) and not isinstance(queries, str) else [queries]


def probabilities_by_name(queries: Top | int | Sequence[Top | int]) -> dict[str, float]:
    """Return {name: probability} for the queries with a probability."""
    several = (query for query in as_list(queries) if isinstance(query, Top))
    return {q.label: float(q.probability) for q in several if q.probability is not None}


def intervals_by_name(
    queries: Top | int | Sequence[Top | int], otherwise: int | None
) -> dict[str, tuple[int, int]]:
    """Return {name: (k, every in microseconds)} for one or several queries.

    otherwise : default of `every`, or None if each query must have an `every`
    Raises TypeError for anything but queries, and ValueError for equal names or a missing `every`.
    """
    given = as_list(queries)
    if not given or any(isinstance(q, bool) or not isinstance(q, Top | int) for q in given):
        raise TypeError(
            "`queries` must be one sf.Top, a number k, or a non-empty list of queries, like "
            f'[sf.Top(3, every="2 minutes")]; got {queries!r:.80}'
        )
    found: dict[str, tuple[int, int]] = {}
    for query in (each if isinstance(each, Top) else Top(each) for each in given):
        every = otherwise if query.interval is None else query.interval
        if every is None:
            raise ValueError(
                f"query {query.label!r} needs `every`, the maximum time between two answers, "
                'because a row window does not slide by time: write sf.Top(3, every="2 minutes")'
            )
        if query.label in found:
            raise ValueError(
                f"two `queries` are called {query.label!r}: give one of them a different name, "
                f"sf.Top({query.k}, ..., name=...)"
            )
        found[query.label] = (query.k, every)
    return found


def split_direction(by: str, ascending: bool | None) -> tuple[str, bool]:
    """Return the expression `by` without its direction, and whether the smallest score ranks first.

    Raises TypeError if `by` is not a string. Raises ValueError for a direction that contradicts
    `ascending`, for several expressions, and for an order of NULLs.
    """
    if not isinstance(by, str) or not by.strip():
        raise TypeError(
            "`by` must be a string with a Spark SQL expression, like 'speed' or 'delay asc'; "
            f"got {by!r}"
        )
    if re.search(r"\bnulls\s+(first|last)\s*\Z", by, re.IGNORECASE):
        raise ValueError(
            "`by` must not contain NULLS FIRST or NULLS LAST, because tuples without a score are "
            f"left out; got {by!r}"
        )
    if re.search(r"\s(asc|desc)(ending)?\s*,", by, re.IGNORECASE):
        raise ValueError(
            "`by` must be one expression, the score, because rows with equal scores rank in order "
            f"of arrival; got {by!r}"
        )
    # `asc` alone may be a column name; after an expression it is a direction.
    found = re.fullmatch(r"(.*[\w\s)\]`'\"])\s(asc|desc)(?:ending)?\s*", by, re.I | re.DOTALL)
    if found is None:
        return by, bool(ascending)
    least = found[2].lower() == "asc"
    if ascending is not None and ascending != least:
        raise ValueError(
            f"`by` and `ascending` contradict each other; got by={by!r} and "
            f"ascending={ascending!r}. Give the direction once"
        )
    return found[1].strip(), least
