"""Live operators in the memory of a Python worker, for the next micro-batch of their bucket.

A worker serves many queries, one after the other and at a time, and does not learn when one ends:
operators that were not used for a while go, and the longest unused go when memory is short.
"""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

UNUSED = 600.0  # seconds after which an operator goes
LEAST_SHARE = 1 << 30
LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container, where it has one


def share(memory: int, cores: int) -> int:
    """Bytes that the operators of one worker may take: of one worker a core, a quarter of all."""
    return max(LEAST_SHARE, memory // (4 * cores))


def memory_here() -> int:
    """Bytes of memory that this machine has, or that its container may use."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(physical, int(LIMIT.read_text()))
    except (OSError, ValueError):  # no container, or one without a limit: "max"
        return physical


MOST_BYTES = share(memory_here(), os.cpu_count() or 1)  # a miss only costs the rebuild


@dataclass(frozen=True)
class _Held:
    nonce: str
    operator: Any
    size: int
    used: float


class OperatorCache:
    """Operators by query and bucket, each with the nonce of the state that it is.

    most_bytes, unused : see MOST_BYTES, UNUSED    clock : seconds, never falling
    """

    def __init__(
        self,
        most_bytes: int = MOST_BYTES,
        unused: float = UNUSED,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.most_bytes, self.unused, self._clock = most_bytes, unused, clock
        self._held: OrderedDict[tuple[str, int], _Held] = OrderedDict()  # longest unused first
        self.bytes = 0
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._held)

    def take(self, query: str, bucket: int, nonce: str) -> Any:
        """Take an operator out; None unless it is the one that the state with `nonce` describes."""
        with self._lock:
            held = self._pop((query, bucket))
        return held.operator if held is not None and nonce and held.nonce == nonce else None

    def put(self, query: str, bucket: int, nonce: str, operator: Any, size: int) -> bool:
        """Keep an operator; whether others went. size : bytes that it takes"""
        held = _Held(nonce, operator, size, self._clock())
        with self._lock:
            self._pop((query, bucket))
            self._held[query, bucket] = held
            self.bytes += held.size
            before = len(self)
            while self._held and self._is_over(next(iter(self._held.values()))):
                self._pop(next(iter(self._held)))
            return len(self) < before

    def _is_over(self, oldest: _Held) -> bool:
        return self.bytes > self.most_bytes or self._clock() - oldest.used > self.unused

    def _pop(self, place: tuple[str, int]) -> _Held | None:
        held = self._held.pop(place, None)
        self.bytes -= held.size if held is not None else 0
        return held


CACHE = OperatorCache()  # of this process
