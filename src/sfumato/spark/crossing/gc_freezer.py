"""Operators kept out of garbage collections: PySpark's workers collect after every task.

A collection visits every object, and an operator of many keys has millions of them: a second after
each micro-batch of 100 rows. Objects that are alive after a micro-batch are frozen, as Python's gc
calls it. Now and then they are not, until the next collection has found the frozen garbage too.
"""

import gc
import time
from collections.abc import Callable

FROZEN = 120.0  # seconds


class GcFreezer:
    """Freezes the objects of this process. clock : seconds, never decreasing"""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = clock()
        self._awaited = 0  # the number of full collections before the next freeze

    def after_batch(self, evicted: bool = False) -> None:
        """End a micro-batch. evicted : operators were evicted, and their memory is needed"""
        now, collections = self._clock(), gc.get_stats()[-1]["collections"]
        if evicted or now >= self._until:
            gc.unfreeze()
            self._until, self._awaited = now + FROZEN, collections + 1
        elif collections >= self._awaited:
            gc.freeze()


_HERE = GcFreezer()


def after_batch(evicted: bool = False) -> None:
    """End a micro-batch of this process; see `GcFreezer`."""
    _HERE.after_batch(evicted)  # a function, because Spark would copy the object into tasks
