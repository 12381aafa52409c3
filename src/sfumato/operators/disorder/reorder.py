"""Rows in event-time order: held until the punctuation of their key has passed them."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa

from sfumato.kernels.disorder.release_order import in_order_of_release, release_positions
from sfumato.kernels.disorder.state import NEVER
from sfumato.operators.disorder.punctuator import (
    COUNTERS,
    DisorderControl,
    KeyController,
    as_microseconds,
    check_lengths,
    pack_controllers,
    unpack_controllers,
    within_range,
)
from sfumato.operators.state.held_rows import HeldRows
from sfumato.operators.state.snapshot import Snapshot, pack, unpack

KIND, VERSION = "reorder", 1


@dataclass(frozen=True)
class Released:
    """Rows that came out, in order of output.

    rows : their columns                       late : bool[n]
    punctuation : int64[n] microseconds, their key's punctuation when they came out (the int64
        minimum while none was known)          key : int64[n], their key's code
    event_time : int64[n] microseconds
    """

    rows: pa.Table
    late: np.ndarray
    punctuation: np.ndarray
    key: np.ndarray
    event_time: np.ndarray


@dataclass
class _Waiting:
    """The held rows without their columns, ascending by number (which is order of arrival)."""

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

    Memory: the rows held, and per key the state of a `Punctuator`.
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
        self._controllers: list[KeyController] = []
        self._waiting = _Waiting.none()
        self._rows = HeldRows()
        self._next = 0
        self._schema: pa.Schema | None = None

    def process(
        self, keys: np.ndarray, event_time: np.ndarray, arrival: np.ndarray, rows: pa.Table
    ) -> Released:
        """What comes out at the next n arrivals.

        keys : int64[n] >= 0, dense codes (a new one makes a new controller)
        event_time, arrival : int64[n] microseconds, in order of arrival within each key
        rows : n rows; the schema stays that of the first call
        Raises TypeError or ValueError for other dtypes, lengths, negative keys, another schema.
        Cost: some 10 microseconds a key present, O(log) a row, one Arrow take of what comes out
        and one of what stays; O(rows held) comparisons of numbers.
        """
        keys, event_time, arrival = self._checked(keys, event_time, arrival, rows)
        order, starts, present = _grouped(keys)
        event_time, arrival = event_time[order], arrival[order]
        fresh = _Waiting(self._next + order, keys[order], event_time, np.empty_like(order))
        before = np.empty(len(present), np.int64)
        punctuation = np.empty(len(order), np.int64)
        late = np.empty(len(order), bool)
        expelled: list[tuple[int, int, int]] = []
        self._add_controllers(int(present[-1]) + 1 if len(present) else 0)
        for group, key in enumerate(present.tolist()):
            low, high = int(starts[group]), int(starts[group + 1])
            controller = self._controllers[key]
            before[group] = controller.punctuation
            fresh.of_key[low:high] = np.arange(high - low) + controller.rows
            part = controller.extend(event_time[low:high], arrival[low:high])
            punctuation[low:high], late[low:high] = part[:2]
            expelled += [(group, low + at, n) for at, n in zip(part[2], part[3], strict=True)]
        self._next += len(order)
        return self._release(
            rows, order, starts, present, before, fresh, punctuation, late, expelled
        )

    def _release(
        self,
        rows: pa.Table,
        order: np.ndarray,
        starts: np.ndarray,
        present: np.ndarray,
        before: np.ndarray,
        fresh: _Waiting,
        punctuation: np.ndarray,
        late: np.ndarray,
        expelled: list[tuple[int, int, int]],
    ) -> Released:
        old = self._waiting
        group_of = np.full(len(self._controllers), -1)
        group_of[present] = np.arange(len(present))
        old_group = group_of[old.key]
        last = np.full(len(self._controllers), NEVER)
        last[present] = punctuation[starts[1:] - 1]
        out_of_old = (old_group >= 0) & (old.event_time <= last[old.key])
        for which, _, number in expelled:
            out_of_old |= (old.key == present[which]) & (old.of_key == number)
        candidate = old.only(out_of_old).then(fresh)
        held_before = int(np.count_nonzero(out_of_old))
        group = np.concatenate([old_group[out_of_old], group_of[fresh.key]])
        arrived = np.concatenate([np.full(held_before, -1), np.arange(len(order))])
        is_late = np.concatenate([np.zeros(held_before, bool), late])
        position = release_positions(
            candidate.event_time, group, arrived, is_late, starts, punctuation
        )
        for which, at, number in expelled:
            row = np.flatnonzero((group == which) & (candidate.of_key == number))
            position[row], is_late[row] = at, True
        sequence = np.argsort(candidate.event_time, kind="stable")
        out = in_order_of_release(position, sequence, len(order))
        force = punctuation[position[out]]
        on_arrival = np.flatnonzero(out >= held_before)
        on_arrival = on_arrival[late[out[on_arrival] - held_before]]
        force[on_arrival] = self._before(starts, before, punctuation, position[out[on_arrival]])
        table = self._take(candidate.number[out], order, rows, self._next - len(order))
        staying = np.sort(order[position[held_before:] < 0])
        inverse = np.empty_like(order)
        inverse[order] = np.arange(len(order))
        self._rows.append(self._next - len(order) + staying, _take(rows, staying))
        self._waiting = old.only(~out_of_old).then(fresh.only(inverse[staying]))
        self._rows.forget(self._waiting.number)
        return Released(table, is_late[out], force, candidate.key[out], candidate.event_time[out])

    @staticmethod
    def _before(
        starts: np.ndarray, before: np.ndarray, punctuation: np.ndarray, position: np.ndarray
    ) -> np.ndarray:
        """The punctuations in force when the rows at `position` arrived."""
        group = np.searchsorted(starts, position, "right") - 1
        first = position == starts[group]
        return np.where(first, before[group], punctuation[np.maximum(position - 1, 0)])

    def _take(self, numbers: np.ndarray, order: np.ndarray, rows: pa.Table, first: int) -> pa.Table:
        """The rows numbered `numbers`: those below `first` were held, the others are in `rows`."""
        new = np.flatnonzero(numbers >= first)
        if len(new) == len(numbers):
            return _take(rows, numbers - first)
        parts = [*self._rows.take(numbers), (new, _take(rows, numbers[new] - first))]
        places = np.argsort(np.concatenate([place for place, _ in parts]))
        return _take(pa.concat_tables([table for _, table in parts]), places)

    def _checked(
        self, keys: np.ndarray, event_time: np.ndarray, arrival: np.ndarray, rows: pa.Table
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
        if rows.num_rows != len(keys):
            raise ValueError(f"`rows` must have {len(keys)} rows, as `keys`; got {rows.num_rows}")
        if self._schema is None:
            self._schema = rows.schema
        elif not rows.schema.equals(self._schema):
            raise ValueError(
                f"`rows` must keep its schema; got {rows.schema} after {self._schema}: "
                "start a new operator, or cast the columns"
            )
        return keys.astype(np.int64, copy=False), within_range(event_time), within_range(arrival)

    def _add_controllers(self, wanted: int) -> None:
        while len(self._controllers) < wanted:
            self._controllers.append(KeyController(self.control))

    def idle(self, keys: np.ndarray | None = None) -> Released:
        """Release what idle keys hold, but for rows set aside, and move their punctuation there.

        keys : codes of the idle keys; None: all.  Rows come out grouped by key, by event time.
        A row of these keys that comes later, with an event time not above those released, is late.
        A key with fewer than 16 rows has no guard yet: all its rows are released.
        """
        horizon = np.array([c.horizon for c in self._controllers], np.int64)
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
        punctuation = np.empty(len(out.number), np.int64)
        for key in np.unique(out.key).tolist():
            self._controllers[key].advance(int(last[key]))
            last[key] = self._controllers[key].punctuation
        punctuation[:] = last[out.key]
        empty = (self._schema or pa.schema([])).empty_table()
        table = self._take(out.number, np.empty(0, np.int64), empty, self._next)
        self._waiting = self._waiting.only(~leaving)
        self._rows.forget(self._waiting.number)
        return Released(
            table, np.zeros(len(out.number), bool), punctuation, out.key, out.event_time
        )

    @property
    def held(self) -> np.ndarray:
        """int64[keys]: the rows held of each key."""
        return np.bincount(self._waiting.key, minlength=len(self._controllers))

    def punctuations(self) -> np.ndarray:
        """int64[keys] microseconds: the punctuation in force of each key."""
        return np.array([c.punctuation for c in self._controllers], np.int64)

    @property
    def counters(self) -> dict[str, int]:
        """Totals over the keys: rows, late (expelled ones included), on_time (came out), held,
        future, forced, expelled, out_of_order as in `Punctuator.counters`.
        rows = on_time + late + held."""
        counts = {
            name: sum(int(c.ints[place]) for c in self._controllers)
            for name, place in COUNTERS.items()
        }
        counts["held"] = len(self._waiting.number)
        counts["late"] += counts["expelled"]
        counts["on_time"] = counts["rows"] - counts["late"] - counts["held"]
        return counts

    def snapshot(self) -> bytes:
        """Parameters, controllers and held rows as versioned bytes. Cost: one copy of them."""
        rows = self._rows.rows(self._waiting.number)
        waiting = {field.name: getattr(self._waiting, field.name) for field in fields(_Waiting)}
        arrays = {**pack_controllers(self._controllers), **waiting}
        values = {"control": self.control.values, "next": self._next}
        if rows is None and self._schema is not None:
            rows = self._schema.empty_table()
        tables = {} if rows is None else {"rows": rows}
        return pack(KIND, VERSION, Snapshot(values, arrays, tables))

    @classmethod
    def restore(cls, data: bytes) -> Reorder:
        """The operator that `snapshot` saved. Raises SnapshotError for other bytes."""
        saved = unpack(data, KIND, VERSION)
        arrays = dict(saved.arrays)
        reorder = cls(**saved.values["control"])
        reorder._next = saved.values["next"]
        reorder._waiting = _Waiting(*(arrays[field.name] for field in fields(_Waiting)))
        reorder._controllers = list(unpack_controllers(reorder.control, arrays))
        if "rows" in saved.tables:
            reorder._schema = saved.tables["rows"].schema
            reorder._rows.append(reorder._waiting.number, saved.tables["rows"])
        return reorder


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


def _take(table: pa.Table, places: np.ndarray) -> pa.Table:
    n = len(places)
    if n == table.num_rows and np.array_equal(places, np.arange(n)):
        return table
    return table.take(pa.array(places))
