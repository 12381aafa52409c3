"""Run an engine-free operator on a stream: one instance per bucket of keys, state that survives.

The state of a bucket is a snapshot of its operator and a log of the chunks that came after it;
whichever is smaller is written for a micro-batch, and of a snapshot only the pieces that are new:

    entry  0   header: JSON, "\\n", the snapshot where it is small
    entry  1   chunks of the first micro-batch after the snapshot       (to_log)
    entry  2   chunks of the second ...                                 the log
    entry -1   a piece of the snapshot, found by its hash in the header
    entry -2   another piece ...

The live operator also stays in the memory of a Python worker, its owner, so that most micro-batches
rebuild nothing. It may only be used if it is exactly what the state describes: every write of the
state carries a fresh random nonce, a call takes the operator out of the cache before it touches it,
and uses it only if its nonce is the state's. A retried, speculative, moved or restarted task finds
another nonce, or nothing, and rebuilds the operator from snapshot and log. The sequence is drawn in
docs/decisions/0002.

The query to which a state belongs is kept with every bucket, and once for all of them in a separate
bucket (`chunks.QUERY`), so that no other query continues from a checkpoint unnoticed.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from sfumato.operators.state.config import continues, differences
from sfumato.operators.state.snapshot import SnapshotError, cut
from sfumato.spark.crossing import chunks
from sfumato.spark.crossing.buckets import spark_hash
from sfumato.spark.crossing.figures import OperatorFigures
from sfumato.spark.state.batches import (
    END,
    IDLE,
    Entries,
    from_log,
    process_entries,
    to_log,
)
from sfumato.spark.state.operator_owners import (
    BatchRequest,
    run_local,
    run_remote,
    run_with,
    worker_id,
)

if TYPE_CHECKING:  # a process next to the driver imports this, and must not import kernels
    from sfumato.tables.operator import BatchOperator, OperatorConfig

ENTRY = StructType().add("number", LongType())
DATA_SCHEMA = StructType().add("data", BinaryType())
HEADER, LOG = 0, 1  # entries of a bucket's state; the log's from LOG on, a snapshot's below 0
WITH_HEADER = 32_768  # bytes: a snapshot up to this size is in the header's entry
PIECE = 4 << 20  # maximum bytes of a snapshot in one entry
MAX_LOGGED = 8 << 20  # maximum bytes of a log entry: a larger one becomes a snapshot
MAX_SEEN = 100_000

_SEEN: set[tuple[str, int]] = set()  # queries and buckets whose state this worker has seen


@dataclass
class Header:
    """The state of a bucket, except the snapshot and the log.

    owner : the worker that has the live operator, for others to call
    logged, log_bytes : entries of the log that count, and the size of their chunks
    pieces : of the snapshot, unless it is with the header: (hash of its bytes, its entry)
    seen, timer : processing time of the newest row, and the time for which the timer is set; ms
    run : the run of the query that wrote it
    """

    fingerprint: str
    nonce: str = ""
    owner: str = ""
    logged: int = 0
    log_bytes: int = 0
    snapshot_bytes: int = 0
    pieces: list[tuple[str, int]] = field(default_factory=list)
    seen: int = 0
    timer: int = 0
    run: str = ""


def _run() -> str:
    """Return the run of the streaming query that this task belongs to; "" if it is unknown."""
    context = TaskContext.get()
    return "" if context is None else context.getLocalProperty("spark.jobGroup.id") or ""


def run_buckets(
    packed: DataFrame,
    blueprint: OperatorConfig,
    fingerprint: str,
    idle_timeout: int | None = None,
) -> DataFrame:
    """Run an operator over chunks, as `chunks.pack` makes them; return chunks of answers, counters
    and gauges.

    fingerprint : JSON text that differs where a checkpoint of another query cannot be continued
    idle_timeout : milliseconds
    """
    columns = [StructField("chunk", BinaryType()), *OperatorFigures.of(blueprint).columns]
    return packed.groupBy(chunks.BUCKET).transformWithState(
        BucketProcessor(blueprint, fingerprint, idle_timeout),
        StructType(columns),
        "Append",
        "None" if idle_timeout is None else "ProcessingTime",
    )


class BucketProcessor(StatefulProcessor):
    """Feeds a bucket's chunks to its operator; keeps header, snapshot and log in Spark's state.

    All in one map, because every state variable costs milliseconds per micro-batch.
    """

    def __init__(
        self, blueprint: OperatorConfig, fingerprint: str, idle_timeout: int | None
    ) -> None:
        self.blueprint = blueprint
        self.fingerprint = fingerprint
        self.idle_timeout = idle_timeout
        self.figures = OperatorFigures.of(blueprint)
        self.identity = uuid.uuid4().hex  # of this operator of this query, in a worker's cache

    def init(self, handle: StatefulProcessorHandle) -> None:
        # This also runs in a process next to the driver: nothing is compiled or imported here.
        # Types as objects: Spark would parse a text again for every task.
        self.handle = handle
        self.entries = handle.getMapState("entries", ENTRY, DATA_SCHEMA)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802
        if key[0] == chunks.QUERY:
            self._check_query()
            return
        batch = [(int(row["side"]), bytes(row["chunk"])) for row in rows]
        yield from self._advance(key, batch, self._now(timerValues))

    def handleExpiredTimer(  # noqa: N802
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Row]:
        yield from self._advance(key, [(IDLE, b"")], self._now(timerValues))

    def _now(self, timer_values: Any) -> int:
        return 0 if self.idle_timeout is None else int(timer_values.getCurrentProcessingTimeInMs())

    def _advance(self, key: Any, batch: list[tuple[int, bytes]], now: int) -> Iterator[Row]:
        bucket = key[0]
        header, snapshot = self._header(bucket)
        if not header.nonce and all(side == END for side, _ in batch):
            return  # a bucket that never had rows
        size = sum(len(chunk) for _, chunk in batch)
        whole = size > MAX_LOGGED or header.log_bytes + size >= header.snapshot_bytes
        state = header.snapshot_bytes + header.log_bytes
        nonce = uuid.uuid4().hex
        request = BatchRequest(self.identity, bucket, header.nonce, nonce, now, whole, state)
        result = run_local(request, batch) or run_remote(header.owner, request, batch)
        if result is None:
            result = run_with(self._rebuild(bucket, header, snapshot), request, batch)
            header.owner = worker_id()
        header.nonce = nonce
        run = _run() or self.identity
        if header.run != run:  # held rows are counted from the start of a run
            header.run = run
            for name, count in result.held.items():
                result.changes[name] += count
        if result.snapshot is None:
            self._log(header, batch, now)
        else:
            snapshot = self._store(header, result.snapshot)
        if self.idle_timeout is not None:
            self._keep_timer(header, result.took, now)
        self._write_header(header, snapshot)
        for row in result.rows(self.figures):
            yield Row(**row)

    def _check_query(self) -> None:
        """Refuse the checkpoint of another query, also where no bucket of these rows has a state.

        For example a query without key, whose rows are all in a bucket that the query with a key
        never used.
        """
        if (self.identity, chunks.QUERY) in _SEEN:
            return
        header, _ = self._header(chunks.QUERY)
        if header.nonce:  # it is there, and ours
            return
        header.nonce = uuid.uuid4().hex
        self._write_header(header, b"")

    def _write_header(self, header: Header, snapshot: bytes) -> None:
        text = json.dumps(asdict(header)).encode()
        self.entries.updateValue((HEADER,), (text + b"\n" + snapshot,))

    def _header(self, bucket: int) -> tuple[Header, bytes]:
        """Return the header, and the snapshot where it is kept with it."""
        expected = self.fingerprint
        # Spark warns when a missing entry is read: look first, once.
        seen = (self.identity, bucket) in _SEEN or self.entries.containsKey((HEADER,))
        held = self._entry(HEADER) if seen else None
        if held is None:
            return Header(expected), b""
        if len(_SEEN) >= MAX_SEEN:  # of queries that have ended; looking first again costs little
            _SEEN.clear()
        _SEEN.add((self.identity, bucket))
        text, _, snapshot = held.partition(b"\n")
        known = json.loads(text)
        before = known["fingerprint"]  # first: a header of another layout has other fields
        if before != expected and not continues(before, expected):
            raise ValueError(
                f"the checkpoint belongs to another query: {differences(before, expected)}: use a "
                "new checkpoint folder, or the query as it was"
            )
        return Header(**known), snapshot

    def _entry(self, number: int) -> bytes | None:
        held = self.entries.getValue((number,))
        return None if held is None else bytes(held[0])

    def _stored(self, number: int) -> bytes:
        held = self._entry(number)
        if held is None:
            raise SnapshotError(f"the checkpoint has no entry {number} of a bucket's state")
        return held

    def _rebuild(self, bucket: int, header: Header, snapshot: bytes) -> BatchOperator:
        """Return the operator that snapshot and log describe."""
        blueprint = self.blueprint.for_task(spark_hash(bucket) % self.blueprint.tasks)
        if not header.nonce:
            return blueprint.make()
        data = snapshot or b"".join(self._stored(number) for _, number in header.pieces)
        operator = blueprint.restore(data)
        for number in range(header.logged):
            process_entries(operator, *from_log(self._stored(LOG + number)))
        return operator

    def _log(self, header: Header, batch: Entries, now: int) -> None:
        self.entries.updateValue((LOG + header.logged,), (to_log(batch, now),))
        header.logged += 1
        header.log_bytes += max(sum(len(chunk) for _, chunk in batch), 1)

    def _store(self, header: Header, snapshot: bytes) -> bytes:
        """Write the pieces of a snapshot that are new; return what is written with the header."""
        header.logged, header.log_bytes = 0, 0  # older log entries are overwritten in time
        header.snapshot_bytes = len(snapshot)
        before = dict(header.pieces)
        pieces = cut(snapshot, PIECE) if len(snapshot) > WITH_HEADER else []
        hashed = [(hashlib.blake2b(piece, digest_size=16).hexdigest(), piece) for piece in pieces]
        kept = {name: before[name] for name, _ in hashed if name in before}
        spare = [number for number in before.values() if number not in set(kept.values())]
        lowest = min(before.values(), default=0)
        for name, piece in hashed:
            if name not in kept:
                lowest -= not spare
                kept[name] = spare.pop() if spare else lowest
                self.entries.updateValue((kept[name],), (bytes(piece),))
        for number in spare:
            self.entries.removeKey((number,))
        header.pieces = [(name, kept[name]) for name, _ in hashed]
        return b"" if pieces else snapshot

    def _keep_timer(self, header: Header, rows_came: bool, now: int) -> None:
        # One timer per bucket: when it fires early, because rows came since, it is set again.
        # After a step back of the clock the current timer fires too late: another one is set.
        assert self.idle_timeout is not None
        header.seen = now if rows_came else min(header.seen, now)
        due = header.seen + self.idle_timeout
        if now < due and not now < header.timer <= due:
            self.handle.registerTimer(due)
            header.timer = due
