"""Progress of event time in each of several scopes."""

import numpy as np

from sfumato.kernels.ranking.windows import NO_INSTANT, NO_PUNCTUATION, known_times, select_late
from sfumato.operators.arrays import Bools, Ints, offsets_of, pad
from sfumato.operators.state.declared import Array
from sfumato.operators.state.stateful import Stateful


class EventClocks(Stateful):
    """Clocks of scopes, by code.

    clock : the time up to which all instants are past
    punctuation : the highest punctuation so far
    seen : processing time of the last row, ms, set by the caller
    An instant is past once an on-time row arrives with that time or a later time. An instant that a
    punctuation has reached is also past once an on-time row arrives with a higher punctuation. Late
    rows do not advance the clock, because they have the punctuation of their source, which may be
    ahead of other sources.
    """

    state = dict.fromkeys(("clock", "punctuation", "seen"), Array(int, "scopes"))

    def __init__(self) -> None:
        self.clock = self.punctuation = self.seen = np.empty(0, np.int64)
        # Clocks after each of the last rows: steps[begin[s] : begin[s + 1]] of scope s.
        self.begin, self.steps = np.zeros(1, np.int64), np.empty(0, np.int64)

    def grow(self, scopes: int) -> None:
        self.clock = pad(self.clock, scopes, NO_INSTANT)
        self.punctuation = pad(self.punctuation, scopes, NO_PUNCTUATION)
        self.seen = pad(self.seen, scopes)

    def forget(self, codes: Ints) -> None:
        """Reset these scopes; their codes may be reused."""
        self.clock[codes], self.punctuation[codes] = NO_INSTANT, NO_PUNCTUATION
        self.seen[codes] = 0

    def select_late(self, scope: Ints, time: Ints, late: Bools, punctuation: Ints) -> Bools:
        """Advance the clocks. Returns bool[n]: rows that are marked `late` or precede the clock."""
        behind, steps = select_late(scope, time, late, punctuation, self.clock, self.punctuation)
        self.begin = offsets_of(np.bincount(scope, minlength=self.clock.size))
        self.steps = steps[np.argsort(scope, kind="stable")]
        return behind

    def first_reached(self, scope: Ints, time: Ints, otherwise: Ints) -> Ints:
        """Return int64[n]: the first value of the scope's clock, after one of the last rows, that
        is at or after each time. NO_PUNCTUATION if there is no such value, and `otherwise` if the
        scope had no rows."""
        return known_times(self.begin, self.steps, scope, time, otherwise)
