"""The tuples that a join holds, and room for more; windows of one stream and key each."""

from collections.abc import Sequence

import numpy as np

from sfumato.kernels.joins import tuple_store
from sfumato.kernels.joins.similarity_nested import empty_windows
from sfumato.kernels.joins.tuple_store import Batch, Store, StoredTuples, StoreWindows
from sfumato.operators.arrays import Bools, Floats, Ints, Records, by_code
from sfumato.operators.joins.arrivals import ALONE, Task
from sfumato.operators.windows.uncertain_window import UncertainWindow
from sfumato.windows import JoinWindow


class StoreIndex:
    """The index that a strategy keeps in addition to the store; here none."""

    columns = 0  # of the tuples' summaries

    def rebuild(self, store: Store) -> None:
        """Build the index from the store."""

    def windows_added(self, store: Store) -> None:
        """There are more windows, empty ones."""
        self.rebuild(store)

    def renumbered(self, store: Store, before: Ints, after: Ints) -> None:
        """The tuples of the slots `before` are now in the slots `after`."""
        self.rebuild(store)

    def move(self, store: Store, moves: Records) -> None:
        """Move windows, as `move_windows`, and the index with them."""
        tuple_store.move_windows(store, moves)

    def blocks_moved(self, store: Store) -> None:
        """The blocks of samples have moved."""

    def empty(self, store: Store, windows: Ints) -> None:
        """Forget all that some windows hold."""
        empty_windows(store, windows)


class JoinStore:
    """A `Store` (see `kernels.joins.tuple_store`) and its growth.

    What a window holds depends on existences and times alone, so that it is known for a whole batch
    before any tuple is matched. Source: A, Algorithm 2.

    A window by count whose tuples have all had existence 1 is the plain one of the newest `rows`.
    Others have an `UncertainWindow`, made from the held tuples when it is first needed; it is no
    state of its own, as its decisions depend on nothing but these.
    """

    def __init__(
        self,
        dimensions: int,
        windows: Sequence[JoinWindow],
        probability: float,
        index: StoreIndex,
        task: Task = ALONE,
    ) -> None:
        self.dimensions, self.by_stream, self.probability = dimensions, windows, probability
        self.index = index
        self.overflow = 0
        spans = [tuple_store.FOREVER if w.span_us is None else w.span_us for w in windows]
        self.rows = np.array([tuple_store.FOREVER if w.rows is None else w.rows for w in windows])
        most = np.array([w.max_tuples or tuple_store.FOREVER for w in windows])
        self._newest = np.minimum(self.rows, most)  # tuples that a plain window holds
        self.store = Store(
            tuples=self._lines(0, np.empty(0)),
            windows=StoreWindows(*(np.zeros(0, np.int64) for _ in StoreWindows._fields)),
            span=np.array(spans),
            held=np.zeros(len(windows), np.int64),
            ends=np.zeros(1, tuple_store.ENDS),
            task=np.int64(task.number),
            tasks=np.int64(task.tasks),
            rounding=np.zeros(0),
        )
        self._uncertain: dict[int, UncertainWindow] = {}

    def admit(self, batch: Batch) -> None:
        """Write arrivals behind their windows and find where each window begins after each.

        The windows do not move yet: that is for the join, which sees them arrival by arrival.
        """
        self.reserve(batch.code)
        lengths = tuple_store.padded.py_func(np.diff(batch.offsets))
        self._reserve_blocks((self.dimensions + 1) * int(lengths.sum()))
        tuple_store.write_batch(self.store, batch, self._newest)
        self._uncertain_begins(batch)
        self._count_crowded_out(batch)

    def owned(self, numbers: Ints) -> Bools:
        """Return whether this task compares arrivals with these tuples (bool[n])."""
        result: Bools = numbers % self.store.tasks == self.store.task
        return result

    def drop_foreign(self, batch: Batch) -> None:
        """Forget the samples of arrivals that other tasks own."""
        if self.store.tasks > 1:
            self.store.tuples.samples[batch.slots[~self.owned(batch.number)]] = 0

    def load(self, batch: Batch) -> None:
        """Put tuples into their windows, in order: as they were saved."""
        self.admit(batch)
        windows, streams = self.store.windows, self.rows.size
        windows.tail[:] += np.bincount(batch.code, minlength=windows.tail.size)
        self.store.held[:] = np.bincount(batch.code % streams, minlength=streams)
        # The windows' own laws: not plain windows, even if all that arrives next is certain.
        for w in self._special(batch):
            self._uncertain.pop(w, None)
            self._window(w)

    def forget(self, keys: Ints) -> None:
        """Drop all state of these keys."""
        streams, windows = self.rows.size, self.store.windows.head.size
        of = (streams * np.unique(keys)[:, np.newaxis] + np.arange(streams)).reshape(-1)
        of = of[of < windows]
        for w in of.tolist() if self._uncertain else ():
            self._uncertain.pop(w, None)
        self.index.empty(self.store, of)

    def numbers(self, stream: int) -> Ints:
        """Numbers of the tuples held of a stream, of those that are owned."""
        slots, code = tuple_store.held_slots(self.store.windows)
        numbers: Ints = self.store.tuples.number[slots[code % self.rows.size == stream]]
        return numbers[self.owned(numbers)]

    def reserve(self, code: Ints) -> None:
        """Room in slots for arrivals in these windows."""
        streams = self.rows.size
        known, needed = self.store.windows.head.size, (int(code.max(initial=-1)) // streams + 1)
        if needed * streams > known:
            more = np.zeros(max(needed * streams, 2 * known) - known, np.int64)
            larger = StoreWindows(*(np.concatenate([old, more]) for old in self.store.windows))
            rounding = np.concatenate([self.store.rounding, np.zeros(more.size)])
            self.store = self.store._replace(windows=larger, rounding=rounding)
            self.index.windows_added(self.store)
        moves = np.empty(code.size, tuple_store.MOVE)
        count, end = tuple_store.plan_moves(self.store, code, moves)
        if end <= self.store.tuples.at.size:
            if count:
                self.index.move(self.store, moves[:count])
                self.store.ends["slots"] = end
            return
        blocks, (before, _) = self.store.tuples.blocks, tuple_store.held_slots(self.store.windows)
        tuples = self._lines(
            2 * tuple_store.repack(self.store, code, self._lines(0, blocks)), blocks
        )
        self.store.ends["slots"] = tuple_store.repack(self.store, code, tuples)
        self.store = self.store._replace(tuples=tuples)
        self.index.renumbered(self.store, before, tuple_store.held_slots(self.store.windows)[0])

    def _reserve_blocks(self, needed: int) -> None:
        if int(self.store.ends["places"][0]) + needed <= self.store.tuples.blocks.size:
            return
        of = self.store, self.store.windows.head, self.dimensions
        blocks = np.empty(2 * (tuple_store.compact_blocks(*of, np.empty(0)) + needed))
        self.store.ends["places"] = tuple_store.compact_blocks(*of, blocks)
        self.store = self.store._replace(tuples=self.store.tuples._replace(blocks=blocks))
        self.index.blocks_moved(self.store)

    def _uncertain_begins(self, batch: Batch) -> None:
        """Where windows begin that are not plain ones."""
        special = self._special(batch)
        if not special:
            return  # most batches
        for w, places in by_code(batch.code):
            if w not in special:
                continue
            window = self._window(w)
            shift = batch.slots[places[0]] - window.arrived
            crowded = window.max_tuples is not None and (
                window.held + places.size > window.max_tuples
            )
            if crowded and self.by_stream[w % self.rows.size].span is not None:
                for place in places:  # one by one, as what time excluded already is no overflow
                    before = window.overflow
                    begin = window.extend(batch.existence[place : place + 1])[0] + shift
                    batch.begins[place] = begin
                    if window.overflow > before:
                        self.overflow += self._held_still(batch, np.array([place]), begin - 1)
                continue
            before = window.overflow
            batch.begins[places] = window.extend(batch.existence[places]) + shift
            self.overflow += window.overflow - before

    def _count_crowded_out(self, batch: Batch) -> None:
        """Count the tuples that a bound evicts from windows of any number of rows."""
        streams = self.rows.size
        for stream, window in enumerate(self.by_stream):
            if window.rows is None and window.max_tuples is not None:
                places = np.flatnonzero(batch.code % streams == stream)
                out = batch.slots[places] - window.max_tuples
                self.overflow += self._held_still(batch, places, out)

    def _held_still(self, batch: Batch, places: Ints, slots: Ints) -> int:
        """Count the slots, of the same windows, that time leaves in when arrivals come there."""
        code = batch.code[places]
        oldest = batch.time[places] - self.store.span[code % self.rows.size]
        in_time = self.store.tuples.time[np.maximum(slots, 0)] > oldest
        return int(np.count_nonzero(in_time & (slots >= self.store.windows.head[code])))

    def _special(self, batch: Batch) -> set[int]:
        """The windows with arrivals that are not plain ones."""
        uncertain = batch.existence < 1.0
        bounded = [
            stream
            for stream, window in enumerate(self.by_stream)
            if window.max_tuples is not None
            and window.rows is not None
            and window.max_tuples < window.rows
        ]
        if not self._uncertain and not bounded and not uncertain.any():
            return set()
        by_count = np.array([w.rows is not None for w in self.by_stream])
        streams = self.rows.size
        present = np.unique(batch.code)
        doubtful = np.unique(batch.code[uncertain & by_count[batch.code % streams]])
        special = np.isin(present, doubtful) | np.isin(present % streams, bounded)
        special |= np.fromiter((w in self._uncertain for w in present.tolist()), bool, present.size)
        return set(present[special].tolist())

    def _window(self, w: int) -> UncertainWindow:
        window = self._uncertain.get(w)
        if window is None:
            of = self.by_stream[w % self.rows.size]
            assert of.rows is not None
            window = self._uncertain[w] = UncertainWindow(
                of.rows, of.confidence, self.probability, max_tuples=of.max_tuples
            )
            windows = self.store.windows
            window.extend(self.store.tuples.existence[windows.head[w] : windows.tail[w]])
        return window

    def _lines(self, slots: int, blocks: Floats) -> StoredTuples:
        return StoredTuples(
            blocks=blocks,
            at=np.zeros(slots, np.int64),
            samples=np.zeros(slots, np.int64),
            existence=np.empty(slots),
            number=np.empty(slots, np.int64),
            time=np.empty(slots, np.int64),
            summary=np.empty((slots, self.index.columns)),
            rounding=np.empty(slots),
        )
