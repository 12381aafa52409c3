"""Law of one sum, average, count of values or quantile: exact while it is small, else sampled."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from sfumato.kernels.laws.order_statistics import order_statistic_law, value_existences
from sfumato.kernels.laws.sampled_worlds import laws_of_samples
from sfumato.kernels.laws.sum_law import sum_law
from sfumato.operators.laws.aggregate import Aggregate, Floats
from sfumato.operators.windows.sampled_window import Sampling, worlds_of
from sfumato.operators.windows.window_laws import Arrivals, Laws

MOST_STATES = 4_096  # of the exact law of a sum or average; beyond, worlds are sampled
MOST_WORK = 4_000_000  # cell updates of the exact law of a quantile; beyond, worlds are sampled
CONFIDENCE = 0.99  # of the stated error of sampled worlds
MOST_NUMBERS = 250_000  # of samples at a time: they stay in a fast cache
MOST_LAWS = 256  # exact ones at a time


class MovingLaw:
    """Laws of one aggregate of the `rows` newest existing tuples, after each arrival.

    aggregate : sum, avg, count of an attribute, or quantile
    rows, limit : int, see MovingMoments; sampling : of the worlds

    An exact law is computed anew at each arrival, sampled worlds are kept up. That of a quantile
    is exact where its work is bounded. The exact law of the others is tried; when it has too many
    states the worlds are sampled, until all the tuples that made it too large have left: so the
    trials cost O(1) an arrival, and which arrivals are tried depends on the stream alone.
    """

    def __init__(self, aggregate: Aggregate, rows: int, limit: int, sampling: Sampling) -> None:
        self.aggregate, self.rows, self.sampling = aggregate, rows, sampling
        self.untried = 0  # the exact law is not tried while older stream indices are held
        self._worlds = worlds_of(aggregate, rows, limit, sampling)

    def extend(self, a: Arrivals, counts: Laws | None) -> Iterator[Laws]:
        """The laws, some at a time; the state has moved on once all are taken.

        counts : laws of the number of tuples, for a count of values
        """
        assert self.aggregate.attribute is not None
        column, gaps = a.column(self.aggregate), a.gaps(self.aggregate.attribute)
        exact: list[tuple[Floats, Floats]] = []
        sampled = self._sampled(a, gaps)
        t, k = 0, a.heads.size
        while t < k:
            if sampled[t]:
                law = None
            elif counts is not None and not gaps[t]:
                law = counts[t]
            else:
                law = self._exact(a, column, t)
            if law is not None:
                exact.append(law)
                t += 1
            elif not sampled[t]:
                self.untried = a.first + a.begin + t + 1
                sampled = self._sampled(a, gaps)
            if exact and (t == k or sampled[t] or len(exact) == MOST_LAWS):
                self._worlds.stop()
                yield Laws.exact(exact)
                exact = []
            if law is None:
                end = t + 1
                while end < k and sampled[end]:
                    end += 1
                yield from self._sample(a, t, end)
                t = end

    def forget_worlds(self) -> None:
        """Free their memory; the answers stay the same, the next one takes O(samples * held)."""
        self._worlds.stop()

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays of the state."""
        return self._worlds.nbytes

    def _sampled(self, a: Arrivals, gaps: np.ndarray) -> np.ndarray:
        """bool[k], arrivals whose exact law is not to be computed."""
        if self.aggregate.function == "quantile":
            ends = a.begin + 1 + np.arange(a.heads.size)
            counts = np.minimum(self.rows, ends - a.heads) + 1.0
            values = a.offsets[ends] - a.offsets[a.heads]
            work = values * (ends - a.heads) * counts**2 * np.where(gaps, counts, 1.0)
            return work > MOST_WORK
        sampled = a.first + a.heads < self.untried
        return sampled & gaps if self.aggregate.function == "count" else sampled

    def _exact(self, a: Arrivals, column: Floats, t: int) -> tuple[Floats, Floats] | None:
        """Probabilities and values after arrival t; None if there are too many states."""
        window = a.offsets, a.prob, column, int(a.heads[t]), a.begin + t + 1, self.rows
        if self.aggregate.function == "quantile":
            done = True
            prob, value = order_statistic_law(*window, float(self.aggregate.argument or 0.0))
        else:
            done, prob, value = sum_law(*window, self.aggregate.function == "avg", MOST_STATES)
        some = prob > 0.0
        return (prob[some], value[some]) if done else None

    def _sample(self, a: Arrivals, t: int, end: int) -> Iterator[Laws]:
        most = max(1, MOST_NUMBERS // self.sampling.samples)
        while t < end:
            held = a.begin + t + 1 - int(a.heads[t])
            some = a.part(t, min(end, t + min(most, max(held, 64))))
            t += some.heads.size
            samples = self._worlds.slide(some)
            samples.sort(axis=1)
            existence = np.ones(some.heads.size)
            if self.aggregate.function in ("avg", "quantile"):
                column = some.column(self.aggregate)
                existence = value_existences(
                    some.offsets, some.prob, column, some.heads, some.begin, self.rows
                )
            places, prob, value, used = laws_of_samples(samples, existence)
            error = np.sqrt(math.log(2.0 / (1.0 - CONFIDENCE)) / (2.0 * np.maximum(1, used)))
            yield Laws(places, prob, value, error)
