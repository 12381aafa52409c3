"""Count windows over tuples of uncertain existence."""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.windows.count.count_boundary import (
    empty_boundary,
    inside_probabilities,
    slide_boundary,
)
from sfumato.operators.arguments import NO_LIMIT, share, whole
from sfumato.operators.arrays import Floats, Ints
from sfumato.operators.distributions.poisson_binomial import checked_existence
from sfumato.operators.state.declared import Array, Value
from sfumato.operators.state.stateful import Operator


def expected_tuples(rows: int, existence: float, confidence: float) -> int | None:
    """Estimate the size of a window with `rows` existing tuples, if each has this existence.

    Returns the smallest n with Pr(Binomial(n, existence) >= rows) >= confidence, by the normal
    approximation with continuity correction (exact for existence 1), or None if no n suffices.
    """
    if existence == 1 or confidence <= 0:
        return rows
    if confidence >= 1:
        return None
    spread = NormalDist().inv_cdf(confidence) * math.sqrt(existence * (1 - existence))
    root = (spread + math.sqrt(spread**2 + 4 * existence * (rows - 0.5))) / (2 * existence)
    return max(rows, math.ceil(root**2))


def join_confidence(confidence: float, probability: float) -> float:
    """Return the confidence for windows of a join of pairs with at least `probability`.

    Source: Dallachiesa et al. (2015), Algorithm 2 (uncert-evict-beta).
    """
    return min(confidence, 1 - probability)


@dataclass(frozen=True)
class UncertainWindowConfig:
    """Arguments of an `UncertainWindow`."""

    rows: int
    confidence: float
    probability: float | None
    max_tuples: int | None

    def __post_init__(self) -> None:
        whole("rows", self.rows)
        share("confidence", self.confidence)
        if self.probability is not None:
            share("probability", self.probability)
        if self.max_tuples is not None:
            whole("max_tuples", self.max_tuples)


class UncertainWindow(Operator):
    """Count window W(U, w, alpha): the fewest newest tuples of which `rows` probably exist.

    Parameters
    ----------
    rows
        int >= 1, the window's size w in existing tuples
    confidence
        float in (0, 1], alpha. The window contains the fewest newest tuples with Pr(at least `rows`
        of them exist) >= confidence, or all tuples until this probability is reached (Algorithm 1:
        evict the oldest tuple while Pr(N >= rows) without this tuple is >= confidence)
    probability
        float in (0, 1], beta, or None. For operators that only report results of probability >=
        beta: the confidence is then min(confidence, 1 - beta) (Algorithm 2). For beta = 1, the
        confidence is 0, and the oldest tuple is evicted while Pr(N >= rows) without this tuple is
        above 0. The window then contains exactly the tuples that can be inside with probability 1
    max_tuples
        int >= 1 or None, the maximum number of held tuples. Beyond this number, the oldest tuples
        are evicted and counted in `overflow`. While `guaranteed` is False, the window is shorter
        than defined

    Raises
    ------
    ValueError
        For arguments outside these ranges.

    Notes
    -----
    Stream indices count every arrival from 0, including tuples of existence 0, which never enter.
    confidence = 1 requires certainty: only tuples of existence exactly 1 count.

    Guarantee: decisions are the same as with the recursion over all held tuples (RF1), at an
    amortised cost of O(sqrt(rows)) per arrival instead of O(rows^2). If a probability is closer to
    its threshold than the error bound of the fast computation, the plain float64 recursion decides,
    starting with the oldest tuple, at a cost of O(rows * held) for that test. In practice, this
    only happens for structural ties, such as existence 1/2 and confidence 1/2.
    Decisions do not depend on how arrivals are split into calls, nor on snapshot and restore.

    References
    ----------
    Dallachiesa et al. (2015), sections 4 and 6.1. https://doi.org/10.1007/s10115-014-0804-5

    Examples
    --------
    >>> window = UncertainWindow(rows=1, confidence=0.75)
    >>> window.extend([0.5, 0.5, 0.5, 0.0, 1.0]).tolist()
    [0, 0, 1, 1, 4]
    """

    kind, version = "uncertain_window", 3
    config: UncertainWindowConfig
    state = {
        "existence": Array(float, "held"),
        "indices": Array(int, "held", low=0),
        "arrived": Value(low=0),
        "status": Array(int, 2, low=0),
    }

    def __init__(
        self,
        rows: int,
        confidence: float,
        probability: float | None = None,
        *,
        max_tuples: int | None = None,
    ) -> None:
        self.config = UncertainWindowConfig(rows, confidence, probability, max_tuples)
        self.rows, self.max_tuples = int(rows), max_tuples
        target = join_confidence(float(confidence), float(probability or 0.0))
        self._rule = self.rows, target, NO_LIMIT if max_tuples is None else max_tuples
        self._boundary = empty_boundary()
        self.existence: Floats = np.empty(0)  # of the held tuples, oldest first
        self.indices: Ints = np.empty(0, np.int64)  # stream indices of the held tuples
        self.arrived = 0  # number of arrivals, and stream index of the next
        self.status: Ints = np.zeros(2, np.int64)  # evicted by `max_tuples`; not `guaranteed`

    def extend(self, existence: npt.ArrayLike) -> Ints:
        """Process arrivals in order, and return the window start after each.

        existence : float array [n] in [0, 1] (up to 1 + 1e-9, clipped)
        Returns int64[n]: the oldest held tuple's stream index, or the next arrival's index while
        the window is empty.
        Raises ValueError, with state unchanged, for a wrong dimension, NaN or values out of range.
        """
        arrivals, _, _ = checked_existence("existence", existence)
        enters = np.flatnonzero(arrivals > 0.0)
        begin, heads = self.existence.size, np.empty(enters.size, np.int64)
        held = np.concatenate([self.existence, arrivals[enters]])
        indices = np.concatenate([self.indices, enters + self.arrived])
        self._boundary = slide_boundary(self._boundary, held, begin, self._rule, self.status, heads)
        # An arrival that does not enter leaves the window unchanged, possibly empty.
        starts = np.append(indices[heads], self.start)[np.cumsum(arrivals > 0.0) - 1]
        if not begin:
            before = np.cumsum(arrivals > 0.0) == 0
            starts[before] = self.arrived + np.flatnonzero(before) + 1
        if enters.size:
            self.existence, self.indices = held[heads[-1] :], indices[heads[-1] :]
        self.arrived += arrivals.size
        return starts

    def in_window(self, j: Any) -> Any:
        """Return T_j: the probability that tuple j, if it exists, is among the `rows` newest.

        j : stream index of a held tuple (returns a float), or array of indices (float64 array)
        The result is exactly 1.0 if fewer than `rows` tuples of existence > 0 are newer.
        Raises ValueError for a tuple that has not arrived, never entered or was evicted.
        Cost: one pass over the tuples newer than the oldest requested.
        Source: Dallachiesa et al. (2015), equation (24).
        """
        wanted = np.asarray(j)
        if wanted.dtype.kind not in "iu":
            raise ValueError(f"`j` must be a stream index or an array of indices; got {j!r:.80}")
        first = self._places(wanted.reshape(-1).astype(np.int64)) + 1
        order, last = np.argsort(first), np.full(first.size, self.held)
        values = np.empty(first.size)
        values[order] = inside_probabilities(self.existence, first[order], last, self.rows)
        return float(values[0]) if wanted.ndim == 0 else values.reshape(wanted.shape)

    def after_loading(self) -> None:
        before = np.diff(self.indices, prepend=-1, append=self.arrived)
        if not ((self.existence > 0.0) & (self.existence <= 1.0)).all() or (before <= 0).any():
            raise ValueError("held tuples must have an existence in (0, 1] and increasing indices")
        if self.held > self._rule[2] or self.status[1] > (self.status[0] > 0):
            raise ValueError(f"a window of at most {self.max_tuples} tuples cannot have this state")

    @property
    def held(self) -> int:
        """Number of held tuples, w'."""
        return self.indices.size

    @property
    def start(self) -> int:
        """Stream index of the oldest held tuple; `arrived` if the window is empty."""
        return int(self.indices[0]) if self.held else self.arrived

    @property
    def overflow(self) -> int:
        """Number of tuples evicted only because of `max_tuples`."""
        return int(self.status[0])

    @property
    def guaranteed(self) -> bool:
        """Return whether the window is as long as defined.

        False after an eviction due to `max_tuples`, until the algorithm itself evicts a tuple,
        which shows that enough tuples are held again.
        """
        return not self.status[1]

    @property
    def recursions(self) -> int:
        """Number of tests decided by the plain recursion since construction or restore."""
        return int(self._boundary.header[0]["recursions"])

    def _places(self, indices: Ints) -> Ints:
        held = self.indices
        places = np.searchsorted(held, indices)
        found = places < held.size
        found[found] = held[places[found]] == indices[found]
        if not found.all():
            raise ValueError(self._why_not_held(int(indices[~found][0])))
        return places

    def _why_not_held(self, j: int) -> str:
        if not 0 <= j < self.arrived:
            return (
                f"`j` must be the index of an arrived tuple; got {j}, and the number "
                f"of arrived tuples is {self.arrived}"
            )
        if j < self.start:
            return f"tuple {j} is no longer held: the window begins at {self.start}"
        return f"tuple {j} never entered the window: its existence was 0"
