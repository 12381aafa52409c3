"""Windows of hundreds of tuples in plain NumPy: one recursion over how many exist, newest first.

These windows have too many possible worlds. The code shares only definitions with the kernels, and
its numbers have the 64 bits of long double.
"""

from fractions import Fraction

import numpy as np


def count_law(existences, rows):
    """Return Pr(k tuples exist) for k = 0 ... rows, the last for `rows` or more."""
    law = start(rows)
    for exists in np.asarray(existences, np.longdouble):
        law = step(law, exists, exists * law)
    return law


def start(rows):
    """Return the distribution of the number inside an empty window."""
    law = np.zeros(rows + 1, np.longdouble)
    law[0] = 1.0
    return law


def step(law, exists, came):
    """Return the distribution of the number inside after a tuple; came : mass one count up."""
    after = law * (1.0 - exists)
    after[..., -1] = law[..., -1]  # full: an older tuple is outside
    after[..., 1:] += came[..., :-1]
    return after


class Window:
    """Held tuples, oldest first, of which the `rows` newest existing tuples are inside; None: all.

    tuples : (prob, values) each, float64[alternatives], NaN for no value
    """

    def __init__(self, tuples, rows=None):
        self.rows = len(tuples) if rows is None else rows
        self.tuples = [
            (np.asarray(prob, np.longdouble), np.asarray(value, float))
            for prob, value in reversed(tuples)
        ]

    def count(self):
        """Return mean and variance of the number of tuples inside."""
        return self._of_sum([(prob, np.ones(len(prob))) for prob, _ in self.tuples])

    def values(self):
        """Return mean and variance of the number of values inside."""
        return self._of_sum([(prob, 1.0 * ~np.isnan(value)) for prob, value in self.tuples])

    def sum(self):
        """Return mean and variance of the sum inside."""
        return self._of_sum([(prob, np.nan_to_num(value)) for prob, value in self.tuples])

    def average(self):
        """Return mean, variance and existence of the average inside; values must not be NaN."""
        centre, law, first, second = self._recursion(self.tuples)
        number, exists = np.arange(1, self.rows + 1), law[1:].sum()
        mean = (first[1:] / number).sum() / exists
        variance = (second[1:] / number**2).sum() / exists - mean**2
        return centre + mean, variance, exists

    def none_beyond(self, sign, limits):
        """Return Pr(no value inside exceeds x for sign 1, or is below x for -1) for each limit."""
        limits = np.asarray(limits, float)
        law = np.tile(start(self.rows), (limits.size, 1))
        for prob, value in self.tuples:
            beyond = np.where(sign * value[:, None] > sign * limits, prob[:, None], 0.0).sum(axis=0)
            law = step(law, _exists(prob), law * (_exists(prob) - beyond)[:, None])
        return law.sum(axis=1)

    def extreme(self, sign):
        """Return {value: probability} of the maximum for sign 1, or of the minimum for -1."""
        known = np.concatenate([value[~np.isnan(value)] for _, value in self.tuples])
        outcomes = np.unique(known)[::-sign]
        following, law, before = np.append(outcomes[1:], -sign * np.inf), {}, np.longdouble(1.0)
        for places in np.split(np.arange(outcomes.size), range(32, outcomes.size, 32)):
            none = self.none_beyond(sign, following[places])
            for x, after in zip(outcomes[places].tolist(), none, strict=True):
                law[x], before = before - after, after
                if before < 1e-20:
                    return law
        return law

    def _recursion(self, tuples):
        """Return a centre, and Pr(n inside) with two moments of the sum less n centres."""
        mass = sum(prob.sum() for prob, _ in tuples)
        centre = sum((prob * value).sum() for prob, value in tuples) / mass
        law = start(self.rows)
        first, second = 0.0 * law, 0.0 * law
        for prob, value in tuples:
            exists, away = _exists(prob), value - centre
            m, s = (prob * away).sum(), (prob * away * away).sum()
            second = step(second, exists, exists * second + 2.0 * m * first + s * law)
            first = step(first, exists, exists * first + m * law)
            law = step(law, exists, exists * law)
        return centre, law, first, second

    def _of_sum(self, tuples):
        centre, law, first, second = self._recursion(tuples)
        shift = centre * np.arange(self.rows + 1)
        mean = (first + shift * law).sum()
        away = shift - mean
        return mean, (second + 2.0 * away * first + away * away * law).sum()


def _exists(prob):
    return min(prob.sum(), np.longdouble(1.0))


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
