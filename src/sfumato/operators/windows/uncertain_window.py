"""Uncertain count windows."""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.kernels.laws.approximate_law import approximate_cdf, moments
from sfumato.kernels.windows.count.approximate_window import slide_approximately
from sfumato.kernels.windows.count.count_boundary import (
    CountWindow,
    empty_window,
    positions,
    renewed,
    slide,
)
from sfumato.operators.arguments import NO_LIMIT, share, whole
from sfumato.operators.arrays import Floats, Ints
from sfumato.operators.laws.poisson_binomial import checked_existence, method_number
from sfumato.operators.state.declared import Array, Record, Value
from sfumato.operators.state.stateful import Operator


def expected_tuples(rows: int, existence: float, confidence: float) -> int | None:
    """About how many tuples hold `rows` existing ones, if each exists with that probability.

    The least n with Pr(Binomial(n, existence) ≥ rows) ≥ confidence by the normal approximation
    with continuity correction; exact for existence 1; None where no n is enough. O(1).
    """
    if existence == 1 or confidence <= 0:
        return rows
    if confidence >= 1:
        return None
    spread = NormalDist().inv_cdf(confidence) * math.sqrt(existence * (1 - existence))
    root = (spread + math.sqrt(spread**2 + 4 * existence * (rows - 0.5))) / (2 * existence)
    return max(rows, math.ceil(root**2))


def join_confidence(confidence: float, probability: float) -> float:
    """The confidence that a join with pairs of at least `probability` needs of its windows.

    Source: A, Algorithm 2 (uncert-evict-beta).
    """
    return min(confidence, 1 - probability)


FIRST_CAPACITY = 16


@dataclass(frozen=True)
class UncertainWindowConfig:
    """Arguments of an `UncertainWindow`; see there."""

    rows: int
    confidence: float
    probability: float | None
    method: str
    max_tuples: int | None

    def __post_init__(self) -> None:
        whole("rows", self.rows)
        share("confidence", self.confidence)
        if self.probability is not None:
            share("probability", self.probability)
        if self.max_tuples is not None:
            whole("max_tuples", self.max_tuples)
        method_number(self.method)


class HeldExistence(NamedTuple):
    """State of a window to save; its laws are built again at the first test."""

    existence: Floats
    indices: Ints
    sums: Floats
    arrived: int
    overflow: int
    short: int


class UncertainWindow(Operator):
    """Count window W(U, w, alpha): the fewest newest tuples of which `rows` exist, confidently.

    rows : int >= 1, the window's size w in existing tuples
    confidence : float in (0, 1], alpha. The window holds the fewest newest tuples with
        Pr(at least `rows` of them exist) >= confidence, and all tuples while none do (Algorithm 1:
        evict the oldest while Pr(N >= rows) without it is >= confidence)
    probability : float in (0, 1], beta, or None. For operators that only report results of
        probability >= beta: evicts at min(confidence, 1 - beta) (Algorithm 2). beta = 1 makes that
        0; a tuple then leaves when Pr(N >= rows) without it is above 0, so that exactly those
        stay that can still be inside with probability 1
    method : "exact" (default), or "poisson", "normal", "refined_normal": the paper's approximate
        laws, for comparison; they give up the guarantee
    max_tuples : int >= 1 or None. More than these are never held: the oldest go first, counted in
        `overflow`; while `guaranteed` is False the window is shorter than its definition says

    Stream indices count every arrival from 0, tuples of existence 0 too, though these never enter.
    confidence = 1 under "exact" asks for certainty: only tuples of existence exactly 1 count.

    Guarantee of "exact": decisions are those of the recursion over all held tuples (RF1), at a
    cost of O(sqrt(rows)) amortised an arrival and not O(rows^2). A test whose probability is
    nearer to its threshold than the fast computation's error bound, which in practice means a
    structural tie such as existence 1/2 and confidence 1/2, is decided by the plain float64
    recursion itself, oldest tuple first: O(rows * held) for that test.
    Decisions never depend on how arrivals are split into calls, nor on snapshot and restore.

    Raises ValueError for arguments outside these ranges.
    Source: A, section 4 and 6.1, Algorithms 1 and 2.

    >>> window = UncertainWindow(rows=1, confidence=0.75)
    >>> window.extend([0.5, 0.5, 0.5, 0.0, 1.0]).tolist()
    [0, 0, 1, 1, 4]
    """

    kind, version = "uncertain_window", 2
    config: UncertainWindowConfig
    _state: CountWindow
    state = {
        "saved": Record(
            HeldExistence,
            {
                "existence": Array(float, "held"),
                "indices": Array(int, "held", low=0),
                "sums": Array(float, 6),
                "arrived": Value(low=0),
                "overflow": Value(low=0),
                "short": Value(low=0, high=1),
            },
        )
    }

    def __init__(
        self,
        rows: int,
        confidence: float,
        probability: float | None = None,
        *,
        method: str = "exact",
        max_tuples: int | None = None,
    ) -> None:
        self.config = UncertainWindowConfig(rows, confidence, probability, method, max_tuples)
        self.rows, self.max_tuples, self.method = whole("rows", rows), max_tuples, method
        self.confidence, self.probability = float(confidence), probability
        self._number = method_number(method)
        self._target = self.confidence
        if probability is not None:
            self._target = min(self.confidence, 1.0 - float(probability))
        self._limit = NO_LIMIT if self.max_tuples is None else self.max_tuples
        self.clear()

    def extend(self, existence: npt.ArrayLike) -> Ints:
        """Take arrivals in order; where the window began after each.

        existence : float array [n] in [0, 1] (up to 1 + 1e-9, clipped)
        Returns int64[n]: the stream index of the oldest tuple held after each arrival, or the
        next arrival's index while none is held.
        Raises ValueError, with nothing taken, for a wrong dimension, NaN or values out of range.
        """
        arrivals = checked_existence(existence)
        starts = np.empty(arrivals.size, dtype=np.int64)
        done = self._slide(arrivals, 0, starts)
        while done < arrivals.size:
            self._state = renewed(self._state, self.rows, self._target)
            done = self._slide(arrivals, done, starts)
        return starts

    def in_window(self, j: Any) -> Any:
        """T_j: probability that tuple j, if it exists, is among the `rows` newest existing ones.

        j : stream index of a held tuple (gives a float), or an array of them (float64 array)
        Exactly 1.0 when fewer than `rows` tuples of existence > 0 are newer. Under an approximate
        `method` the probability is approximate too.
        Raises ValueError for a tuple that has not arrived, never entered or was evicted.
        Cost: one pass over the tuples newer than the oldest asked for.
        Source: A, equation (24).
        """
        wanted = np.asarray(j)
        if wanted.dtype.kind not in "iu":
            raise ValueError(f"`j` must be a stream index or an array of them; got {j!r:.80}")
        held, first = self.existence, self._places(wanted.reshape(-1).astype(np.int64)) + 1
        if self._number == 0:
            values = positions(held, first, np.full(first.size, held.size), self.rows)
        else:
            values = np.array([self._approximate_position(held[i:]) for i in first])
        return float(values[0]) if wanted.ndim == 0 else values.reshape(wanted.shape)

    @property
    def saved(self) -> HeldExistence:
        """The state as it is saved: 16 bytes for each tuple held."""
        short = int(self._state.marks[0]["short"])
        return HeldExistence(
            self.existence, self.indices, self._state.sums, self.arrived, self.overflow, short
        )

    @saved.setter
    def saved(self, saved: HeldExistence) -> None:
        held, indices = saved.existence, saved.indices
        before = np.diff(indices, prepend=-1, append=max(saved.arrived, 0))
        if not ((held > 0.0) & (held <= 1.0)).all() or (before <= 0).any():
            raise ValueError("tuples held must have existed, one after the other")
        if held.size > self._limit or (self.max_tuples is None and (saved.overflow or saved.short)):
            raise ValueError(f"a window of at most {self.max_tuples} tuples cannot hold these")
        self.recall(saved)

    def recall(self, saved: HeldExistence) -> None:
        """Go on from what `saved` was, of this window or of another one of the same config."""
        held, indices = saved.existence, saved.indices
        state = empty_window(max(FIRST_CAPACITY, held.size + 1))._replace(sums=saved.sums)
        state.held[: held.size] = held
        state.at[: held.size] = indices
        marks = state.marks[0]
        marks["tail"], marks["ones"] = held.size, np.count_nonzero(held == 1.0)
        for name in ("arrived", "overflow", "short"):
            marks[name] = getattr(saved, name)
        self._state = state

    def clear(self) -> None:
        """Reset the window."""
        self._state = empty_window(FIRST_CAPACITY)

    @property
    def arrived(self) -> int:
        """Tuples that have arrived: the next one's stream index."""
        return int(self._state.marks[0]["arrived"])

    @property
    def held(self) -> int:
        """Tuples held now, w'."""
        marks = self._state.marks[0]
        return int(marks["tail"] - marks["head"])

    @property
    def start(self) -> int:
        """Stream index of the oldest tuple held; `arrived` when none is."""
        return int(self.indices[0]) if self.held else self.arrived

    @property
    def existence(self) -> Floats:
        """Existence of the tuples held, oldest first: float64[held], a copy."""
        return self._state.held[self._span()].copy()

    @property
    def indices(self) -> Ints:
        """Stream indices of the tuples held, oldest first: int64[held], a copy."""
        return self._state.at[self._span()].copy()

    @property
    def overflow(self) -> int:
        """Tuples evicted so far only because of `max_tuples`."""
        return int(self._state.marks[0]["overflow"])

    @property
    def guaranteed(self) -> bool:
        """True if the window is as long as its definition says.

        False from an eviction by `max_tuples` until the algorithm itself next evicts a tuple,
        which shows that enough of them are held again.
        """
        return not self._state.marks[0]["short"]

    @property
    def recursions(self) -> int:
        """Tests the plain recursion had to decide, since the window was made or restored."""
        return int(self._state.marks[0]["recursions"])

    def _span(self) -> slice:
        marks = self._state.marks[0]
        return slice(int(marks["head"]), int(marks["tail"]))

    def _slide(self, arrivals: Floats, done: int, starts: Ints) -> int:
        given = arrivals, done, self.rows, self._target, self._limit, starts
        if self._number == 0:
            return slide(self._state, *given)
        return slide_approximately(self._state, self._number, *given)

    def _places(self, indices: Ints) -> Ints:
        """Where the tuples of these stream indices are among the held ones."""
        held = self.indices
        places = np.searchsorted(held, indices)
        found = places < held.size
        found[found] = held[places[found]] == indices[found]
        if not found.all():
            raise ValueError(self._why_not_held(int(indices[~found][0])))
        return places

    def _why_not_held(self, j: int) -> str:
        if not 0 <= j < self.arrived:
            return f"`j` must be an index of a held tuple; got {j}, and {self.arrived} arrived"
        if j < self.start:
            return f"tuple {j} is not held: the window begins at {self.start}"
        return f"tuple {j} never entered the window: its existence was 0"

    def _approximate_position(self, newer: Floats) -> float:
        if newer.size < self.rows:
            return 1.0
        counts = np.array([self.rows - 1.0])
        return float(approximate_cdf(self._number, counts, *moments(newer))[0, 0])
