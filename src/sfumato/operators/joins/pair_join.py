"""The shared base of joins over uncertain and incomplete streams: windows, answers, time."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from sfumato.kernels.distributions.tuples import existences, reaches_all
from sfumato.kernels.joins.grid import empty_windows
from sfumato.kernels.joins.match_probability import Criterion
from sfumato.kernels.joins.matching_pairs import matching_pairs
from sfumato.kernels.joins.regions import summarise, summary_columns
from sfumato.kernels.joins.store_windows import (
    empty_store,
    enlarge_store,
    index_windows,
    list_evicted,
    make_room,
    write_batch,
)
from sfumato.kernels.joins.tuple_store import MAX_SPAN, Batch, held_slots, padded
from sfumato.kernels.windows.count.count_boundary import inside_probabilities
from sfumato.limits import MAX_ALTERNATIVES
from sfumato.operators.arguments import check_times
from sfumato.operators.arrays import (
    Bools,
    Floats,
    Ints,
    Records,
    by_code,
    grouped,
    pad,
    running_maximum,
)
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.joins.answers import JoinAnswers, SampledTuples, changed_answers
from sfumato.operators.joins.arrivals import ArrivalBatch
from sfumato.operators.state.declared import Array, Record, Sizes, Value
from sfumato.operators.state.stateful import Operator
from sfumato.operators.windows.delta_window_aggregate import DeltaWindowAggregate
from sfumato.operators.windows.uncertain_window import UncertainWindow
from sfumato.windows import JoinWindow

NO_CLOCK = np.iinfo(np.int64).min
SPARE_KEYS = 1 << 20  # codes of held keys are below the number of tuples so far plus this number


class PairJoin(Operator):
    """Base class of joins of tuples from different streams; subclasses define the match.

    The time of a key's windows is the newest time of its tuples; a tuple with an older time is
    treated as if it had the newest time. The contents of windows do not depend on matches, so they
    are known for a whole batch in advance.  Source: Dallachiesa et al. (2015), Algorithm 2.

    A count window in which all tuples have existence 1 contains the newest `rows` tuples. Other
    count windows have an `UncertainWindow`, built from the held tuples when first needed. Neither
    this window nor attribute-delta windows are saved, because they depend only on held tuples.
    """

    most_pairs = MAX_ALTERNATIVES  # sample pairs per answer, see `matching_pairs`
    state = {
        "current": Record(JoinAnswers),
        "tuple_counts": Array(int, "streams", low=0),
        "pair_counts": Array(int, "counts", low=0),
        "answer_count": Value(low=0),
        "overflow": Value(low=0),
        "clock": Array(int, None),
    }

    def _set_up(
        self,
        criterion: Criterion,
        counts: tuple[str, ...],
        *,
        columns: int | None = None,
        rows: int = 0,
        indexed: bool = False,
        task: int = 0,
        tasks: int = 1,
    ) -> None:
        """Create the state of a join without tuples.

        counts : names of the counters of pairs    indexed : whether to maintain a grid
        columns, rows : sizes of the tuples' summaries (None: summaries of regions) and boxes
        """
        windows: Sequence[JoinWindow] = self.config.windows
        self.output, self.alternatives = self.config.output, self.config.alternatives
        self.criterion, self.windows, self.streams = criterion, windows, len(windows)
        self.rows = np.array([MAX_SPAN if w.rows is None else w.rows for w in windows])
        # Sizes of windows without uncertain existences.
        self._row_limits = np.minimum(self.rows, [w.max_tuples or MAX_SPAN for w in windows])
        spans = np.array([MAX_SPAN if w.span_us is None else w.span_us for w in windows])
        columns = summary_columns(criterion.d) if columns is None else columns
        within = criterion.within if indexed else -1.0
        self.store = empty_store(criterion.d, columns, rows, within, spans, task, tasks)
        self._uncertain: dict[int, UncertainWindow] = {}
        self._deltas = {  # attribute-delta windows of all keys, by stream
            stream: DeltaWindowAggregate(
                w.delta, w.on, [Aggregate("count", None)], threshold=w.threshold,
                max_tuples=w.max_tuples, attributes=criterion.d,
            )
            for stream, w in enumerate(windows)
            if w.delta is not None
        }  # fmt: skip
        if self._deltas and tasks > 1:  # a task does not save the samples of all tuples
            raise ValueError(f"`tasks` must be 1 for windows of sf.Delta; got {tasks}")
        # All tuples of one time enter their windows before they are compared.
        self.lockstep = any(w.lockstep for w in windows)
        self.timed = self.lockstep or bool((spans < MAX_SPAN).any())
        self.clock = np.empty(0, np.int64)  # newest time by key, for time windows
        self.current = JoinAnswers.empty()  # answers whose tuples are both in their windows
        self.tuple_counts = np.zeros(self.streams, np.int64)  # tuples per stream so far
        self.counts, self.pair_counts = counts, np.zeros(len(counts), np.int64)
        self.answer_count = self.overflow = 0  # answers; tuples evicted only by `max_tuples`

    @abstractmethod
    def _match(self, batch: Batch) -> Records:
        """Find the pairs of a batch, MATCHED_PAIR[], and advance the windows, in a kernel."""

    def _describe(self, slots: Ints) -> None:
        if self.store.tuples.summary.shape[1] > 0:
            summarise(self.store.tuples, slots, self.criterion.d, self.criterion.least)

    def live_numbers(self, side: int) -> Ints:
        """Return the numbers of a side's tuples that are held here or in current answers."""
        slots, code = held_slots(self.store.windows)
        held: Ints = self.store.tuples.number[slots[code % self.streams == side]]
        held = held[self._local_rows(held)]
        if self.output == "append":
            return held
        named = [self.current.left, self.current.right]
        return np.union1d(held, named[side] if self.streams == 2 else np.concatenate(named))

    def max_live_count(self, side: int) -> int:
        """Return an approximate upper bound on the size of `live_numbers`, without a full pass."""
        answers = 0 if self.output == "append" else len(self.current)
        held, tasks = int(self.store.held[side]), int(self.store.tasks)
        return (held if tasks == 1 else 2 * held // tasks) + answers

    def largest_window(self, keys: Ints) -> int:
        """Return the size of the largest window of these keys."""
        windows, codes = self.store.windows, self._codes(keys)
        return int((windows.tail[codes] - windows.head[codes]).max(initial=0))

    def forget(self, keys: Ints) -> None:
        """Delete all state of keys that have no current answers; their codes may be reused."""
        codes = self._codes(np.unique(keys))
        for w in codes.tolist() if self._uncertain else ():
            self._uncertain.pop(w, None)
        empty_windows(self.store, codes)
        for windows in self._deltas.values():
            windows.forget(keys)
        self.clock[keys[keys < self.clock.size]] = NO_CLOCK

    @property
    def counters(self) -> dict[str, int]:
        """Counters since the start; subclasses add further counters."""
        return {
            "held": int(self.store.held.sum()),
            "answers": self.answer_count,
            **dict(zip(self.counts, self.pair_counts.tolist(), strict=True)),
        }

    def lengths(self) -> Sizes:
        return {**super().lengths(), "streams": self.streams, "counts": self.pair_counts.size}

    def _codes(self, keys: Ints) -> Ints:
        """Return the codes of the keys' existing windows."""
        codes: Ints = (self.streams * keys[:, None] + np.arange(self.streams)).reshape(-1)
        return codes[codes < self.store.windows.head.size]

    def _local_rows(self, numbers: Ints) -> Bools:
        """Return bool[n]: whether this task owns the tuples."""
        return numbers % self.store.tasks == self.store.task

    def _in_parts(
        self, arrivals: Any, step: int, join: Callable[[Any], JoinAnswers]
    ) -> JoinAnswers:
        """Join arrivals in parts of about `step` arrivals."""
        parts = []
        for begin, part in self._parts(arrivals, step):
            found = join(part)
            parts.append(replace(found, arrival=found.arrival + begin) if begin else found)
        return JoinAnswers.concat(parts)

    def _parts(self, arrivals: Any, step: int) -> Iterator[tuple[int, Any]]:
        """Yield parts of about `step` arrivals; in lockstep, no part separates equal times."""
        arrivals = arrivals.for_kernels()
        if arrivals.time is not None:
            check_times("time", arrivals.time)
        n, cuts = arrivals.side.size, np.arange(0, arrivals.side.size, step)
        if n <= 2 * step:
            yield 0, arrivals
            return
        if self.lockstep:
            starts = np.flatnonzero(np.diff(arrivals.time)) + 1
            after = np.searchsorted(starts, cuts[1:])
            cuts = np.unique(np.append(0, starts[after[after < starts.size]]))
        for begin, end in pairwise([*cuts.tolist(), n]):
            yield begin, arrivals.part(begin, end)

    def _join(self, arrivals: ArrivalBatch) -> JoinAnswers:
        batch, places = self._arrive(arrivals)
        heads = self.store.windows.head.copy() if self.output == "changes" else None
        answers = self._answers(batch, self._match(batch))
        self.answer_count += len(answers)
        if heads is not None:
            answers = self._changes(batch, heads, answers)
        if self.store.tasks > 1:  # drop samples of tuples of other tasks
            self.store.tuples.samples[batch.slots[~self._local_rows(batch.number)]] = 0
        if places.size < arrivals.side.size:
            answers = replace(answers, arrival=places[answers.arrival])
        return answers

    def _arrive(self, arrivals: ArrivalBatch) -> tuple[Batch, Ints]:
        """Write the arrivals with samples to slots; return these arrivals and their places."""
        side = arrivals.side.astype(np.int64)
        radius = self._radii(side.size, arrivals.radius)
        time, number = self._times(arrivals.key, arrivals.time), self._numbers(side)
        code, places = self.streams * arrivals.key + side, np.flatnonzero(np.diff(arrivals.offsets))
        if places.size < side.size:
            code, number, time = code[places], number[places], time[places]
            arrivals, radius = arrivals.take(places), radius[places]
        batch = self._batch(code, number, time, arrivals, radius)
        self._admit(batch, arrivals.raw)
        self._describe(batch.slots)
        return batch, places

    def _numbers(self, side: Ints) -> Ints:
        """Return the numbers of arrivals: i for the i-th of a stream, over all keys, from 0."""
        numbers = np.empty(side.size, np.int64)
        for stream in range(self.streams):
            own = np.flatnonzero(side == stream)
            numbers[own] = self.tuple_counts[stream] + np.arange(own.size)
        self.tuple_counts = self.tuple_counts + np.bincount(side, minlength=self.streams)
        return numbers

    def _load(self, batch: Batch, raw: Floats | None = None) -> None:
        """Restore saved tuples to their windows. Raises ValueError for impossible tuples."""
        same = np.diff(batch.code) == 0
        if (np.diff(batch.code) < 0).any():
            raise ValueError("held tuples must be sorted by window")
        if (np.diff(batch.number)[same] <= 0).any() or (np.diff(batch.time)[same] < 0).any():
            raise ValueError("the numbers and times of a window's tuples must ascend")
        if not self.timed and np.any(batch.time):
            raise ValueError("tuples must not have times if there are no time windows")
        most = self.streams * (int(self.tuple_counts.sum()) + SPARE_KEYS)
        if batch.code.max(initial=-1) >= most:  # all smaller codes also use memory
            raise ValueError("keys must be 0, 1, 2, ...; a key is far above the number of tuples")
        self._admit(batch, raw)
        self.store.windows.tail[:] += np.bincount(
            batch.code, minlength=self.store.windows.tail.size
        )
        self.store.held[:] = np.bincount(batch.code % self.streams, minlength=self.streams)
        self._describe(batch.slots[self._local_rows(batch.number)])
        index_windows(self.store)

    def _radii(self, n: int, radius: Floats | None) -> Floats:
        """Return the radii of n tuples. Raises ValueError if they are impossible, missing or not
        expected."""
        if self.criterion.radii != (radius is not None):
            raise ValueError("tuples must have a `radius` if and only if `within` is None")
        if radius is None:
            return np.zeros(n)
        if not ((radius >= 0.0) & (radius < np.inf)).all():
            raise ValueError("`radius` must be finite and at least 0")
        return radius

    def _batch(self, code: Ints, number: Ints, time: Ints, samples: Any, radius: Floats) -> Batch:
        """Return tuples as a batch. samples : object with the fields of `SampledTuples`"""
        offsets, prob, points = samples.offsets, samples.prob, samples.points
        slots, begins = np.empty((2, code.size), np.int64)
        existence = existences(offsets, prob)
        return Batch(code, number, time, existence, radius, offsets, prob, points, slots, begins)

    def _admit(self, batch: Batch, raw: Floats | None) -> None:
        """Append arrivals to their windows, and compute the window's start after each arrival. The
        windows do not move yet, because the join moves them arrival by arrival."""
        lengths = padded.py_func(np.diff(batch.offsets))
        places = (self.criterion.d + 1) * int(lengths.sum())
        known = batch.code.max(initial=-1) < self.store.windows.head.size
        if not (known and make_room(self.store, batch.code, places)):
            self.store = enlarge_store(self.store, batch.code, places)
        write_batch(self.store, batch, self._row_limits)
        if raw is not None:
            self.store.tuples.box[-raw.shape[1] :, batch.slots] = raw.T
        self._start_count_windows(batch)
        self._start_delta_windows(batch)
        for stream, window in enumerate(self.windows):
            if window.rows is None and window.delta is None and window.max_tuples is not None:
                of = np.flatnonzero(batch.code % self.streams == stream)
                out = batch.slots[of] - window.max_tuples
                self.overflow += self._count_held(batch, of, out)

    def _start_count_windows(self, batch: Batch) -> None:
        """Compute the starts of count windows with uncertain existences."""
        doubtful, bounded = batch.existence < 1.0, self._row_limits < self.rows
        if not (self._uncertain or bounded.any() or doubtful.any()):
            return  # most batches
        for w, places in by_code(batch.code):
            stream = w % self.streams
            if self.windows[stream].rows is None:
                continue
            if not (w in self._uncertain or bounded[stream] or doubtful[places].any()):
                continue
            window = self._window(w)
            shift = batch.slots[places[0]] - window.arrived
            crowded = window.max_tuples is not None and (
                window.held + places.size > window.max_tuples
            )
            # Extend one by one if time also evicts tuples, because such evictions are not overflow.
            timed = crowded and self.windows[stream].span is not None
            for some in places[:, None] if timed else [places]:
                before = window.overflow
                batch.begins[some] = window.extend(batch.existence[some]) + shift
                overflow = window.overflow - before
                if timed and overflow:
                    overflow = self._count_held(batch, some, batch.begins[some] - 1)
                self.overflow += overflow

    def _start_delta_windows(self, batch: Batch) -> None:
        samples = SampledTuples(batch.offsets, batch.prob, batch.points)
        for stream, windows in self._deltas.items():
            of = np.flatnonzero(batch.code % self.streams == stream)
            given, before = samples.take(of), windows.overflow
            keys = batch.code[of] // self.streams
            held = windows.process(keys, given.offsets, given.prob, given.points).held
            batch.begins[of] = batch.slots[of] + 1 - held
            self.overflow += windows.overflow - before

    def _count_held(self, batch: Batch, places: Ints, slots: Ints) -> int:
        """Count slots whose tuples are still held when arrivals enter the same windows."""
        code = batch.code[places]
        oldest = batch.time[places] - self.store.span[code % self.streams]
        in_time = self.store.tuples.time[np.maximum(slots, 0)] > oldest
        return int(np.count_nonzero(in_time & (slots >= self.store.windows.head[code])))

    def _window(self, w: int) -> UncertainWindow:
        window = self._uncertain.get(w)
        if window is None:
            of = self.windows[w % self.streams]
            assert of.rows is not None
            window = self._uncertain[w] = UncertainWindow(
                of.rows, of.confidence, self.criterion.probability, max_tuples=of.max_tuples
            )
            windows = self.store.windows
            window.extend(self.store.tuples.existence[windows.head[w] : windows.tail[w]])
        return window

    def _times(self, key: Ints, time: Ints | None) -> Ints:
        """Return the times of arrivals, raised so that they never decrease within a key."""
        if not self.timed:
            return np.zeros(key.size, np.int64)
        if time is None:
            raise ValueError("time windows need `time`")
        if not key.size:
            return time
        self.clock = pad(self.clock, int(key.max()) + 1, NO_CLOCK)
        order, starts, keys = grouped(key)
        in_order = np.all(time[1:] >= time[:-1])
        if in_order and np.all(time[order[starts[:-1]]] >= self.clock[keys]):
            result = time.copy()
        else:
            result = np.maximum(running_maximum(time, key), self.clock[key])
        self.clock[keys] = result[order[starts[1:] - 1]]
        return result

    def _changes(self, batch: Batch, heads: Ints, answers: JoinAnswers) -> JoinAnswers:
        """Return the found and the removed answers. heads : starts of windows before the batch"""
        arrival, stream, number = list_evicted(self.store, heads, batch)
        if self.streams == 1:  # a tuple may be on either side
            arrival, number = np.tile(arrival, 2), np.tile(number, 2)
            stream = np.repeat([0, 1], stream.size)
        if len(answers) or arrival.size:
            gone = arrival, stream, number
            self.current, answers = changed_answers(self.current, answers, gone)
        return answers

    def _inside(self, held: Ints, newest: Ints, window: Ints) -> Floats:
        """Return the probability that fewer than `rows` of the tuples after slots `held` exist.
        newest : slots after the newest tuples of their windows"""
        inside, rows = np.ones(held.size), self.rows[window % self.streams]
        crowded = newest - held > rows
        for limit in np.unique(rows[crowded]):
            of = np.flatnonzero(crowded & (rows == limit))
            first, last = held[of] + 1, newest[of].copy()
            inside[of] = inside_probabilities(self.store.tuples.existence, first, last, int(limit))
        return inside

    def _in_lockstep(self, batch: Batch, found: Records) -> tuple[Records, Floats]:
        """Return the pairs whose tuples are both held once all tuples of the arrival's time have
        arrived, and the probability that both are then inside."""
        arrival = found["arrival"]
        own, slots, time = batch.code[arrival], batch.slots[arrival], batch.time[arrival]
        _, rank = np.unique(np.append(batch.time, time), return_inverse=True)
        many, n = rank.max(initial=-1) + 1, batch.code.size
        of_time = batch.code * many + rank[:n]  # ascends with the slots of a window
        order = np.argsort(of_time, kind="stable")
        keep, inside = np.ones(found.size, bool), np.ones(found.size)
        for window, held, before in (
            (found["window"], found["held"], found["newest"]),
            (own, slots, slots + 1),
        ):
            wanted = window * many + rank[n:]
            last = order[np.searchsorted(of_time[order], wanted, "right") - 1]
            moved = of_time[last] == wanted  # otherwise, the window has no tuple of this time
            newest = np.where(moved, batch.slots[last] + 1, before)
            keep &= ~moved | (held >= batch.begins[last])
            inside *= self._inside(held, newest, window)
        return found[keep], inside[keep]

    def _answers(self, batch: Batch, found: Records) -> JoinAnswers:
        """Return the found pairs that are still probable enough after multiplication by T_j."""
        tuples, streams = self.store.tuples, self.streams
        if self.lockstep:
            found, inside = self._in_lockstep(batch, found)
        else:
            inside = self._inside(found["held"], found["newest"], found["window"])
        if (inside < 1.0).any():
            probable = reaches_all(inside * found["total"], self.criterion.probability)
            keep = (inside == 1.0) | probable
            found, inside = found[keep], inside[keep]
        arrival, held, total = (found[name].copy() for name in ("arrival", "held", "total"))
        arriving = batch.slots[arrival]
        on_right = (batch.code[arrival] % streams > found["window"] % streams).astype(np.int64)
        one, other = tuples.number[arriving], tuples.number[held]
        if self.alternatives:
            offsets, pairs = matching_pairs(
                tuples, arriving, held, -on_right, total, inside, self.criterion, self.most_pairs
            )
        else:
            none = JoinAnswers.empty()
            pairs = none.prob, none.left_sample, none.right_sample
            offsets = np.zeros(found.size + 1, np.int64)
        return JoinAnswers(
            arrival,
            np.ones(arrival.size, np.int8),
            np.where(on_right, other, one),
            np.where(on_right, one, other),
            inside * total,
            offsets,
            *pairs,
        )
