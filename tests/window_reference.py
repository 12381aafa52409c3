"""Windows of hundreds of tuples in plain NumPy: one recursion over how many exist, newest first.

These windows have too many possible worlds. The code shares only definitions with the kernels.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np


class Window:
    """Held tuples, oldest first, of which the `rows` newest existing tuples are inside; None: all.

    tuples : (prob, values) each, float64[alternatives], NaN for no value
    """

    def __init__(self, tuples, rows=None):
        self.tuples, self.rows = tuples[::-1], len(tuples) if rows is None else rows

    def count(self):
        """Return mean and variance of the number of tuples inside."""
        return self._moments([(prob.sum(), 1.0, 1.0) for prob, _ in self.tuples])

    def values(self):
        """Return mean and variance of the number of values inside."""
        return self._moments([self._of(prob, ~np.isnan(value)) for prob, value in self.tuples])

    def sum(self):
        """Return mean and variance of the sum inside."""
        return self._moments([self._of(prob, np.nan_to_num(x)) for prob, x in self.tuples])

    def extreme(self, sign, x):
        """Return Pr(no value inside exceeds x) for sign 1, or is below x for -1."""
        law = self._start()
        for prob, value in self.tuples:
            beaten = prob[sign * value > sign * x].sum()
            law = self._step(law, prob.sum(), law * (prob.sum() - beaten))
        return law.sum()

    def _start(self):
        law = np.zeros(self.rows + 1)
        law[0] = 1.0
        return law

    def _step(self, law, exists, came):
        """Return the distribution of the number inside after a tuple; came : mass one count up."""
        after = law * (1.0 - exists)
        after[-1] = law[-1]  # full: an older tuple is outside
        after[1:] += came[:-1]
        return after

    @staticmethod
    def _of(prob, value):
        """Return existence, and mean and mean square of a tuple's value given that it exists."""
        total = prob.sum()
        return total, (prob * value).sum() / total, (prob * value * value).sum() / total

    def _moments(self, terms):
        centre = sum(p * m for p, m, _ in terms) / max(sum(p for p, *_ in terms), 1e-300)
        law, first, second = self._start(), np.zeros(self.rows + 1), np.zeros(self.rows + 1)
        for p, mean, square in terms:  # sums of values relative to `centre`
            m, s = mean - centre, square - 2.0 * centre * mean + centre * centre
            second = self._step(second, p, p * (second + 2.0 * m * first + s * law))
            first = self._step(first, p, p * (first + m * law))
            law = self._step(law, p, p * law)
        total = first + centre * np.arange(self.rows + 1) * law
        mean = total.sum()
        away = centre * np.arange(self.rows + 1) - mean
        return mean, (second + 2.0 * away * first + away * away * law).sum()

    def average(self):
        """Return the mean of the average inside, and Pr(there is one); values must not be NaN."""
        law, first = self._start(), np.zeros(self.rows + 1)
        for prob, value in self.tuples:
            p, mean, _ = self._of(prob, value)
            first = self._step(first, p, p * (first + mean * law))
            law = self._step(law, p, p * law)
        return (first[1:] / np.arange(1, self.rows + 1)).sum() / law[1:].sum(), law[1:].sum()


def broken_by_definition(oldest, others, delta, on):
    """Return Pr(some other tuple exists and is too far from the oldest | the oldest exists)."""
    existence = sum(p for p, _ in oldest)
    total = Fraction(0)
    for p, values in oldest:
        near = Fraction(1)
        for other in others:
            far = sum(
                q for q, vs in other
                if values[on] is not None and vs[on] is not None
                and abs(vs[on] - values[on]) > delta
            )  # fmt: skip
            near *= 1 - far
        total += p / existence * (1 - near)
    return total
