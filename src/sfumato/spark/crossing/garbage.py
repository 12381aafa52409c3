"""Operators kept out of the collections of garbage: PySpark's workers collect after every task.

A collection looks at every object, and an operator of many keys has millions of them: a second
after each micro-batch of 100 rows. What is alive behind a micro-batch is frozen, as Python's gc
calls it; now and then not, until the next collection has found the garbage that was frozen too.
"""

import gc
import time
from collections.abc import Callable

FROZEN = 120.0  # seconds


class Frozen:
    """What the collections of this process pass over.

    clock : seconds, never falling
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = clock()
        self._awaited = 0  # so many full collections, before anything is frozen again

    def behind_batch(self, operators_left: bool) -> None:
        """A micro-batch is over. operators_left : some were let go, and their memory is wanted"""
        now, collections = self._clock(), gc.get_stats()[-1]["collections"]
        if operators_left or now >= self._until:
            gc.unfreeze()
            self._until, self._awaited = now + FROZEN, collections + 1
        elif collections >= self._awaited:
            gc.freeze()


_HERE = Frozen()  # in this process


def behind_batch(operators_left: bool = False) -> None:
    """This process has done its part of a micro-batch, see `Frozen`."""
    _HERE.behind_batch(operators_left)
