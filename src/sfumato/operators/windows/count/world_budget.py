"""A bound on the memory of all groups' sampled worlds."""

from sfumato.operators.windows.count.moving_aggregates import MovingAggregates

MOST_BYTES = 128_000_000


class WorldBudget:
    """Forgets the worlds of groups that had no arrival for longest, beyond MOST_BYTES.

    No answer depends on it: worlds that are begun anew are the same.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[MovingAggregates, int]] = {}  # by group, latest arrival last
        self._bytes = 0

    def forget(self, code: int) -> None:
        """A group is no more."""
        self._bytes -= self._kept.pop(code, (None, 0))[1]

    def arrived(self, code: int, moving: MovingAggregates) -> None:
        """A group has had arrivals."""
        self._bytes -= self._kept.pop(code, (moving, 0))[1]
        size = moving.world_bytes
        if size:
            self._kept[code] = moving, size
            self._bytes += size
        while self._bytes > MOST_BYTES and len(self._kept) > 1:
            oldest, size = self._kept.pop(next(iter(self._kept)))
            oldest.forget_worlds()
            self._bytes -= size
