"""Garbage collections skip long-lived objects of operators, and no garbage stays."""

import gc
import weakref

import pytest

from sfumato.spark.crossing.chunks import FREEZE_SECONDS, GcFreezer


class Loop:
    """Garbage that only a garbage collection finds."""

    def __init__(self):
        self.itself = self


@pytest.fixture
def frozen():
    now = [0.0]
    gc.unfreeze()
    gc.disable()  # collections happen only where the test requests them
    made = GcFreezer(clock=lambda: now[0])
    made.now = now
    yield made
    gc.unfreeze()
    gc.enable()


def lost():
    return weakref.ref(Loop())


def test_what_is_alive_after_a_batch_is_frozen_once_there_was_a_collection(frozen):
    frozen.after_batch(False)
    assert gc.get_freeze_count() == 0
    frozen.after_batch(False)
    assert gc.get_freeze_count() == 0
    gc.collect()
    frozen.after_batch(False)
    assert gc.get_freeze_count() > 1000
    frozen.now[0] = FREEZE_SECONDS - 1
    frozen.after_batch(False)
    assert gc.get_freeze_count() > 1000


@pytest.mark.parametrize(("later", "operators_left"), [(FREEZE_SECONDS, False), (1.0, True)])
def test_garbage_that_was_frozen_is_found_later(frozen, later, operators_left):
    frozen.after_batch(False)
    gc.collect()
    garbage = lost()
    frozen.after_batch(False)
    gc.collect()
    assert garbage() is not None
    frozen.now[0] = later
    frozen.after_batch(operators_left)
    gc.collect()
    assert garbage() is None
    frozen.after_batch(False)
    assert gc.get_freeze_count() > 1000
