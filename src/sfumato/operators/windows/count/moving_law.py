"""Law of one aggregate of a count window: exact while it is small, else sampled."""

from collections.abc import Iterator

import numpy as np

from sfumato.kernels.laws.order_statistics import (
    order_statistic_law,
    small_quantiles,
    value_existences,
)
from sfumato.kernels.laws.sum_law import sum_law
from sfumato.kernels.laws.tuples import Tuples
from sfumato.operators.laws import finite_laws
from sfumato.operators.laws.aggregate import Aggregate, Floats
from sfumato.operators.laws.finite_laws import FiniteLaws, LawOptions
from sfumato.operators.laws.spreads import (
    OF_VALUES,
    STATISTICS,
    exact_statistic,
    is_small,
    statistic_existences,
)
from sfumato.operators.windows.count.sampled_window import worlds_of
from sfumato.operators.windows.count.window_laws import Arrivals

MOST_NUMBERS = 250_000  # of samples at a time: they stay in a fast cache
MOST_LAWS = 256  # exact ones at a time


class MovingLaw:
    """Laws of one aggregate of the `rows` newest existing tuples, after each arrival.

    aggregate : sum, avg, count of an attribute, or one of those in LISTED
    rows, limit : int, see MovingMoments; options : of the worlds

    An exact law is computed anew at each arrival, sampled worlds move on with it. Those in LISTED
    are exact where their work is bounded. The exact law of the others is
    tried; when it has too many states the worlds are sampled, until all the tuples that made it too
    large have left: so the trials cost O(1) per arrival, and which arrivals are tried depends on
    the stream alone.
    """

    def __init__(self, aggregate: Aggregate, rows: int, limit: int, options: LawOptions) -> None:
        self.aggregate, self.rows, self.options = aggregate, rows, options
        self.untried = 0  # the exact law is not tried while older stream indices are held
        self._worlds = worlds_of(aggregate, rows, limit, options)

    def extend(self, a: Arrivals, counts: FiniteLaws | None) -> Iterator[FiniteLaws]:
        """The laws, some at a time; the state has moved on once all are taken.

        counts : laws of the number of tuples, for a count of values
        """
        assert self.aggregate.attribute is not None
        tuples, gaps = a.tuples(self.aggregate), a.gaps(self.aggregate.attribute)
        exact: list[tuple[Floats, Floats]] = []
        sampled = self._sampled(a, tuples, gaps)
        t, k = 0, a.heads.size
        while t < k:
            if sampled[t]:
                law = None
            elif counts is not None and not gaps[t]:
                law = counts[t]
            else:
                law = self._exact(a, tuples, t)
            if law is not None:
                exact.append(law)
                t += 1
            elif not sampled[t]:
                self.untried = a.first + a.begin + t + 1
                sampled = self._sampled(a, tuples, gaps)
            if exact and (t == k or sampled[t] or len(exact) == MOST_LAWS):
                self._worlds.stop()
                yield FiniteLaws.exact(exact)
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

    def _sampled(self, a: Arrivals, tuples: Tuples, gaps: np.ndarray) -> np.ndarray:
        """bool[k], arrivals whose exact law is not to be computed."""
        if self.aggregate.function == "quantile":
            return ~small_quantiles(tuples, a.heads, a.begin, self.rows, finite_laws.MOST_WORK)
        if self.aggregate.function in STATISTICS:
            return ~is_small(self.aggregate.function, tuples, a.heads, a.begin, self.rows)
        sampled = a.first + a.heads < self.untried
        return sampled & gaps if self.aggregate.function == "count" else sampled

    def _exact(self, a: Arrivals, tuples: Tuples, t: int) -> tuple[Floats, Floats] | None:
        """Probabilities and values after arrival t; None if there are too many states."""
        window = tuples, int(a.heads[t]), a.begin + t + 1, self.rows
        if self.aggregate.function == "quantile":
            done = True
            prob, value = order_statistic_law(*window, float(self.aggregate.argument or 0.0))
        elif self.aggregate.function in STATISTICS:
            done = True
            prob, value = exact_statistic(self.aggregate.function, *window)
        else:
            averaged = self.aggregate.function == "avg"
            done, prob, value = sum_law(*window, averaged, finite_laws.MOST_STATES)
        some = prob > 0.0
        return (prob[some], value[some]) if done else None

    def _sample(self, a: Arrivals, t: int, end: int) -> Iterator[FiniteLaws]:
        most = max(1, MOST_NUMBERS // self.options.samples)
        while t < end:
            held = a.begin + t + 1 - int(a.heads[t])
            some = a.part(t, min(end, t + min(most, max(held, 64))))
            t += some.heads.size
            samples = self._worlds.slide(some)
            existence, tuples = np.ones(some.heads.size), some.tuples(self.aggregate)
            if self.aggregate.function in ("avg", "quantile"):
                existence = value_existences(tuples, some.heads, some.begin, self.rows)
            elif self.aggregate.function in STATISTICS:
                of = self.aggregate.function, tuples, some.heads, some.begin, self.rows
                existence = statistic_existences(*of)
            exact = self.aggregate.function in ("quantile", *OF_VALUES)
            yield FiniteLaws.of_samples(samples, existence, exact)
