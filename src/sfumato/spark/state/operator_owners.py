"""Live operators in the memory of Python workers: every operator is owned by one worker.

The worker with a task sends the rows of a micro-batch to the operator's owner, and writes the state
(docs/decisions/0002). Workers of the same user on the same machine call each other over Unix
sockets in a folder that only this user can open. If sockets are not available, a worker's id is "",
and other workers cannot call it.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from sfumato.spark.crossing import chunks
from sfumato.spark.crossing.chunks import OperatorMetrics, after_batch, subtract_counts
from sfumato.tables.arrow import concat_tables

if TYPE_CHECKING:  # a process next to the driver imports this module, but must not import kernels
    from sfumato.tables.reading.chain import Chain

IDLE = -1  # side of an entry: no rows arrived, and the idle timeout has expired
END = -2  # side of a chunk: the stream ends after the rows of this micro-batch
RESUME = -3  # side of an entry: the query was restarted before this micro-batch
HELD_GAUGE = "held"  # counter of the rows that a reorder holds; in a chain `step0_held`
Entries = Sequence[tuple[int, bytes]]  # (side, chunk)


@dataclass
class BucketResult:
    """The result of a micro-batch.

    chunks : answers;  changes : increases of the counters;  gauges : current values
    snapshot : the operator's snapshot afterwards, if requested
    held : number of rows that each reorder held before, if not zero
    has_processed_rows : whether valid rows were processed
    next_timeout : see `TableOperator.next_timeout`
    """

    chunks: list[bytes]
    changes: dict[str, int]
    gauges: dict[str, Any]
    snapshot: bytes | None
    held: dict[str, int] = field(default_factory=dict)
    has_processed_rows: bool = True
    next_timeout: int | None = None

    def rows(self, metrics: OperatorMetrics) -> Iterator[dict[str, Any]]:
        """Yield rows (chunk, metrics); only the first row has metrics."""
        if self.chunks or any(self.changes.values()):
            known = metrics.cells({**self.changes, **self.gauges})
            yield {"chunk": self.chunks[0] if self.chunks else None, **known}
        for chunk in self.chunks[1:]:
            yield {"chunk": chunk}


def process_batch(operator: Chain, batch: Entries, now: int, snapshot: bool) -> BucketResult:
    """Process a micro-batch with an operator, and take a snapshot afterwards if requested."""
    operator.begin()
    before = operator.counters()
    tables = process_entries(operator, batch, now)
    changes = subtract_counts(before, operator.counters())
    held = {name: n for name, n in before.items() if n and name.rpartition("_")[2] == HELD_GAUGE}
    saved = operator.snapshot() if snapshot else None
    has_rows = operator.has_processed_rows and any(side >= 0 for side, _ in batch)
    encoded = [part for table in tables if table.num_rows for part in chunks.parts(table)]
    gauges, next_timeout = operator.gauges(), operator.next_timeout()
    return BucketResult(encoded, changes, gauges, saved, held, has_rows, next_timeout)


def process_entries(operator: Chain, batch: Entries, now: int) -> list[pa.Table]:
    """Return the answers to entries: rows first, then a timeout or the end of the stream."""
    operator.set_clock(now)
    rows, sides = list(tables_of(batch)), {side for side, _ in batch}
    if RESUME in sides:
        operator.resume(now)
    outputs = operator.process(rows, now) if rows else []
    outputs = [*outputs, *operator.idle(now)] if IDLE in sides else outputs
    return [*outputs, *operator.flush()] if END in sides else outputs


def tables_of(batch: Entries) -> Iterator[tuple[int, pa.Table]]:
    """Yield (side, rows) of the chunks; consecutive chunks of one side are merged."""
    of_rows = [(side, chunks.from_bytes(chunk)) for side, chunk in batch if side >= 0]
    for side, found in groupby(of_rows, lambda of: of[0]):
        yield side, concat_tables([table for _, table in found])


def pack_entries(facts: Any, batch: Entries) -> bytes:
    """Pack facts (JSON values) and entries: one line with the facts and sizes, then the chunks."""
    line = json.dumps([facts, [(side, len(chunk)) for side, chunk in batch]])
    return b"".join([line.encode(), b"\n", *(chunk for _, chunk in batch)])


def unpack_entries(data: bytes) -> tuple[Any, list[tuple[int, bytes]]]:
    line, _, rest = data.partition(b"\n")
    facts, sizes = json.loads(line)
    batch, start = [], 0
    for side, size in sizes:
        batch.append((side, rest[start : start + size]))
        start += size
    return facts, batch


IDLE_SECONDS = 600.0  # seconds without use after which an operator is evicted
MIN_SHARE = 1 << 30
MEMORY_LIMIT = Path("/sys/fs/cgroup/memory.max")  # limit of a container, if any
MEMORY_PER_STATE_BYTE = 2  # memory of an operator relative to the size of its state, approximately
ANSWER, SNAPSHOT = 0, 1  # sides of the entries in a reply

# A lock is held while an operator of a query is running here. Queries that happen to share a lock
# only wait for each other, or rebuild an operator.
_QUERY_LOCKS = [threading.RLock() for _ in range(64)]
_IDS: dict[int, str] = {}  # worker id by process id, so that a forked process has no id at first
_STARTING = threading.Lock()


class BatchRequest(NamedTuple):
    """One micro-batch of one operator.

    nonce, next_nonce : nonces of the required state, and of the state afterwards
    now : processing time in ms;  snapshot : whether a snapshot is needed afterwards
    size : bytes of the state beforehand
    """

    query: str
    bucket: int
    nonce: str
    next_nonce: str
    now: int
    snapshot: bool
    size: int


class CachedOperator(NamedTuple):
    """An operator, the nonce of its state, its size in bytes, and the time of its last use."""

    nonce: str
    operator: Any
    size: int
    used: float


def memory_share(memory: int, cores: int) -> int:
    """Return the bytes per worker: a quarter of the memory per core, but at least MIN_SHARE."""
    return max(MIN_SHARE, memory // (4 * cores))


def available_memory() -> int:
    """Return this machine's memory in bytes, or its container's limit."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(physical, int(MEMORY_LIMIT.read_text()))
    except (OSError, ValueError):  # no container, or no limit ("max")
        return physical


class OperatorCache:
    """Operators by query and bucket; the least recently used are evicted first.

    A worker serves many queries and is not notified when one ends, so operators are also evicted
    after a period without use. A miss only costs a rebuild.

    max_bytes : by default, this machine's `memory_share`
    unused : seconds without use;  clock : function that returns seconds, never decreasing
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
        """Remove an operator, and return it if its state has this `nonce`; otherwise None."""
        with self._lock:
            held = self._held.pop((query, bucket), None)
            if held is None:
                return None
            self.bytes -= held.size
        return held.operator if nonce and held.nonce == nonce else None

    def put(self, query: str, bucket: int, nonce: str, operator: Any, size: int) -> bool:
        """Store an operator of `size` bytes; return whether others were evicted."""
        with self._lock:
            self.take(query, bucket, "")
            self._held[query, bucket] = CachedOperator(nonce, operator, size, self._clock())
            self.bytes += size
            before, oldest = len(self), self._clock() - self.unused
            for place, held in list(self._held.items()):
                if self.bytes <= self.max_bytes and held.used >= oldest:
                    break
                self.take(*place, "")
            return len(self) < before


CACHE = OperatorCache()  # the cache of this process


def run_local(request: BatchRequest, batch: Entries) -> BucketResult | None:
    """Process a micro-batch if this worker owns the operator; otherwise return None."""
    operator = CACHE.take(request.query, request.bucket, request.nonce)
    return None if operator is None else run_with(operator, request, batch)


def run_with(operator: Chain, request: BatchRequest, batch: Entries) -> BucketResult:
    """Process a micro-batch with an operator, and become its owner."""
    with _query_lock(request.query):
        result = process_batch(operator, batch, request.now, request.snapshot)
    state = request.size if result.snapshot is None else len(result.snapshot)
    query, bucket, nonce = request.query, request.bucket, request.next_nonce
    after_batch(CACHE.put(query, bucket, nonce, operator, state * MEMORY_PER_STATE_BYTE))
    return result


def run_remote(owner: str, request: BatchRequest, batch: Entries) -> BucketResult | None:
    """Send a micro-batch to the owner; return None if the owner declines or has ended."""
    folder = _folder()
    if not owner.isalnum() or folder is None:
        return None
    try:
        with Client(str(folder / owner), "AF_UNIX") as connection:
            connection.send_bytes(pack_entries(request, batch))
            reply = connection.recv_bytes()
    except (OSError, EOFError):
        return None
    if not reply:
        return None
    (changes, gauges, *times), found = unpack_entries(reply)
    snapshot = next((data for side, data in found if side == SNAPSHOT), None)
    answers = [data for side, data in found if side == ANSWER]
    return BucketResult(answers, changes, gauges, snapshot, *times)


def worker_id() -> str:
    """Return this worker's id as an owner, or "" if workers cannot call each other."""
    with _STARTING:
        if os.getpid() not in _IDS:
            _IDS[os.getpid()] = _serve()
    return _IDS[os.getpid()]


def _serve() -> str:
    """Start a thread that serves other workers' calls; return this worker's id, or ""."""
    folder, worker = _folder(), uuid.uuid4().hex
    if folder is None:
        return ""
    _remove_sockets_of_ended_workers(folder)
    try:
        listener = Listener(str(folder / worker), "AF_UNIX", backlog=64)
    except (OSError, ValueError):  # no Unix sockets, or the folder's path is too long
        return ""

    def accept() -> None:
        while True:
            try:
                connection = listener.accept()
            except OSError:  # the caller has exited
                continue
            threading.Thread(target=_reply, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return worker


def _reply(connection: Connection) -> None:
    with connection:
        try:
            connection.send_bytes(_answer(connection.recv_bytes()))
        except (OSError, EOFError):  # the caller has exited
            return


def _answer(message: bytes) -> bytes:
    """Return the reply to `run_remote`; empty if the caller must rebuild the operator."""
    fields, batch = unpack_entries(message)
    request = BatchRequest(*fields)
    lock = _query_lock(request.query)
    if not lock.acquire(blocking=False):
        CACHE.take(request.query, request.bucket, request.nonce)
        return b""
    try:
        result = run_local(request, batch)
    except Exception:  # raised again when a task rebuilds the operator
        return b""
    finally:
        lock.release()
    if result is None:
        return b""
    found = [(ANSWER, chunk) for chunk in result.chunks]
    found += [] if result.snapshot is None else [(SNAPSHOT, result.snapshot)]
    timing = result.has_processed_rows, result.next_timeout
    facts = [result.changes, result.gauges, result.held, *timing]
    return pack_entries(facts, found)


def _folder() -> Path | None:
    """Return the folder of this user's sockets, or None if others can access it."""
    if not hasattr(os, "getuid"):
        return None
    try:
        folder = Path(tempfile.gettempdir()) / f"sfumato-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return folder if ours and not found.st_mode & 0o077 else None


def _remove_sockets_of_ended_workers(folder: Path) -> None:
    for path in folder.iterdir():
        try:
            Client(str(path), "AF_UNIX").close()
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        except (OSError, ValueError):
            continue


def _query_lock(query: str) -> threading.RLock:
    return _QUERY_LOCKS[hash(query) % len(_QUERY_LOCKS)]
