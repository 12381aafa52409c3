"""Live operators in the memory of Python workers: every operator is owned by one worker.

Spark gives a partition's task to whichever worker is idle, so that every second micro-batch or so
of a bucket is given to another worker. The rows of a micro-batch are small next to the operator:
they are sent to its owner, and the answers come back. The worker with the task writes the state.

An owner that is busy with the same query declines and drops the operator. The caller rebuilds it
and owns it from then on, so operators spread over the workers that a query has. The sequence is
drawn in docs/decisions/0002.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sfumato.spark.crossing.gc_freezer import after_batch
from sfumato.spark.state import worker_rpc
from sfumato.spark.state.batches import BucketResult, Entries, process_batch

if TYPE_CHECKING:  # a process next to the driver imports this, and must not import kernels
    from sfumato.tables.operator import BatchOperator

IDLE_SECONDS = 600.0  # seconds after which an unused operator is evicted
MIN_SHARE = 1 << 30
MEMORY_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container, where it has one
OBJECTS_PER_BYTE = 2  # an operator in memory takes about so many times the bytes of its state

# A lock is held while an operator of a query is at work here. Queries that share one by chance only
# wait for each other, or rebuild an operator.
_AT_WORK = [threading.RLock() for _ in range(64)]


class BatchRequest(NamedTuple):
    """One micro-batch of one operator.

    nonce, next_nonce : of the state that the operator must have, and of the state afterwards
    now : processing time, ms    snapshot : whether a snapshot is needed afterwards
    size : bytes of the state before
    """

    query: str
    bucket: int
    nonce: str
    next_nonce: str
    now: int
    snapshot: bool
    size: int


class CachedOperator(NamedTuple):
    """An operator, the nonce of the state that it has, its bytes, and when it was last used."""

    nonce: str
    operator: Any
    size: int
    used: float


def memory_share(memory: int, cores: int) -> int:
    """Return the bytes for one worker: with a worker per core, a quarter of all memory."""
    return max(MIN_SHARE, memory // (4 * cores))


def available_memory() -> int:
    """Return the bytes of memory that this machine has, or that its container may use."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(physical, int(MEMORY_LIMIT.read_text()))
    except (OSError, ValueError):  # no container, or one without a limit: "max"
        return physical


class OperatorCache:
    """Operators by query and bucket; the longest unused are evicted first.

    A worker serves many queries and is not told when one ends, so operators that were not used for
    a while are evicted too. A miss only costs a rebuild.

    max_bytes : None for `memory_share` of what this machine has
    clock : seconds, never decreasing
    """

    def __init__(
        self,
        max_bytes: int | None = None,
        unused: float = IDLE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        share = memory_share(available_memory(), os.cpu_count() or 1)
        self.max_bytes = share if max_bytes is None else max_bytes
        self.unused, self._clock = unused, clock
        self._held: OrderedDict[tuple[str, int], CachedOperator] = OrderedDict()
        self.bytes = 0
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._held)

    def take(self, query: str, bucket: int, nonce: str) -> Any:
        """Remove an operator; return it if it has the state with `nonce`, else None."""
        with self._lock:
            held = self._pop((query, bucket))
        return held.operator if held is not None and nonce and held.nonce == nonce else None

    def put(self, query: str, bucket: int, nonce: str, operator: Any, size: int) -> bool:
        """Keep an operator of `size` bytes; return whether others were evicted."""
        with self._lock:
            self._pop((query, bucket))
            self._held[query, bucket] = CachedOperator(nonce, operator, size, self._clock())
            self.bytes += size
            before = len(self)
            while self._held and self._must_evict(next(iter(self._held.values()))):
                self._pop(next(iter(self._held)))
            return len(self) < before

    def _must_evict(self, oldest: CachedOperator) -> bool:
        return self.bytes > self.max_bytes or self._clock() - oldest.used > self.unused

    def _pop(self, place: tuple[str, int]) -> CachedOperator | None:
        held = self._held.pop(place, None)
        self.bytes -= held.size if held is not None else 0
        return held


CACHE = OperatorCache()  # of this process


def worker_id() -> str:
    """Return the id of this worker as an owner; "" where workers cannot call each other."""
    return worker_rpc.serve(_handle)


def run_local(request: BatchRequest, batch: Entries) -> BucketResult | None:
    """Process a micro-batch by the operator that this worker owns; None if it does not."""
    operator = CACHE.take(request.query, request.bucket, request.nonce)
    return None if operator is None else run_with(operator, request, batch)


def run_with(operator: BatchOperator, request: BatchRequest, batch: Entries) -> BucketResult:
    """Process a micro-batch by an operator, which this worker owns from now on."""
    with _at_work(request.query):
        result = process_batch(operator, batch, request.now, request.snapshot)
    state = request.size if result.snapshot is None else len(result.snapshot)
    query, bucket, nonce = request.query, request.bucket, request.next_nonce
    after_batch(CACHE.put(query, bucket, nonce, operator, state * OBJECTS_PER_BYTE))
    return result


def run_remote(owner: str, request: BatchRequest, batch: Entries) -> BucketResult | None:
    """Let the owner process a micro-batch; None if it declines, or has ended."""
    sides = [side for side, _ in batch]
    message = [json.dumps([request, sides]).encode(), *(chunk for _, chunk in batch)]
    reply = worker_rpc.call(owner, message)
    if not reply:
        return None
    snapshots, changes, gauges, held, took = json.loads(reply[0])
    snapshot = reply[1] if snapshots else None
    return BucketResult(reply[1 + snapshots :], changes, gauges, snapshot, held, took)


def _handle(message: Sequence[bytes]) -> list[bytes]:
    """Reply to `run_remote`; with nothing where the caller has to rebuild the operator."""
    fields, sides = json.loads(message[0])
    request = BatchRequest(*fields)
    lock = _at_work(request.query)
    if not lock.acquire(blocking=False):
        CACHE.take(request.query, request.bucket, request.nonce)
        return []
    try:
        result = run_local(request, list(zip(sides, message[1:], strict=True)))
    except Exception:  # is raised again where the operator is rebuilt, within a task
        return []
    finally:
        lock.release()
    if result is None:
        return []
    snapshot = [] if result.snapshot is None else [result.snapshot]
    facts = [len(snapshot), result.changes, result.gauges, result.held, result.took]
    return [json.dumps(facts).encode(), *snapshot, *result.chunks]


def _at_work(query: str) -> threading.RLock:
    return _AT_WORK[hash(query) % len(_AT_WORK)]
