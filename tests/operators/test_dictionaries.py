"""Dictionaries release memory after most of their keys are removed."""

import sys

from sfumato.operators.arrays import compact


def test_compact_frees_the_memory_of_removed_keys():
    held = {f"key {i}": i for i in range(20_000)}
    assert compact(held) is held
    largest = sys.getsizeof(held)
    for i in range(20_000):
        if i % 100:
            del held[f"key {i}"]
    less = compact(held)
    assert list(less.items()) == list(held.items())
    assert sys.getsizeof(less) < largest / 20
    assert compact(less) is less


def test_compact_keeps_small_dictionaries():
    for size in (0, 1, 30):
        held = dict.fromkeys(range(size))
        assert compact(held) is held
