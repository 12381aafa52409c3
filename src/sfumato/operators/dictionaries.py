"""Dictionaries that give memory back: Python's keep the room of their largest size."""

import sys
from typing import TypeVar

ROOM = 400  # bytes a key; where there are no more keys than Python makes room for, 37 to 105

Key = TypeVar("Key")
Value = TypeVar("Value")


def fitted(held: dict[Key, Value]) -> dict[Key, Value]:
    """The same dictionary, or one with the same in the same order where it has far too much room.

    Cost: nothing, or O(keys) after three quarters of the keys left.
    """
    return dict(held) if sys.getsizeof(held) > ROOM * (len(held) + 64) else held
