"""How far event time is known to have come, for the keys that share a punctuation."""

import numpy as np

from sfumato.operators.arrays import longer
from sfumato.operators.ranking.window_answers import NO_STEPS, judged
from sfumato.operators.ranking.window_content import NO_INSTANT
from sfumato.operators.state.declared import Array, Part
from sfumato.operators.state.stateful import Stateful
from sfumato.tables.arrow import UNKNOWN
from sfumato.tables.keys import KeyIndex

_STARTS = {"clock": NO_INSTANT, "punctuation": UNKNOWN, "seen": 0}


class ScopeClocks(Stateful):
    """The clocks of scopes, by code.

    clock : no instant up to here is open    punctuation : the greatest so far
    seen : when the last row came, in milliseconds
    An instant is past once a row that is not late of that time or a later one comes, or a row whose
    punctuation is above one that had reached it. Of a late row the punctuation is its own source's,
    which may be ahead of the others', and shows nothing.
    """

    state = {"index": Part(), **dict.fromkeys(_STARTS, Array(int, "scopes"))}

    def __init__(self) -> None:
        self.index = KeyIndex()
        self.clock = self.punctuation = self.seen = np.empty(0, np.int64)
        self.steps = NO_STEPS  # of the batch

    def grow(self, scopes: int) -> None:
        """Room for so many scopes."""
        for name, start in _STARTS.items():
            setattr(self, name, longer(getattr(self, name), scopes, start))

    def forget(self, codes: np.ndarray) -> None:
        """Be as if no row of these scopes had come; their codes may be given to others."""
        for name, start in _STARTS.items():
            getattr(self, name)[codes] = start

    def judge(
        self, scope: np.ndarray, time: np.ndarray, late: np.ndarray, punctuation: np.ndarray
    ) -> np.ndarray:
        """bool[n]: rows that come too late, those marked `late` and those behind; moves the clocks.

        scope, time, punctuation : int64[n]    late : bool[n], left as it is
        """
        clocks = self.clock, self.punctuation
        behind, self.steps = judged(scope, time, late, punctuation, clocks)
        return behind
