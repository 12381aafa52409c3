"""Rows in event-time order, held until their key's punctuation passes them."""

from typing import Any

import numpy as np

from sfumato.kernels.disorder.release import release_positions
from sfumato.kernels.disorder.state import END_OF_TIME, NO_IDS, NO_TIME, RowIds
from sfumato.operators.arrays import Bools, Ints, grouped
from sfumato.operators.disorder.control import ReorderConfig
from sfumato.operators.disorder.controllers import Controllers, Judgement
from sfumato.operators.disorder.rows import (
    NO_CODES,
    EmittedRows,
    KeyedRuns,
    WaitingRows,
    checked_times,
)
from sfumato.operators.disorder.sources import Sources
from sfumato.operators.state.declared import Part, Record, Value
from sfumato.operators.state.stateful import Operator


class Reorder(Operator):
    """Disorder control for many keys: each row is emitted once, in event-time order or as late.

    Accepts the parameters of `Punctuator`, and
    max_buffer_total : largest number of held rows of all keys together
    by_source : whether a key's rows come from several sources. Each source then has a separate
        controller, and the key's punctuation is the lowest punctuation of its sources
    expected_sources : number of sources that must have sent rows before a key's rows are released

    For each key:
    - A row that arrives below its source's punctuation is emitted immediately, as late.
    - Every other row is held until the first arrival at which the key's punctuation reaches its
      event time. The row is then released, on time, in order of (event time, source, arrival).
      Sources are ordered by `sources.ranks`, by default by code.
    - A row whose event time equals its source's punctuation is not late. The row waits until the
      punctuation exceeds its event time, so that it follows the other rows of that time. With a
      bounded buffer and without sources, the row is released immediately.
    - A row set aside by the guard is released in the same way, with exceptions. A row far ahead is
      emitted as late once a later row contradicts it, or at the end if it is also ahead of its
      arrival. If a full buffer contains only rows far ahead, the farthest row is emitted as late.
    The results depend only on each source's sequence of rows, not on how arrivals are split into
    calls. They do not depend on how sources are interleaved if every source has sent rows, or is
    expected, before the punctuations of the other sources pass its rows. Output is grouped by key.

    Memory: seven numbers per held row, and the state of one `Punctuator` per source.
    Raises ValueError or TypeError for parameters out of range.  Source: Kim et al. (2006).
    """

    kind, version = "reorder", 12
    flattened_records = ("control",)
    config: ReorderConfig
    state = {
        "controllers": Part(),
        "sources": Part(),
        "arrived": Value(int, low=0),
        "evicted_late": Value(int, low=0),
        "newest": Value(int),
        "waiting": Record(WaitingRows),
    }

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self.controllers = Controllers(self.config.control)
        self.sources = Sources(self.config.expected_sources or 1)
        self.arrived = 0  # rows so far: the number of the next row
        self.evicted_late = 0  # held rows that were emitted as late
        self.newest = int(NO_TIME)  # the latest arrival
        self._held = KeyedRuns(WaitingRows)
        # Ascending numbers of the last call's rows that are held, and of its duplicates.
        self.newly_held = self.duplicates = NO_CODES
        # The source's punctuation before each row of the last call.
        self.punctuation_before = NO_CODES

    def process(
        self,
        keys: np.ndarray,
        event_time: np.ndarray,
        arrival: np.ndarray,
        sources: np.ndarray | None = None,
        ids: RowIds = NO_IDS,
        sent: Ints = NO_CODES,
    ) -> EmittedRows:
        """Return the rows emitted at the next n arrivals.

        keys : int64[n] >= 0, dense codes
        event_time, arrival : int64[n] microseconds, in order of arrival within each source
        sources : int64[n] >= 0, with `by_source`: dense codes; a source belongs to one key forever
        ids : ids of the rows; each slot belongs to one source (or key)
        sent : int64[n] microseconds, with estimator "sent": the punctuation that each row carries,
            the int64 minimum for rows without a punctuation
        A source that first sends rows in this call counts from the start of the call.
        Raises TypeError or ValueError for times of wrong dtypes or unequal lengths.
        Cost: one microsecond per source in the call, plus O(log) per row and per held row of the
        call's keys; with `by_source`, plus O(1) per source of these keys.
        """
        event_time, arrival = checked_times(event_time, arrival)
        sources = keys if sources is None else sources
        sent = self.controllers.checked_sent(sent, len(event_time))
        order, starts, present = by_key = grouped(keys)
        by_source, counting = by_key, NO_CODES
        self.controllers.grow(int(sources.max(initial=-1)) + 1)
        if self.config.by_source:
            by_source = grouped(sources)
            one = by_source[0][by_source[1][:-1]]  # one row per source
            begun = self.sources.activate(sources[one], keys[one])
            self.controllers.advance(begun, self.sources.released_up_to[self.sources.key_of[begun]])
            counting = self.controllers.punctuation_of(self.sources.members(present)[0])
        judged = self.controllers.extend(by_source, event_time, arrival, ids, sent)
        before, after, late = judged.before, judged.after, judged.late
        self.duplicates = self.arrived + np.flatnonzero(judged.duplicate)
        self.punctuation_before = before
        waits_for_ties = self.config.by_source or not self.config.control.is_bounded
        fresh = WaitingRows(
            number=self.arrived + np.arange(len(order)),
            key=keys,
            source=sources,
            event_time=event_time,
            arrival=arrival,
            of_source=judged.number,
            tied=~late & (event_time == before) & waits_for_ties,
        )
        self.arrived += len(order)
        self.newest = max(self.newest, int(arrival.max(initial=NO_TIME)))
        if self.config.by_source:
            grown = after > before
            self.sources.record_punctuations(fresh.source[grown], after[grown])
        fresh, least = fresh.take(order), after.take(order)
        if self.config.by_source:
            least = self.sources.key_punctuations(present, starts, fresh.source, least, counting)
        elif len(judged.evicted_late) or len(judged.forced_by_buffer):
            # Include the keys whose rows are released to make room.
            keys = np.append(judged.evicted_late[:, 1], judged.forced_by_buffer[:, 1])
            also = np.union1d(present, keys)
            starts = np.append(starts[np.searchsorted(present, also)], len(order))
            present = also
        return self._release(fresh, (order, starts, present), arrival, judged, least)

    def _release(
        self, fresh: WaitingRows, groups: tuple[Ints, Ints, Ints], arrival: Ints,
        judged: Judgement, least: Ints,
    ) -> EmittedRows:  # fmt: skip
        """Emit rows at the arrivals that release them, and hold the other rows.

        fresh : new rows by key    least : punctuation of each row's key after the row
        groups : order of the new rows in the call, the start of each key's rows, and the keys
        """
        (order, starts, present), n = groups, len(fresh.key)
        held, places = self._held.rows_of(present)
        known = self.controllers.punctuation_of
        last = least[starts[1:] - 1] if self.config.by_source else known(present)
        group = np.searchsorted(present, held.key)
        leaving = held.due <= last[group]
        for _, source, first, end, _ in judged.evicted_late.tolist():
            leaving |= held.has_number_in(source, first, end)
        self._held.remove(places[leaving])
        rows = WaitingRows.concat([held.take(leaving), fresh])
        old = len(rows.key) - n
        group = np.append(group[leaving], np.repeat(np.arange(len(present)), np.diff(starts)))
        arrived = np.append(np.full(old, -1), np.arange(n))
        on_arrival = np.append(np.zeros(old, bool), judged.late[order])
        position = release_positions(rows.due, group, arrived, on_arrival, starts, least)
        at, late, times = _emissions(rows, position, on_arrival, order, judged)
        self.evicted_late += int(late.sum() - on_arrival.sum())
        stays, turn = at == n, group * (n + 1) + at
        staying = rows.take(stays)
        self._held.add(staying)
        self.newly_held = np.sort(staying.number)
        out = np.flatnonzero(~stays)
        out = out[np.lexsort((*self._release_order(rows.take(out)), turn[out]))]
        gone, late, punctuation = rows.take(out), late[out], times[out]
        if self.config.by_source:
            punctuation[~late] = self.sources.release_punctuations(gone.due[~late], gone.key[~late])
            self.sources.record_released(present, last)
        return _emitted_rows(gone, late, punctuation, arrival[at[out]])

    def _release_order(self, rows: WaitingRows) -> tuple[np.ndarray, ...]:
        """Return the columns that order a key's rows for release, the most significant last."""
        if not self.config.by_source:  # rows of a key are in order of arrival
            return (rows.event_time,)
        present, of = np.unique(rows.source, return_inverse=True)
        rank = self.sources.ranks(present)[of.reshape(-1)]
        return rows.number, rank, rows.tied, rows.event_time

    @property
    def _key_count(self) -> int:
        return len(self.sources.released_up_to) if self.config.by_source else len(self.controllers)

    def idle(self, sources: Ints | None = None, keys: Ints = NO_CODES) -> EmittedRows:
        """Release rows that only silent sources delay; a silent source does not count until it
        sends rows.

        sources : codes of the silent sources, or of keys without `by_source` (None: all)
        keys : codes of keys that stop waiting for expected sources
        If a key has other counting sources, rows are released up to their lowest punctuation;
        otherwise, all rows of the key are released except rows set aside. Rows are grouped by key
        and ordered by event time. A later arrival with an earlier event time than released rows is
        late, and is counted in `after_idle`.
        A source with fewer than 16 rows has no guard: all its rows are released.
        """
        affected = np.arange(len(self.controllers)) if sources is None else np.unique(sources)
        limit = np.full(self._key_count, NO_TIME)
        if self.config.by_source:
            self.sources.pending[keys] = False
            affected = np.union1d(self.sources.deactivate(affected), keys)
            limit[affected] = self.sources.release_limits(affected, self.controllers.punctuation_of)
        else:
            limit[affected] = END_OF_TIME
        rows, places = self._held.rows_of(affected)
        reach, horizon = limit[rows.key], self.controllers.horizon_of(rows.source)
        leaving = rows.due <= np.where(reach == END_OF_TIME, horizon, reach)
        self._held.remove(places[leaving])
        return self._drain(rows.take(leaving), limit == END_OF_TIME)

    def flush(self) -> EmittedRows:
        """Release all held rows at the end of the stream, including rows set aside.

        Each key's punctuation advances to its largest released event time. Rows far ahead of both
        other rows and their arrival are emitted as late.
        """
        if self.config.by_source:
            self.sources.deactivate(np.arange(len(self.controllers)))
        rows, self.waiting = self.waiting, WaitingRows.empty()
        return self._drain(rows, np.ones(self._key_count, bool))

    def forget(self, keys: Ints) -> EmittedRows:
        """Release all rows of finished keys, as `flush` does; their codes may be reused.

        Call this method only without `by_source`, because a key with sources waits for its sources.
        """
        rows, places = self._held.rows_of(np.unique(keys))
        self._held.remove(places)
        out = self._drain(rows, NO_CODES)
        self.controllers.forget(keys)
        return out

    def _drain(self, rows: WaitingRows, whole: Bools | Ints) -> EmittedRows:
        """Build the output for rows taken from the buffer; each key's rows ascend by number.

        whole : with `by_source`, bool[keys], keys without a counting source; rows of other keys
            have the punctuations that released them
        """
        self.newly_held = self.duplicates = NO_CODES
        rows = rows.take(np.lexsort((*self._release_order(rows), rows.key)))
        late = rows.event_time > self.controllers.plausible_of(rows.source)
        self.evicted_late += int(late.sum())
        on_time = rows.take(~late)
        _, starts, keys = grouped(on_time.key)
        last = on_time.event_time[starts[1:] - 1]  # the largest event time per key
        if self.config.by_source:
            times = np.full(self._key_count, NO_TIME)
            times[keys] = last
            punctuation = times[rows.key]
            some = ~late & ~whole[rows.key]
            punctuation[some] = self.sources.release_punctuations(rows.due[some], rows.key[some])
            punctuation[late] = self.controllers.punctuation_of(rows.source[late])
            self.sources.record_released(keys, last)
        else:
            before = self.controllers.punctuation_of(rows.key[late])
            self.controllers.advance(keys, last)
            punctuation = self.controllers.punctuation_of(rows.key)
            punctuation[late] = before
        return _emitted_rows(rows, late, punctuation, self.newest)

    @property
    def waiting(self) -> WaitingRows:
        """A copy of the held rows, ascending by number."""
        rows = self._held.rows
        return rows.take(np.argsort(rows.number))

    @waiting.setter
    def waiting(self, rows: WaitingRows) -> None:
        self._held.rows = rows

    @property
    def held_count(self) -> int:
        """The number of held rows."""
        return len(self._held)

    def held_of(self, keys: Ints) -> WaitingRows:
        """Return the held rows of these keys (ascending, distinct), by number within each key."""
        return self._held.rows_of(keys)[0]

    def punctuations_of(self, keys: Ints) -> Ints:
        """Return int64[k] microseconds: the current punctuations of these ascending keys."""
        if not self.config.by_source:
            return self.controllers.punctuation_of(keys)
        target = self.sources.release_limits(keys, self.controllers.punctuation_of)
        target = np.where(target == END_OF_TIME, NO_TIME, target)
        return np.maximum(target, self.sources.released_up_to[keys])

    @property
    def counters(self) -> dict[str, int]:
        """Totals over all keys: `Controllers.counters`, held, evicted_late (held rows emitted as
        late, included in late), and on_time (released). rows = on_time + late + held."""
        counts = self.controllers.counters
        counts["held"] = self.held_count
        counts["evicted_late"] = self.evicted_late
        counts["late"] += self.evicted_late
        counts["on_time"] = counts["rows"] - counts["late"] - counts["held"]
        return counts

    def after_loading(self) -> None:
        waiting, config = self.waiting, self.config
        if len(waiting.number) and (
            (np.diff(waiting.number) <= 0).any()
            or waiting.number[-1] >= self.arrived
            or waiting.source.max() >= len(self.controllers)
            or waiting.key.max() >= self._key_count
        ):
            raise ValueError("held rows must have arrived")
        if len(self.sources.key_of) != (len(self.controllers) if config.by_source else 0):
            raise ValueError("the numbers of sources and controllers must be equal")


def _emissions(
    rows: WaitingRows, position: Ints, on_arrival: Bools, order: Ints, judged: Judgement
) -> tuple[Ints, Bools, Ints]:
    """Return when rows are emitted, evicted or forced out: places in the call, int64[m] (the number
    of arrivals for rows that stay), late rows, bool[m], and punctuations, int64[m].

    position : places if no row were evicted or forced out, among the arrivals by key
    """
    forced, n = judged.forced_by_buffer, len(order)
    at, late = np.append(order, n)[position], on_arrival.copy()
    punctuation = np.append(judged.after, NO_TIME)[at]
    punctuation[on_arrival] = judged.before[at[on_arrival]]
    for place, source, first, end, time in judged.evicted_late.tolist():
        row = rows.has_number_in(source, first, end) & ~late & (at >= place)
        at[row], late[row], punctuation[row] = place, True, time
    if len(forced):
        came = np.append(np.full(len(at) - n, -1), order)
        place, times = _forced_emissions(rows, forced, n)
        sooner = ~late & (came <= place) & (place < at)
        at[sooner], punctuation[sooner] = place[sooner], times[sooner]
    return at, late, punctuation


def _forced_emissions(rows: WaitingRows, forced: Ints, never: int) -> tuple[Ints, Ints]:
    """Return the place at which each row is forced out, or `never`, and its key's punctuation."""
    order, starts, keys = grouped(forced[:, 1])
    place, _, _, _, time = forced[order].T
    group = np.searchsorted(keys, rows.key)
    known = group < len(keys)
    known[known] = keys[group[known]] == rows.key[known]
    out = np.full((2, len(rows.key)), never)
    earlier, no_late = np.full(known.sum(), -1), np.zeros(known.sum(), bool)
    event = release_positions(
        rows.event_time[known], group[known], earlier, no_late, starts, np.ascontiguousarray(time)
    )
    out[0, known] = np.append(place, never)[event]
    out[1, known] = np.append(time, NO_TIME)[event]
    return out[0], out[1]


def _emitted_rows(
    rows: WaitingRows, late: Bools, punctuation: Ints, now: int | Ints
) -> EmittedRows:
    return EmittedRows(
        rows.number, late, punctuation, rows.key, rows.event_time, now - rows.arrival
    )
