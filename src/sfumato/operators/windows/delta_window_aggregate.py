"""Aggregates over attribute-delta windows of uncertain tuples, one window a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.kernels.laws.mergeable_moments import NODE, RISE, WEIGHT
from sfumato.kernels.windows import delta_window as kernel
from sfumato.kernels.windows.delta_window import Held, Stacks
from sfumato.operators.laws.aggregate import Aggregate, Floats, Ints, Measured
from sfumato.operators.laws.finite_laws import LawOptions
from sfumato.operators.laws.independent_law import (
    Members,
    Results,
    checked_aggregates,
    law_of,
)
from sfumato.operators.laws.moment_channels import Channels
from sfumato.operators.state.snapshot import Snapshot, pack, unpack
from sfumato.operators.state.tuple_batch import (
    INDEX,
    TupleBatch,
    checked_alternatives,
    codes,
    joined,
)
from sfumato.windows import Delta

KIND, VERSION = "delta_window_aggregate", 1
NO_LIMIT = 2**62


@dataclass(frozen=True)
class DeltaAnswers:
    """Results after each of n arrivals, in their order.

    held : int64[n], tuples in the group's window    results : per aggregate, as they were given
    """

    held: Ints
    results: list[Measured]


class DeltaWindowAggregate:
    """Aggregates over the newest tuples of a group, as long as none is too far from the oldest.

    delta : float >= 0    on : int, the attribute whose distance counts
    aggregates : what is measured, over all tuples held
    threshold : in (0, 1]    max_tuples : int >= 1 or None; evictions by it count as `overflow`
    quantiles, distribution, seed, samples : see `LawOptions`
    attributes : columns of `values` (None: as many as `on` and the aggregates need)

    An arrival enters its group's window; then the oldest tuple is evicted while
        Pr(broken) = sum over its alternatives k of Pr(k | it exists)
                     * (1 - product over the other tuples y of (1 - Pr(y exists, |y - k| > delta)))
    is at least `threshold`. So all tuples held that violate the invariant count, not only the
    newest, and what they have in common, the oldest one's value, is not averaged out. A missing
    value (NaN) is not far from anything. A tuple without alternatives does not enter; its answer is
    that of the window as it stands.

    Results do not depend on how arrivals are split into calls, nor on snapshot and restore.
    Guarantee: mean and standard deviation are exact (see `set_moments`, `extreme_law`), quantiles
    and distributions as `law_of` says; evictions but for rounding of Pr(broken).
    Cost: to find who violates, O(l**2) an arrival and O(held * l**2) an eviction for l
    alternatives; moments O(1) (some 100 nodes if an average is asked for and tuples may not exist);
    min and max O(held) moves of integers; laws, where asked for, anew for each arrival.
    Memory: the tuples held, and some 20 bytes an attribute and tuple (350 with an average over
    uncertain existence).
    Raises ValueError or TypeError for arguments out of range.  Source: A, section 8.1.

    >>> window = DeltaWindowAggregate(2.0, 0, [Aggregate("sum", 0)])
    >>> answers = window.process(np.zeros(3, int), np.arange(4), np.array([1.0, 0.5, 1.0]),
    ...                          np.array([[1.0], [4.0], [2.0]]))
    >>> answers.held.tolist(), answers.results[0].mean.tolist()
    ([1, 1, 2], [1.0, 2.0, 4.0])
    """

    def __init__(
        self,
        delta: float,
        on: int,
        aggregates: Sequence[Aggregate],
        *,
        threshold: float = 0.5,
        max_tuples: int | None = None,
        quantiles: Sequence[float] = (),
        distribution: int | None = None,
        seed: int = 0,
        samples: int = 1000,
        attributes: int | None = None,
    ) -> None:
        self.window = Delta(delta, f"attribute {on}", threshold, max_tuples)
        if isinstance(on, bool) or not isinstance(on, int) or on < 0:
            raise TypeError(f"`on` must be the number of an attribute, from 0; got {on!r}")
        self.on = on
        self.attributes = max(checked_aggregates(aggregates, attributes), on + 1)
        self.aggregates = list(aggregates)
        self.options = LawOptions(tuple(quantiles), distribution, seed, samples)
        self._channels = Channels(self.aggregates)
        self._groups: dict[int, _Group] = {}

    def process(
        self,
        group: npt.ArrayLike,
        offsets: npt.ArrayLike,
        prob: npt.ArrayLike,
        values: npt.ArrayLike,
    ) -> DeltaAnswers:
        """Take n arrivals in order; the answers after each.

        group : int64[n] >= 0, codes    offsets : int64[n + 1], prob : float64[m],
        values : float64[m, a], alternatives; NaN: no value
        Raises TypeError or ValueError, with nothing taken, for arrays that do not fit.
        """
        n = np.asarray(offsets).size - 1
        group = codes("group", group, n)
        if n and group.min() < 0:
            raise ValueError(f"`group` must hold codes 0, 1, 2, ...; got {group.min()}")
        offsets, prob, table = checked_alternatives(n, offsets, prob, values, self.attributes)
        batch = TupleBatch(np.zeros((4, n), np.int64), offsets, prob, table)
        held = np.empty(n, np.int64)
        moments = np.full((len(self.aggregates), 3, n), np.nan)
        results = [Results(a, self.options, moments[r]) for r, a in enumerate(self.aggregates)]
        lawful = [r for r, a in enumerate(self.aggregates) if self.options.law_wanted(a)]
        order = np.argsort(group, kind="stable")
        starts = np.flatnonzero(np.diff(group[order], prepend=-1))
        for places in np.split(order, starts[1:]) if n else []:
            window = self._window(int(group[places[0]]))
            (first, end), answers = window.extend(batch.take(places))
            held[places], moments[:, :, places] = end - first, answers
            if lawful:
                for place, low, high in zip(places, first, end, strict=True):
                    members = window.members(low, high)
                    for r in lawful:
                        results[r].put(place, law_of(self.aggregates[r], members, self.options))
        return DeltaAnswers(held, [result.measured(np.arange(n)) for result in results])

    @property
    def overflow(self) -> int:
        """Tuples evicted so far only because of `max_tuples`."""
        return sum(int(w.held.marks[kernel.OVERFLOW]) for w in self._groups.values())

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (a for w in self._groups.values() for a in (*w.held, *w.stacks))
        return sum(a.nbytes for a in arrays)

    def snapshot(self) -> bytes:
        """Parameters and held tuples as versioned bytes; partials are computed again."""
        window, options = self.window, self.options
        values = {
            "delta": window.delta, "on": self.on, "threshold": window.threshold,
            "max_tuples": window.max_tuples, "attributes": self.attributes,
            "quantiles": list(options.quantiles), "distribution": options.distribution,
            "seed": options.seed, "samples": options.samples,
            "aggregates": [[a.function, a.attribute, a.argument] for a in self.aggregates],
        }  # fmt: skip
        saved = [w.saved() for w in self._groups.values()]
        tuples = joined([TupleBatch.none(self.attributes), *(batch for batch, _ in saved)])
        counts = np.array([[batch.size, *counts] for batch, counts in saved], np.int64)
        codes_ = np.array(list(self._groups), np.int64)
        arrays = {**tuples.arrays(), "codes": codes_, "counts": counts.reshape(-1, 4)}
        return pack(KIND, VERSION, Snapshot(values, arrays))

    @classmethod
    def restore(cls, data: bytes) -> DeltaWindowAggregate:
        """The operator that `snapshot` saved. Raises SnapshotError for other bytes."""
        saved = unpack(data, KIND, VERSION)
        values = dict(saved.values)
        aggregates = [Aggregate(*parts) for parts in values.pop("aggregates")]
        operator = cls(values.pop("delta"), values.pop("on"), aggregates, **values)
        tuples, done = TupleBatch.of(saved.arrays), 0
        rows = zip(saved.arrays["codes"].tolist(), saved.arrays["counts"].tolist(), strict=True)
        for code, (size, *counts) in rows:
            operator._window(code).load(tuples.take(np.arange(done, done + size)), *counts)
            done += size
        return operator

    def _window(self, code: int) -> _Group:
        if code not in self._groups:
            self._groups[code] = _Group(self)
        return self._groups[code]


class _Group:
    """One group's window: arrays with room at the end, moved to the front when that is used up."""

    def __init__(self, operator: DeltaWindowAggregate) -> None:
        self._of, self._channels = operator, operator._channels
        self._noded = False
        self._arrived = 0
        self._index = np.empty(0, np.int64)
        self._survival = np.empty(4)
        channels, attributes = self._channels, operator.attributes
        extremes = len(channels.extremes)
        self.held = Held(
            np.array([0, 0, 0, -1, 0]), np.zeros(1, np.int64), np.empty(0),
            np.empty((attributes, 0)), np.empty(0, np.int64), np.empty((channels.count, 3, 0)),
            np.ones(0), np.empty((extremes, 0), np.int64), np.zeros(extremes, np.int64),
        )  # fmt: skip
        back, nodes = channels.room(1, True)
        kernel.clear_partial(back[0], nodes[0])
        block, block_nodes = channels.room(kernel.STRIDE, False)
        kept, kept_nodes = channels.room(1, False)
        self.stacks = Stacks(kept, kept_nodes, block, block_nodes, back[0], nodes[0])

    def extend(self, batch: TupleBatch) -> tuple[Ints, Floats]:
        """Take arrivals: (int64[2, n], where the window began and ended; float64[r, 3, n])."""
        of, channels = self._of, self._channels
        enters = np.diff(batch.offsets) > 0
        self._write(batch if enters.all() else batch.take(np.flatnonzero(enters)))
        bounds = np.empty((2, batch.size), np.int64)
        answers = np.full((len(of.aggregates), 3, batch.size), np.nan)
        signs = np.array([sign for sign, _ in channels.extremes])
        columns = np.array([attribute for _, attribute in channels.extremes], np.int64)
        most = NO_LIMIT if of.window.max_tuples is None else of.window.max_tuples
        kernel.slide_delta(
            self.held, self.stacks, enters, of.on, float(of.window.delta),
            float(of.window.threshold), most, channels.averages, channels.what, channels.channel,
            np.array(channels.extreme, np.int64), signs, columns, NODE, WEIGHT, RISE,
            self._survival, bounds, answers,
        )  # fmt: skip
        return bounds, answers

    def members(self, low: int, high: int) -> Members:
        """The tuples at places [low, high)."""
        begin, end = self.held.offsets[low], self.held.offsets[high]
        return Members(
            self.held.offsets[low : high + 1] - begin,
            self.held.prob[begin:end],
            self.held.values[:, begin:end],
            self._index[low:high],
        )

    def saved(self) -> tuple[TupleBatch, list[int]]:
        """The tuples held, and how many are in front, have overflowed and have arrived."""
        marks = self.held.marks
        part = self.members(marks[kernel.HEAD], marks[kernel.TAIL])
        rows = np.zeros((4, part.index.size), np.int64)
        rows[INDEX] = part.index
        front = int(marks[kernel.MIDDLE] - marks[kernel.HEAD])
        batch = TupleBatch(rows, part.offsets, part.prob, part.values)
        return batch, [front, int(marks[kernel.OVERFLOW]), self._arrived]

    def load(self, batch: TupleBatch, front: int, overflow: int, arrived: int) -> None:
        """Make a new window hold what `saved` gave."""
        self._write(batch)
        self._index[: batch.size], self._arrived = batch.marks[INDEX], arrived
        marks, averages = self.held.marks, self._channels.averages
        marks[kernel.MIDDLE], marks[kernel.OVERFLOW] = front, overflow
        kernel.build_front(self.held, self.stacks, averages, RISE)
        signs = np.array([sign for sign, _ in self._channels.extremes])
        columns = np.array([attribute for _, attribute in self._channels.extremes], np.int64)
        marks[kernel.TAIL] = batch.size
        for i in range(batch.size):
            kernel.list_alternatives(self.held, i, signs, columns)
        for i in range(front, batch.size):
            back, nodes = self.stacks.back, self.stacks.back_nodes
            kernel.extend_partial(self.held, i, averages, RISE, back, nodes)
        if batch.size:
            kernel.begin_survival(self.held, self._of.on, self._of.window.delta, self._survival)

    def _write(self, batch: TupleBatch) -> None:
        """Write arrivals after the tail, making room."""
        lifted, uncertain = self._channels.lifted(batch)
        self._make_nodes(uncertain)
        longest = int(np.diff(batch.offsets).max(initial=0))
        if longest > self._survival.size:
            self._survival = np.append(self._survival, np.empty(longest))
        tail = self.held.marks[kernel.TAIL]
        begin = self.held.offsets[tail]
        if tail + batch.size > self._index.size or begin + batch.prob.size > self.held.prob.size:
            self._make_room(batch.size, batch.prob.size)
            tail = self.held.marks[kernel.TAIL]
            begin = self.held.offsets[tail]
        held, end, last = self.held, tail + batch.size, begin + batch.prob.size
        held.offsets[tail + 1 : end + 1] = batch.offsets[1:] + begin
        held.prob[begin:last], held.values[:, begin:last] = batch.prob, batch.values
        held.owner[begin:last] = np.repeat(np.arange(tail, end), np.diff(batch.offsets))
        held.lifted[:, :, tail:end] = lifted
        self._index[tail:end] = np.arange(batch.size) + self._arrived
        self._arrived += batch.size

    def _make_room(self, tuples: int, alternatives: int) -> None:
        """Move what is held to the front of arrays with room for as much again and some more."""
        held, marks = self.held, self.held.marks
        head, tail = int(marks[kernel.HEAD]), int(marks[kernel.TAIL])
        begin, end = int(held.offsets[head]), int(held.offsets[tail])
        room, wide = 2 * (tail - head + tuples) + 16, 2 * (end - begin + alternatives) + 16
        self._index = _moved(self._index, head, tail, room)
        marks[[kernel.HEAD, kernel.MIDDLE, kernel.TAIL]] -= head
        self.held = Held(
            marks,
            _moved(held.offsets, head, tail + 1, room + 1) - begin,
            _moved(held.prob, begin, end, wide),
            _moved(held.values, begin, end, wide),
            _moved(held.owner, begin, end, wide) - head,
            _moved(held.lifted, head, tail, room),
            np.ones(room),
            _moved(held.order, 0, held.order.shape[1], wide) - begin,
            held.listed,
        )
        stacks, slots = self.stacks, room // kernel.STRIDE + 2
        kept, nodes = self._channels.room(slots, self._noded)
        _copy(stacks.kept, kept)
        _copy(stacks.kept_nodes, nodes)
        self.stacks = stacks._replace(kept=kept, kept_nodes=nodes)

    def _make_nodes(self, uncertain: bool) -> None:
        """Nodes take most of the memory: none before the first tuple that needs them."""
        if uncertain and not self._noded:
            self._noded = True
            _, kept = self._channels.room(len(self.stacks.kept), True)
            _, block = self._channels.room(kernel.STRIDE, True)
            for nodes in (*kept, *block):
                for c in range(len(nodes)):
                    kernel.clear_nodes(nodes[c])
            self.stacks = self.stacks._replace(kept_nodes=kept, block_nodes=block)


def _moved(array: np.ndarray, begin: int, end: int, room: int) -> np.ndarray:
    """Entries [begin, end) of the last axis at the front of one of length `room`."""
    result = np.zeros((*array.shape[:-1], room), array.dtype)
    end = min(end, array.shape[-1], begin + room)
    result[..., : end - begin] = array[..., begin:end]
    return result


def _copy(source: np.ndarray, target: np.ndarray) -> None:
    n = min(len(source), len(target))
    target[:n] = source[:n]
