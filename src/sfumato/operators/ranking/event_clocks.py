"""How far event time has come, scope by scope, and when a time was known to be past."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.ranking.event_clocks import judge, known_at
from sfumato.operators.arrays import Bools, Ints, offsets_of


class Steps(NamedTuple):
    """The clocks of scopes after each row of a batch.

    begin : int64[scopes + 1], scope s has clock[begin[s]] ... clock[begin[s + 1]], ascending
    """

    begin: Ints
    clock: Ints

    def known(self, scope: Ints, time: Ints, otherwise: Ints) -> Ints:
        """When some times were known, int64[n]; UNKNOWN where the batch shows none of them,
        `otherwise` where the scope had no row."""
        found: Ints = known_at(self.begin, self.clock, scope, time, otherwise)
        return found


NO_STEPS = Steps(np.zeros(1, np.int64), np.empty(0, np.int64))


def judged(
    scope: Ints, time: Ints, late: Bools, punctuation: Ints, clocks: tuple[Ints, Ints]
) -> tuple[Bools, Steps]:
    """Rows that come too late, bool[n], see `kernels.ranking.event_clocks.judge`; moves the clocks.

    clocks : of each scope, no instant up to there is open, and the greatest punctuation
    """
    behind, steps = judge(scope, time, late, punctuation, *clocks)
    begin = offsets_of(np.bincount(scope, minlength=clocks[0].size))
    return behind, Steps(begin, steps[np.argsort(scope, kind="stable")])
