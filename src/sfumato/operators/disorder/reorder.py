"""Rows in event-time order: held until the punctuation of their key has passed them."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from sfumato.kernels.disorder.release import in_order_of_release, release_positions
from sfumato.kernels.disorder.state import END_OF_TIME, NO_TIME
from sfumato.operators.arrays import Bools, Ints, grouped
from sfumato.operators.disorder.control import DisorderControl, ReorderConfig
from sfumato.operators.disorder.controllers import Controllers
from sfumato.operators.disorder.rows import ByKey, Judged, Released, WaitingRows, checked
from sfumato.operators.disorder.sources import NO_CODES, Sources
from sfumato.operators.state.declared import Declaration, Part, Record, Value
from sfumato.operators.state.stateful import Operator


class Reorder(Operator):
    """Disorder control of many keys: each row comes out once, in event-time order or as late.

    The parameters are those of `Punctuator`, and
    by_source : each key's rows come from several sources; each source has a controller of its own
        (without: each key), and the key's punctuation is the least of theirs
    expected_sources : nothing of a key comes out before so many of its sources have spoken

    Of each key:
    - a row below the punctuation of its source when it arrives comes out at once, late;
    - every other row is held, and comes out (not late) at the first arrival at which the key's
      punctuation is at or above its event time, in order of (event time, source, arrival);
    - a row that has the very event time of the punctuation of its source when it arrives is not
      late. It waits until the punctuation is above its event time, so that it follows the rows of
      that time which came out before; with `max_buffer`, without sources, it comes out at once;
    - a row that the guard set aside comes out the same way; but one that is far ahead comes out as
      late once a later row contradicts it, or at the end if it is ahead of its arrival as well; so
      does, where a full buffer holds nothing else, the one farthest in the future.
    Which rows are late, and the sequence of those that are not, with their punctuations, depends
    on each source's own sequence, not on how the sources were interleaved (as long as all have
    spoken, or are expected, before the punctuation of the others passes them), nor on how the
    arrivals were cut into calls. Within a call the output is grouped by key.

    Rows of one event time come out by their sources' codes, or as `sources.ranks` sorts them.

    Memory: five numbers for each row held, and per source the state of a `Punctuator`.
    Raises ValueError or TypeError for parameters out of range.  Source: paper C; spec 3.6.
    """

    kind, version = "reorder", 8
    spread = ("control",)
    config: ReorderConfig
    state: ClassVar[Mapping[str, Declaration]] = {
        "controllers": Part(),
        "sources": Part(),
        "arrived": Value(int, low=0),
        "expelled": Value(int, low=0),
        "waiting": Record(WaitingRows),
    }

    def __init__(
        self, *, by_source: bool = False, expected_sources: int | None = None, **control: Any
    ) -> None:
        self.config = ReorderConfig(DisorderControl(**control), by_source, expected_sources)
        self.controllers = Controllers(self.config.control)
        self.sources = Sources(expected_sources or 1)
        self.arrived = 0  # rows so far: the number of the next one
        self.expelled = 0  # rows held that came out as late
        self._held = ByKey(WaitingRows)
        self.stayed = NO_CODES  # numbers of the rows of the last call that are held

    def process(
        self,
        keys: np.ndarray,
        event_time: np.ndarray,
        arrival: np.ndarray,
        sources: np.ndarray | None = None,
    ) -> Released:
        """Return what is released at the next n arrivals.

        keys : int64[n] >= 0, dense codes
        event_time, arrival : int64[n] microseconds, in order of arrival within each source
        sources : int64[n] >= 0, with `by_source` the dense code of the row's source, which has one
            key for ever
        Sources of a call count from its beginning. Raises TypeError or ValueError for other
        dtypes, lengths, negative codes.
        Cost: a microsecond a source present, O(log) a row and a row held of the keys present;
        with `by_source` also all sources of these keys.
        """
        codes = [keys] if sources is None else [keys, sources]
        event_time, arrival, *codes = checked(event_time, arrival, codes)
        if (len(codes) == 2) != self.config.by_source:
            raise ValueError("`sources` must be given with by_source=True, and only then")
        order, starts, present = grouped(codes[-1])
        self.controllers.grow(int(present[-1]) + 1 if len(present) else 0)
        counting = NO_CODES, NO_CODES, NO_CODES
        if self.config.by_source:
            counting = self._speak(present, codes[0][order[starts[:-1]]])
        so_far = self.controllers.punctuation_of(present)
        of_source = np.arange(len(order)) - np.repeat(
            starts[:-1] - self.controllers.arrived_of(present), np.diff(starts)
        )
        own, late, *expelled = self.controllers.extend(
            present, starts, event_time[order], arrival[order]
        )
        before = np.empty_like(own)
        before[1:] = own[:-1]
        before[starts[:-1]] = so_far
        times = event_time[order]
        tied = ~late & (times == before) & self._waits_for_ties
        keys, sources = codes[0][order], codes[-1][order]
        rows = WaitingRows(self.arrived + order, keys, sources, times, of_source, tied)
        self.arrived += len(order)
        found = list(zip(*(of.tolist() for of in expelled), strict=True))
        judged = Judged(rows, starts, present, before, own, late, own, found)
        if self.config.by_source:
            judged = self._by_key(judged, counting)
        return self._release(judged)

    @property
    def _waits_for_ties(self) -> bool:
        return self.config.by_source or self.config.control.max_buffer is None

    def _speak(self, sources: Ints, keys: Ints) -> tuple[Ints, Ints, Ints]:
        """These sources count; what has come out without them is too late for them.

        Returns the sources that count of these keys, with offsets, and their punctuations.
        """
        for source in self.sources.speak(sources, keys).tolist():
            level = self.sources.level[self.sources.key_of[source]]
            self.controllers.advance(source, int(level))
        members, offsets = self.sources.members(np.unique(keys))
        return members, offsets, self.controllers.punctuation_of(members)

    def _by_key(self, judged: Judged, counting: tuple[Ints, Ints, Ints]) -> Judged:
        """Order what was judged source by source by key and arrival."""
        rows = judged.rows
        grown = judged.own > judged.before
        self.sources.step(rows.source[grown], judged.own[grown])
        arrived = np.argsort(rows.number)
        order, starts, present = grouped(rows.key[arrived])
        order = arrived[order]
        own = judged.own[order]
        least = self.sources.least(present, (starts, rows.source[order], own), counting)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        expelled = [(int(place[at]), first, end) for at, first, end in judged.expelled]
        before, late = judged.before[order], judged.late[order]
        return Judged(rows.take(order), starts, present, before, own, late, least, expelled)

    def _release(self, judged: Judged) -> Released:
        """The rows that come out, at the arrivals at which they do; the others wait."""
        found, fresh = self._held.of(judged.present), judged.rows
        old, last = found.rows, judged.least[judged.starts[1:] - 1]
        group = np.searchsorted(judged.present, old.key)
        leaving = old.due <= last[group]
        for at, first, end in judged.expelled:
            leaving |= _numbered(old, fresh.source[at], first, end)
        candidate = WaitingRows.joined([old.take(leaving), fresh]) if leaving.any() else fresh
        of_fresh = np.repeat(np.arange(len(judged.present)), np.diff(judged.starts))
        group = np.concatenate([group[leaving], of_fresh])
        held_before = len(candidate.number) - len(fresh.number)
        arrived = np.concatenate([np.full(held_before, -1), np.arange(len(fresh.number))])
        on_arrival = np.concatenate([np.zeros(held_before, bool), judged.late])
        position = release_positions(
            candidate.due, group, arrived, on_arrival, judged.starts, judged.least
        )
        late = on_arrival.copy()
        for at, first, end in judged.expelled:
            row = _numbered(candidate, fresh.source[at], first, end)
            row &= (position < 0) | (position >= at)  # those held
            row &= ~late
            position[row], late[row] = at, True
        self.expelled += int(late.sum() - on_arrival.sum())
        out = in_order_of_release(position, self._sorted(candidate), len(fresh.number))
        staying = fresh.take(position[held_before:] < 0)
        staying = staying.take(np.argsort(staying.number))
        self._held.remove(found, leaving)
        self._held.add(staying)
        self.stayed = staying.number
        gone, at, late = candidate.take(out), position[out], late[out]
        punctuation = np.where(on_arrival[out], judged.before[at], judged.own[at])
        if self.config.by_source:
            punctuation[~late] = self.sources.punctuations(gone.due[~late], gone.key[~late])
            self.sources.raise_level(judged.present, last)
        by = judged.rows.number[at]
        return Released(gone.number, late, punctuation, gone.key, gone.event_time, by)

    def _sorted(self, rows: WaitingRows) -> Ints:
        """The places of rows in order of event time, source and arrival, within each key; those
        that tied with a punctuation follow the others of their time."""
        if not self.config.by_source:  # those of a key are in order of arrival
            return np.argsort(rows.event_time, kind="stable")
        present, of = np.unique(rows.source, return_inverse=True)
        rank = self.sources.ranks(present)[of.reshape(-1)]
        return np.lexsort((rows.number, rank, rows.tied, rows.event_time))

    @property
    def _keys(self) -> int:
        return len(self.sources.level) if self.config.by_source else len(self.controllers)

    def idle(self, sources: Ints | None = None, keys: Ints = NO_CODES) -> Released:
        """Silent sources hold nothing back until they speak again.

        sources : codes of the silent sources (without `by_source` those of the keys); None: all
        keys : codes of keys that do not wait for sources that are still expected
        Where other sources of the key count, rows come out up to the least punctuation of those;
        else all of the key, but for rows set aside. Rows come out grouped by key, by event time.
        A row that comes later, and is below what came out, is late: it counts as `after_idle`.
        A source with fewer than 16 rows has no guard yet: all its rows are released.
        """
        silent = np.arange(len(self.controllers)) if sources is None else np.asarray(sources)
        limit = np.full(self._keys, NO_TIME)
        if self.config.by_source:
            self.sources.awaited[keys] = False
            affected = np.union1d(self.sources.silence(silent), keys)
            limit[affected] = self.sources.targets(affected, self.controllers.punctuation_of)
        else:
            limit[silent] = END_OF_TIME
        rows = self.waiting
        reach, horizon = limit[rows.key], self.controllers.horizon_of(rows.source)
        leaving = rows.due <= np.where(reach == END_OF_TIME, horizon, reach)
        self.waiting = rows.take(~leaving)
        return self._drained(rows.take(leaving), limit == END_OF_TIME)

    def flush(self) -> Released:
        """Release everything held: the stream has ended. The punctuation of each key moves to the
        largest event time it held, set aside or not; rows that are far ahead, also of their
        arrival, come out as late."""
        if self.config.by_source:
            self.sources.silence(np.arange(len(self.controllers)))
        rows, self.waiting = self.waiting, WaitingRows.none()
        return self._drained(rows, np.ones(self._keys, bool))

    def forget(self, keys: Ints) -> Released:
        """These keys are over: all that they hold comes out, as of `flush`, and their codes may be
        given to others. Raises ValueError with `by_source`.
        """
        if self.config.by_source:
            raise ValueError("keys that are made of sources are not forgotten")
        found = self._held.of(np.unique(keys))
        self._held.remove(found, np.ones(len(found.place), bool))
        out = self._drained(found.rows, NO_CODES)
        self.controllers.forget(keys)
        return out

    def _drained(self, out: WaitingRows, whole: Bools | Ints) -> Released:
        """Build the output for rows released from the buffer, those of a key ascending by number.

        whole : with `by_source`, bool[keys], where no source counts: the rows of other keys come
            out as their punctuations say
        """
        self.stayed = NO_CODES
        out = out.take(self._sorted(out))
        out = out.take(np.argsort(out.key, kind="stable"))
        late = out.event_time > self.controllers.plausible_of(out.source)
        self.expelled += int(late.sum())
        of_time = out.take(~late)
        _, starts, keys = grouped(of_time.key)
        last = of_time.event_time[starts[1:] - 1]  # ascending within a key: the largest
        if self.config.by_source:
            times = np.full(self._keys, NO_TIME)
            times[keys] = last
            punctuation = times[out.key]
            some = ~late & ~whole[out.key]
            punctuation[some] = self.sources.punctuations(out.due[some], out.key[some])
            punctuation[late] = self.controllers.punctuation_of(out.source[late])
            self.sources.raise_level(keys, last)
        else:
            before = self.controllers.punctuation_of(out.key[late])
            for key, time in zip(keys.tolist(), last.tolist(), strict=True):
                self.controllers.advance(key, time)
            punctuation = self.controllers.punctuation_of(out.key)
            punctuation[late] = before
        by = np.full(len(out.number), -1)
        return Released(out.number, late, punctuation, out.key, out.event_time, by)

    @property
    def waiting(self) -> WaitingRows:
        """The rows held, ascending by number: a copy."""
        rows = self._held.rows
        return rows.take(np.argsort(rows.number))

    @waiting.setter
    def waiting(self, rows: WaitingRows) -> None:
        self._held = ByKey(WaitingRows, rows)

    @property
    def holds(self) -> int:
        """Number of rows held."""
        return len(self._held)

    def held_of(self, keys: Ints) -> WaitingRows:
        """The rows held of these keys (distinct), those of a key ascending by number."""
        return self._held.of(keys).rows

    @property
    def held(self) -> np.ndarray:
        """int64[keys]: the rows held of each key."""
        return np.bincount(self.waiting.key, minlength=self._keys)

    def punctuations(self) -> np.ndarray:
        """int64[keys] microseconds: the punctuation in force of each key."""
        return self.punctuations_of(np.arange(self._keys))

    def punctuations_of(self, keys: Ints) -> Ints:
        """int64[k] microseconds: those of some keys (ascending)."""
        if not self.config.by_source:
            return self.controllers.punctuation_of(keys)
        target = self.sources.targets(keys, self.controllers.punctuation_of)
        return np.maximum(
            np.where(target == END_OF_TIME, NO_TIME, target), self.sources.level[keys]
        )

    @property
    def counters(self) -> dict[str, int]:
        """Totals over the keys: rows, late (all that came out late), on_time (came out), held,
        future, forced, expelled, after_idle, out_of_order as in `Punctuator.counters`.
        rows = on_time + late + held."""
        counts = self.controllers.counters
        counts["held"] = self.holds
        counts["expelled"] = self.expelled
        counts["late"] += self.expelled
        counts["on_time"] = counts["rows"] - counts["late"] - counts["held"]
        return counts

    def after_loading(self) -> None:
        waiting, config = self.waiting, self.config
        if len(waiting.number) and (
            (np.diff(waiting.number) <= 0).any()
            or waiting.number[-1] >= self.arrived
            or waiting.source.max() >= len(self.controllers)
            or waiting.key.max() >= self._keys
        ):
            raise ValueError("its held rows are not rows that arrived")
        if len(self.sources.key_of) != (len(self.controllers) if config.by_source else 0):
            raise ValueError("the numbers of its sources and controllers differ")


def _numbered(rows: WaitingRows, source: int, first: int, end: int) -> Bools:
    """bool[n]: the rows of a source that are numbered from `first` to before `end` there."""
    wanted: Bools = (rows.source == source) & (rows.of_source >= first) & (rows.of_source < end)
    return wanted
