"""Rows in event-time order: held until the punctuation of their key has passed them."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from sfumato.kernels.disorder.release_order import in_order_of_release, release_positions
from sfumato.kernels.disorder.state import NEVER
from sfumato.operators.disorder.control import DisorderControl
from sfumato.operators.disorder.controllers import Controllers
from sfumato.operators.disorder.times import as_microseconds, check_lengths, within_range
from sfumato.operators.state.snapshot import Snapshot, pack, unpack

KIND, VERSION = "reorder", 2


@dataclass(frozen=True)
class Released:
    """Rows that came out, in order of output.

    number : int64[n], the row's place among all that arrived (0, 1, 2, ...)
    late : bool[n]                             key : int64[n], its code
    punctuation : int64[n] microseconds, their key's punctuation when they came out (the int64
        minimum while none was known)          event_time : int64[n] microseconds
    """

    number: np.ndarray
    late: np.ndarray
    punctuation: np.ndarray
    key: np.ndarray
    event_time: np.ndarray

    @property
    def size(self) -> int:
        """Rows."""
        return len(self.number)


@dataclass
class _Waiting:
    """The held rows, ascending by number (which is order of arrival)."""

    number: np.ndarray
    key: np.ndarray
    event_time: np.ndarray
    of_key: np.ndarray  # the row's number among the rows of its key

    @classmethod
    def none(cls) -> _Waiting:
        return cls(*(np.empty(0, np.int64) for _ in range(4)))

    def only(self, wanted: np.ndarray) -> _Waiting:
        return _Waiting(*(getattr(self, field.name)[wanted] for field in fields(self)))

    def then(self, other: _Waiting) -> _Waiting:
        names = [field.name for field in fields(self)]
        return _Waiting(*(np.concatenate([getattr(self, n), getattr(other, n)]) for n in names))


@dataclass(frozen=True)
class _Judged:
    """The rows of one call, grouped by key, and what the controllers said of each.

    order : their places in the call     starts, present : where each key's rows begin; the keys
    before, after : the key's punctuation before and after the row     expelled : (place, number
    among the key's rows) of rows that left a full buffer as late
    """

    order: np.ndarray
    starts: np.ndarray
    present: np.ndarray
    before: np.ndarray
    after: np.ndarray
    late: np.ndarray
    expelled: list[tuple[int, int]]


class Reorder:
    """Disorder control of many keys: each row comes out once, in event-time order or as late.

    The parameters are those of `Punctuator`; each key has a controller of its own. Of each key:
    - a row at or below the punctuation when it arrives comes out at once, late;
    - every other row is held, and comes out (not late) at the first arrival at which the
      punctuation is at or above its event time, in order of (event time, arrival);
    - a row that the guard set aside comes out the same way; but if a full buffer holds nothing
      else, the one farthest in the future comes out as late.
    So what comes out of a key, and in which order, depends on the arrivals of that key alone, and
    not on how they were cut into calls. Within a call the output is grouped by key.

    Memory: four numbers for each row held, and per key the state of a `Punctuator`.
    Raises ValueError or TypeError for parameters out of range.  Source: paper C.
    """

    def __init__(
        self,
        *,
        drop_ratio: float | None = None,
        slack: int | None = None,
        estimator: str | None = None,
        max_buffer: int | None = None,
        rounding: str = "ceiling",
        averaged: bool = False,
        guard: bool = True,
    ) -> None:
        self.control = DisorderControl(
            drop_ratio, slack, estimator, max_buffer, rounding, averaged, guard
        )
        self._controllers = Controllers(self.control)
        self._waiting = _Waiting.none()
        self._arrived = 0

    def process(self, keys: np.ndarray, event_time: np.ndarray, arrival: np.ndarray) -> Released:
        """What comes out at the next n arrivals.

        keys : int64[n] >= 0, dense codes (a new one makes a new controller)
        event_time, arrival : int64[n] microseconds, in order of arrival within each key
        Raises TypeError or ValueError for other dtypes, lengths, negative keys.
        Cost: a microsecond a key present, O(log) a row; O(rows held) comparisons of numbers.
        """
        keys, event_time, arrival = _checked(keys, event_time, arrival)
        order, starts, present = _grouped(keys)
        event_time, arrival = event_time[order], arrival[order]
        self._controllers.grow(int(present[-1]) + 1 if len(present) else 0)
        states = self._controllers.states
        rows = np.diff(starts)
        of_key = np.arange(len(order)) + np.repeat(states["count"][present] - starts[:-1], rows)
        last = states["punctuation"][present]
        after, late, at, numbers = self._controllers.extend(present, starts, event_time, arrival)
        before = np.empty_like(after)
        before[1:] = after[:-1]
        before[starts[:-1]] = last
        expelled = list(zip(at.tolist(), numbers.tolist(), strict=True))
        fresh = _Waiting(self._arrived + order, keys[order], event_time, of_key)
        self._arrived += len(order)
        return self._release(_Judged(order, starts, present, before, after, late, expelled), fresh)

    def _release(self, judged: _Judged, fresh: _Waiting) -> Released:
        """The rows that come out, at the arrivals at which they do; the others wait."""
        old = self._waiting
        group_of = np.full(len(self._controllers), -1)
        group_of[judged.present] = np.arange(len(judged.present))
        last = np.full(len(self._controllers), NEVER)
        last[judged.present] = judged.after[judged.starts[1:] - 1]
        leaving = (group_of[old.key] >= 0) & (old.event_time <= last[old.key])
        for at, number in judged.expelled:
            leaving |= (old.key == fresh.key[at]) & (old.of_key == number)
        candidate = old.only(leaving).then(fresh)
        held_before = len(candidate.number) - len(fresh.number)
        arrived = np.concatenate([np.full(held_before, -1), np.arange(len(fresh.number))])
        late = np.concatenate([np.zeros(held_before, bool), judged.late])
        on_arrival = late.copy()
        position = release_positions(
            candidate.event_time,
            group_of[candidate.key],
            arrived,
            late,
            judged.starts,
            judged.after,
        )
        for at, number in judged.expelled:
            row = (candidate.key == fresh.key[at]) & (candidate.of_key == number)
            position[row], late[row] = at, True
        sequence = np.argsort(candidate.event_time, kind="stable")
        out = in_order_of_release(position, sequence, len(fresh.number))
        punctuation = np.where(
            on_arrival[out], judged.before[position[out]], judged.after[position[out]]
        )
        staying = fresh.only(position[held_before:] < 0)
        staying = staying.only(np.argsort(staying.number))
        self._waiting = old.only(~leaving).then(staying)
        gone = candidate.only(out)
        return Released(gone.number, late[out], punctuation, gone.key, gone.event_time)

    def idle(self, keys: np.ndarray | None = None) -> Released:
        """Release what idle keys hold, but for rows set aside, and move their punctuation there.

        keys : codes of the idle keys; None: all.  Rows come out grouped by key, by event time.
        A row of these keys that comes later, with an event time not above those released, is late.
        A key with fewer than 16 rows has no guard yet: all its rows are released.
        """
        horizon = self._controllers.horizon
        chosen = np.ones(len(horizon), bool)
        if keys is not None:
            chosen[:] = False
            chosen[np.asarray(keys, np.int64)] = True
        waiting = self._waiting
        return self._drain(chosen[waiting.key] & (waiting.event_time <= horizon[waiting.key]))

    def flush(self) -> Released:
        """Release everything held: the stream has ended. The punctuation of each key moves to the
        largest event time it held, set aside or not."""
        return self._drain(np.ones(len(self._waiting.number), bool))

    def _drain(self, leaving: np.ndarray) -> Released:
        out = self._waiting.only(leaving)
        out = out.only(np.lexsort((out.number, out.event_time, out.key)))
        last = np.full(len(self._controllers), NEVER)
        last[out.key] = out.event_time  # ascending within a key: the largest stays
        for key in np.unique(out.key).tolist():
            self._controllers.advance(key, int(last[key]))
        self._waiting = self._waiting.only(~leaving)
        punctuation = self._controllers.punctuation[out.key]
        late = np.zeros(len(out.number), bool)
        return Released(out.number, late, punctuation, out.key, out.event_time)

    @property
    def held(self) -> np.ndarray:
        """int64[keys]: the rows held of each key."""
        return np.bincount(self._waiting.key, minlength=len(self._controllers))

    @property
    def held_rows(self) -> np.ndarray:
        """int64[]: the numbers of the rows held, ascending."""
        return self._waiting.number

    @property
    def arrived(self) -> int:
        """Rows that arrived: the number of the next one."""
        return self._arrived

    def punctuations(self) -> np.ndarray:
        """int64[keys] microseconds: the punctuation in force of each key."""
        return self._controllers.punctuation.copy()

    @property
    def counters(self) -> dict[str, int]:
        """Totals over the keys: rows, late (expelled ones included), on_time (came out), held,
        future, forced, expelled, out_of_order as in `Punctuator.counters`.
        rows = on_time + late + held."""
        counts = dict(self._controllers.counters)
        counts["rows"] = counts.pop("count")
        counts["held"] = len(self._waiting.number)
        counts["late"] += counts["expelled"]
        counts["on_time"] = counts["rows"] - counts["late"] - counts["held"]
        return counts

    def snapshot(self) -> bytes:
        """Parameters, controllers and held rows' numbers as versioned bytes. Cost: one copy."""
        waiting = {field.name: getattr(self._waiting, field.name) for field in fields(_Waiting)}
        values = {"control": self.control.values, "arrived": self._arrived}
        return pack(KIND, VERSION, Snapshot(values, {**self._controllers.arrays(), **waiting}))

    @classmethod
    def restore(cls, data: bytes) -> Reorder:
        """The operator that `snapshot` saved. Raises SnapshotError for other bytes."""
        saved = unpack(data, KIND, VERSION)
        reorder = cls(**saved.values["control"])
        reorder._arrived = saved.values["arrived"]
        reorder._waiting = _Waiting(*(saved.arrays[field.name] for field in fields(_Waiting)))
        reorder._controllers = Controllers.of(reorder.control, saved.arrays)
        return reorder


def _checked(
    keys: np.ndarray, event_time: np.ndarray, arrival: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    event_time = as_microseconds("event_time", event_time)
    arrival = as_microseconds("arrival", arrival)
    check_lengths(event_time, arrival)
    keys = np.asarray(keys)
    if keys.dtype.kind not in "iu" or keys.shape != event_time.shape:
        raise TypeError(
            f"`keys` must be int64 codes, one a row ({len(event_time)}); "
            f"got {keys.dtype} of shape {keys.shape}"
        )
    if len(keys) and keys.min() < 0:
        raise ValueError(f"`keys` must be codes 0, 1, 2, ...; got {keys.min()}")
    return keys.astype(np.int64, copy=False), within_range(event_time), within_range(arrival)


def _grouped(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(order, starts, present): rows grouped by key in order of arrival, where each group starts
    (and the last ends), and the keys."""
    if len(keys) == 0:
        empty = np.empty(0, np.int64)
        return empty, np.zeros(1, np.int64), empty
    if (keys == keys[0]).all():
        return np.arange(len(keys)), np.array([0, len(keys)]), keys[:1]
    order = np.argsort(keys, kind="stable")
    grouped = keys[order]
    starts = np.flatnonzero(np.concatenate([[True], grouped[1:] != grouped[:-1]]))
    return order, np.append(starts, len(keys)), grouped[starts]
