"""As-of joins: the newest earlier row of another stream, where rows may be uncertain."""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np

from sfumato.kernels.distributions.tuples import existences as existences
from sfumato.kernels.distributions.tuples import reaches_all
from sfumato.operators.arguments import share
from sfumato.operators.arrays import Bools, Floats, Ints
from sfumato.operators.state.columns import Columns
from sfumato.operators.state.declared import Array, Record, Value
from sfumato.operators.state.stateful import Stateful

LOG_ABSENT_CERTAIN = -1000.0  # log Pr(a certain row is absent), instead of log(0)
LOG_SLACK = 1.0  # rows are kept a little too long, because sums of logarithms are rounded
NO_ROW = -1  # number of a row that does not exist


@dataclass(frozen=True)
class EarlierRows(Columns):
    """Rows that may be the newest of their key, in order of arrival; times in microseconds."""

    number: Annotated[Ints, Array(int, "rows", low=0)]
    key: Annotated[Ints, Array(int, "rows", low=0)]
    time: Annotated[Ints, Array(int, "rows")]
    existence: Annotated[Floats, Array(float, "rows", low=0.0)]


class Candidates(NamedTuple):
    """Candidates for the query rows, the newest first per row.

    place : int64[k], the query row's place    number : int64[k], the candidate's number, or NO_ROW
    probability : float64[k], Pr(the candidate is the newest earlier row that exists)
    """

    place: Ints
    number: Ints
    probability: Floats


class NewestEarlier(Stateful):
    """Distribution of the newest earlier row of the key, for each query row.

    within : int, largest age in microseconds, or None for any age
    least : smallest probability of an answer, in (0, 1]

    Rows exist independently. Candidate j is the newest existing row with probability
    Pr(j) * product of (1 - Pr(i)) over the newer rows i. The probability that no row exists is the
    product over all rows.

    Results do not depend on how rows are split into calls. They are exact up to rounding.
    State: per key, the rows that are the newest with a probability of at least `least`; a single
    row if rows are certain.  Source: possible worlds as in Dallachiesa et al. (2015).
    """

    state = {"held": Record(EarlierRows), "next": Value(low=0)}

    def __init__(self, within: int | None, least: float) -> None:
        self.within, self.least = within, share("probability", least)
        self.held = EarlierRows.empty()
        self.next = 0

    def process(self, is_query: Bools, key: Ints, time: Ints, existence: Floats) -> Candidates:
        """Return candidates for the query rows; the other rows are candidates for later rows.
        Arrays have one entry per row, in order; a key's times do not decrease."""
        given = np.flatnonzero(~is_query)
        number = self.next + np.arange(given.size)
        self.next += given.size
        fresh = EarlierRows(number, key[given], time[given], existence[given])
        before = self.held.number.size + np.cumsum(~is_query)
        rows = EarlierRows.concat([self.held, fresh])
        order = np.argsort(rows.key, kind="stable")
        rows = rows.take(order)
        size, places = order.size + 1, np.flatnonzero(is_query)
        newest = np.searchsorted(rows.key * size + order, key[places] * size + before[places]) - 1
        found = self._candidates(rows, key[places], time[places], newest)
        self._keep_possible(rows)
        return found._replace(place=places[found.place])

    def forget(self, keys: Ints) -> None:
        """Delete the rows of these keys; their codes may be reused."""
        over = np.isin(self.held.key, keys)
        self.held = self.held.take(~over) if over.any() else self.held

    def _candidates(self, rows: EarlierRows, key: Ints, time: Ints, newest: Ints) -> Candidates:
        """Return candidates for query rows. rows : by key    newest : places in `rows`"""
        place, at, left = np.arange(key.size), newest, np.ones(key.size)
        found = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]

        def emit(some: Ints, number: Ints, probability: Floats) -> None:
            likely = reaches_all(probability, self.least)
            found.append((some[likely], number[likely], probability[likely]))

        while place.size:
            here = (at >= 0) & (np.append(rows.key, NO_ROW)[at] == key[place])
            if self.within is not None and rows.time.size:
                here &= time[place] - rows.time[at] <= self.within
            emit(place[~here], np.full(int((~here).sum()), NO_ROW), left[~here])
            place, at, left = place[here], at[here], left[here]
            emit(place, rows.number[at], left * rows.existence[at])
            left = left * (1.0 - rows.existence[at])
            continues = reaches_all(left, self.least)
            place, at, left = place[continues], at[continues] - 1, left[continues]
        columns = [np.concatenate(parts) for parts in zip(*found, strict=True)]
        order = np.argsort(columns[0], kind="stable")
        return Candidates._make(column[order] for column in columns)

    def _keep_possible(self, rows: EarlierRows) -> None:
        """Keep the rows, ordered by key, that may still be the newest for later rows."""
        if not rows.key.size:
            return
        absent = np.log1p(-np.minimum(rows.existence, 1.0 - np.exp(-36.0)))
        absent = np.where(rows.existence >= 1.0, LOG_ABSENT_CERTAIN, absent)
        newer = np.cumsum(absent[::-1])[::-1] - absent  # over later rows of any key
        last = np.append(rows.key[1:] != rows.key[:-1], True)
        ends = np.flatnonzero(last)
        end = ends[np.searchsorted(ends, np.arange(rows.key.size))]
        possible = newer - newer[end] >= np.log(self.least) - LOG_SLACK
        kept = rows.take(possible)
        self.held = kept.take(np.argsort(kept.number, kind="stable"))

    def after_loading(self) -> None:
        held = self.held
        if (np.diff(held.number) <= 0).any() or (held.number >= self.next).any():
            raise ValueError("row numbers must ascend and be below the next number")
        if not (held.existence <= 1.0).all():
            raise ValueError("existences must be at most 1")
