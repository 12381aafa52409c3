"""The part shared by joins of uncertain and of incomplete streams: windows, answers, time."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from sfumato.kernels.joins.match_probability import Criterion
from sfumato.kernels.joins.matching_pairs import Pairs, matching_pairs
from sfumato.kernels.joins.tuple_store import Batch, expired
from sfumato.kernels.laws.tuples import existences, reaches_all
from sfumato.kernels.windows.count.count_boundary import positions
from sfumato.limits import MAX_ALTERNATIVES
from sfumato.operators.arrays import Floats, Ints, Records, grouped, longer, running_maximum
from sfumato.operators.joins.answers import Answers, AnswerSet
from sfumato.operators.joins.arrivals import ALONE, Numbers, Task
from sfumato.operators.joins.join_store import JoinStore, StoreIndex
from sfumato.operators.state.declared import Array, Declaration, Offsets, Part, Value
from sfumato.operators.state.stateful import Operator
from sfumato.windows import JoinWindow

PAIR_CHUNK = (
    8192  # arrivals taken at once: more would leave the processor's cache between two steps
)
NO_CLOCK = np.iinfo(np.int64).min
SPARE_KEYS = 1 << 20  # codes of keys held are below the number of tuples given and these


# Tuples held, window after window, oldest first, and their samples.
HELD_STATE: dict[str, Declaration] = {
    "code": Array(int, "held", low=0),
    "number": Array(int, "held", low=0),
    "time": Array(int, "held"),
    "offsets": Offsets("held", "samples"),
    "prob": Array(float, "samples", low=0),
    "points": Array(float, "samples", "dimensions"),
}


class PairJoin(Operator):
    """Pairs of tuples of different streams; a kind of join says which (see its docstring).

    Windows of a key stand at the newest time of its tuples: one that comes with an older time
    counts as of that newest one.
    """

    _counts: Records
    most_pairs = MAX_ALTERNATIVES  # of samples that come with an answer, see `matching_pairs`
    state = {
        "answer_set": Part(),
        "given": Part(),
        "found": Value(low=0),
        "overflow": Value(low=0),
        "clock": Array(int, None),
    }

    def __init__(
        self,
        criterion: Criterion,
        windows: Sequence[JoinWindow],
        output: str,
        alternatives: bool,
        index: StoreIndex,
        task: Task = ALONE,
    ) -> None:
        self.output, self.alternatives = output, alternatives
        self.criterion, self.streams = criterion, len(windows)
        self.store = JoinStore(criterion.d, windows, criterion.probability, index, task)
        self.timed = any(window.span is not None for window in windows)
        self.clock = np.empty(0, np.int64)  # newest time, by key, where windows go by time
        self.answer_set = AnswerSet()
        self.given = Numbers(self.streams)
        self.found = 0

    @classmethod
    def of(cls, config: Any, **resources: Any) -> Self:
        given = {**vars(config), **resources}
        return cls(**{"window": given.pop("windows"), **given})

    def live(self, side: int) -> Ints:
        """Numbers of the tuples of a side that may still be named: held here, or in answers."""
        held = self.store.numbers(side)
        if self.output == "append":
            return held
        return np.union1d(held, self.answer_set.named(side, self.streams))

    def named_at_most(self, side: int) -> int:
        """About how many `live` would give at most, known without a pass over all of them."""
        answers = 0 if self.output == "append" else len(self.answer_set.current)
        held, tasks = int(self.store.store.held[side]), int(self.store.store.tasks)
        return (held if tasks == 1 else 2 * held // tasks) + answers

    def largest(self, keys: Ints) -> int:
        """The most tuples that a window of these keys, which have had tuples, holds."""
        windows = self.store.store.windows
        codes = (self.streams * keys[:, None] + np.arange(self.streams)).reshape(-1)
        codes = codes[codes < windows.head.size]
        return int((windows.tail[codes] - windows.head[codes]).max(initial=0))

    def forget(self, keys: Ints) -> None:
        """Drop all state of these keys; their codes may be given to others.

        Raises ValueError under output="changes", where the answers of a key stay current.
        """
        if self.output == "changes":
            raise ValueError('keys with current answers, output="changes", are not forgotten')
        self.store.forget(keys)
        self.clock[keys[keys < self.clock.size]] = NO_CLOCK

    def answers(self) -> Answers:
        """The current answers, by arrival. Raises ValueError unless `output` is "changes"."""
        return self.answer_set.asked(self.output)

    @property
    def overflow(self) -> int:
        """Tuples evicted only by `max_tuples`."""
        return self.store.overflow

    @overflow.setter
    def overflow(self, count: int) -> None:
        self.store.overflow = count

    @property
    def counters(self) -> dict[str, int]:
        """Counters since the start; a kind of join says what it counts."""
        return {
            "held": int(self.store.store.held.sum()),
            "answers": self.found,
            **{name: int(self._counts[name][0]) for name in self._counts.dtype.names or ()},
        }

    @property
    def counted(self) -> Ints:
        """Counters that kernels keep."""
        return self._counts.view(np.int64)

    @counted.setter
    def counted(self, counts: Ints) -> None:
        self._counts[:] = counts.view(self._counts.dtype)

    def _times(self, key: Ints, time: Ints | None) -> Ints:
        """Return the times of arrivals, made ascending in each key."""
        if not self.timed:
            return np.zeros(key.size, np.int64)
        if time is None:
            raise ValueError("`time` is needed for windows by time")
        if not key.size:
            return time
        self.clock = longer(self.clock, int(key.max()) + 1, NO_CLOCK)
        order, starts, keys = grouped(key)
        in_order = np.all(time[1:] >= time[:-1])
        if in_order and np.all(time[order[starts[:-1]]] >= self.clock[keys]):
            result = time.copy()
        else:
            result = np.maximum(running_maximum(time, key), self.clock[key])
        self.clock[keys] = result[order[starts[1:] - 1]]
        return result

    def _batch(
        self, code: Ints, number: Ints, time: Ints, samples: tuple[Ints, Floats, Floats]
    ) -> Batch:
        """Arrivals as kernels take them; without samples, those that are yet to be imputed."""
        offsets, prob, points = samples
        n = code.size
        existence = existences(offsets, prob) if prob.size else np.ones(n)
        empty = np.empty(n, np.int64), np.empty(n, np.int64)
        return Batch(code, number, time, existence, offsets, prob, points, *empty)

    def _changes(self, batch: Batch, heads: Ints | None, answers: Answers) -> Answers:
        """The answers, or with them those that leave."""
        self.found += len(answers)
        if heads is None:
            return answers
        arrival, stream, number = expired(self.store.store, heads, batch)
        if self.streams > 2:  # a number says which stream it is of, and may be on either side
            arrival, number = np.tile(arrival, 2), np.tile(number, 2)
            stream = np.repeat([0, 1], stream.size)
        if len(answers) or arrival.size:
            answers = self.answer_set.update(answers, (arrival, stream, number))
        return answers

    def _heads(self) -> Ints | None:
        """Where windows begin before a batch, if somebody wants to know what leaves."""
        return self.store.store.windows.head.copy() if self.output == "changes" else None

    def _answers(self, batch: Batch, found: Records) -> Answers:
        """The answers among found pairs: multiplied by T_j and still probable enough."""
        tuples, streams = self.store.store.tuples, self.streams
        inside, rows = np.ones(found.size), self.store.rows[found["window"] % streams]
        crowded = found["newest"] - found["held"] > rows
        if crowded.any():
            for limit in np.unique(rows[crowded]):
                of = np.flatnonzero(crowded & (rows == limit))
                first, last = found["held"][of] + 1, found["newest"][of].copy()
                inside[of] = positions(tuples.existence, first, last, int(limit))
            keep = ~crowded | reaches_all(inside * found["total"], self.criterion.probability)
            found, inside = found[keep], inside[keep]
        arrival, held = found["arrival"].copy(), found["held"].copy()
        arriving = batch.slots[arrival]
        on_right = (batch.code[arrival] % streams > found["window"] % streams).astype(np.int64)
        one, other = tuples.number[arriving], tuples.number[held]
        offsets, none = np.zeros(found.size + 1, np.int64), Answers.none()
        pairs = Pairs(none.prob, none.left_sample, none.right_sample)
        if self.alternatives:
            offsets, pairs = matching_pairs(
                tuples, arriving, held, -on_right, inside, self.criterion, self.most_pairs
            )
        return Answers(
            arrival=arrival,
            change=np.ones(arrival.size, np.int8),
            left=np.where(on_right, other, one),
            right=np.where(on_right, one, other),
            probability=inside * found["total"],
            offsets=offsets,
            prob=pairs.prob,
            left_sample=pairs.left,
            right_sample=pairs.right,
        )

    def _check_held(self, held: Any) -> None:
        """Raise ValueError for tuples that cannot have been held like this."""
        same = np.diff(held.code) == 0
        if (np.diff(held.code) < 0).any():
            raise ValueError("held tuples must come window after window")
        if (np.diff(held.number)[same] <= 0).any() or (np.diff(held.time)[same] < 0).any():
            raise ValueError("numbers and times of a window's tuples must ascend")
        if not self.timed and np.any(held.time):
            raise ValueError("tuples have times only where windows go by time")
        most = self.streams * (int(self.given.given.sum()) + SPARE_KEYS)
        if held.code.max(initial=-1) >= most:  # windows take memory for each code up to theirs
            raise ValueError("its keys are not 0, 1, 2, ...: one is far beyond the tuples given")
