"""Run an engine-free operator on Spark: one instance a bucket of keys, state that survives.

On a stream the state of a bucket is a snapshot of its operator and a log of the chunks that came
after it; whichever is smaller is written for a micro-batch, and of a snapshot the pieces that are
not there yet. The live operator also stays in the memory of the Python worker, so that most
micro-batches rebuild nothing. It may only be used if it is exactly what the state describes: every
write of the state carries a fresh random nonce, a call takes the cached operator out of the cache
before it touches it, and uses it only if its nonce is the state's. A retried, speculative, moved or
restarted task finds another nonce, or nothing, and rebuilds the operator from snapshot and log.

What query a state belongs to is kept with every bucket, and once for all of them in a bucket of
its own (`chunks.QUERY`), so that no other query goes on from a checkpoint unnoticed.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StructType

from sfumato.operators.state.config import continues, differences
from sfumato.operators.state.snapshot import SnapshotError, cut
from sfumato.spark.crossing import chunks
from sfumato.spark.crossing.even_partitions import murmur3
from sfumato.spark.crossing.figures import Figures
from sfumato.spark.state.bucket_steps import (
    END,
    IDLE,
    Entries,
    from_log,
    step,
    to_log,
)
from sfumato.spark.state.operator_homes import Turn, home, taken, taken_at, taken_by

if TYPE_CHECKING:  # a process beside the driver imports this, and must not import kernels
    from sfumato.tables.operator import BatchOperator, OperatorConfig

ENTRY = StructType().add("number", LongType())
DATA = StructType().add("data", BinaryType())
HEADER, LOG = 0, 1  # entries of a bucket's state; the log's from LOG on, a snapshot's below 0
BESIDE_HEADER = 32_768  # bytes: a snapshot up to this size is in the header's entry
PIECE = 4 << 20  # bytes of a snapshot in one entry at most
MOST_LOGGED = 8 << 20  # bytes of a log entry at most: what is larger goes into a snapshot


_SEEN: set[tuple[str, int]] = set()  # queries and buckets whose state this worker has seen


@dataclass
class Header:
    """What a bucket's state is: everything but the snapshot and the log.

    home : the worker that has the live operator, for others to ask
    logged, log_bytes : entries of the log that count, and the size of their chunks
    pieces : of the snapshot, unless it is beside the header: (hash of its bytes, its entry)
    seen, timer : processing time of the newest row, and the one the timer is set for; ms
    run : the run of the query that wrote it
    """

    fingerprint: str
    nonce: str = ""
    home: str = ""
    logged: int = 0
    log_bytes: int = 0
    snapshot_bytes: int = 0
    pieces: list[tuple[str, int]] = field(default_factory=list)
    seen: int = 0
    timer: int = 0
    run: str = ""


def _run() -> str:
    """Name the run of the streaming query that this task belongs to; "" where nobody says."""
    context = TaskContext.get()
    return "" if context is None else context.getLocalProperty("spark.jobGroup.id") or ""


class BucketProcessor(StatefulProcessor):
    """Feeds a bucket's chunks to its operator; keeps header, snapshot and log in Spark's state.

    All in one map, because every state variable costs its own milliseconds a micro-batch.
    """

    def __init__(
        self, blueprint: OperatorConfig, fingerprint: str, idle_timeout: int | None
    ) -> None:
        self.blueprint = blueprint
        self.fingerprint = fingerprint
        self.idle_timeout = idle_timeout
        self.figures = Figures.of(blueprint)
        self.identity = uuid.uuid4().hex  # of this operator of this query, in a worker's cache

    def init(self, handle: StatefulProcessorHandle) -> None:
        # This also runs in a process beside the driver: nothing is compiled or imported here.
        # Types as objects: Spark would parse a text anew for every task.
        self.handle = handle
        self.entries = handle.getMapState("entries", ENTRY, DATA)

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
        header, beside = self._header(bucket)
        if not header.nonce and all(side == END for side, _ in batch):
            return  # a bucket that never had rows
        size = sum(len(chunk) for _, chunk in batch)
        whole = size > MOST_LOGGED or header.log_bytes + size >= header.snapshot_bytes
        held = header.snapshot_bytes + header.log_bytes
        nonce = uuid.uuid4().hex
        turn = Turn(self.identity, bucket, header.nonce, nonce, now, whole, held)
        done = taken(turn, batch) or taken_at(header.home, turn, batch)
        if done is None:
            done = taken_by(self._rebuilt(bucket, header, beside), turn, batch)
            header.home = home()
        header.nonce = nonce
        run = _run() or self.identity
        if header.run != run:  # what is held is counted from the start of a run
            header.run = run
            for name, count in done.held.items():
                done.changes[name] += count
        if done.snapshot is None:
            self._log(header, batch, now)
        else:
            beside = self._store(header, done.snapshot)
        if self.idle_timeout is not None:
            self._keep_timer(header, done.took, now)
        text = json.dumps(asdict(header)).encode()
        self.entries.updateValue((HEADER,), (text + b"\n" + beside,))
        for row in done.rows(self.figures):
            yield Row(**row)

    def _check_query(self) -> None:
        """Refuse the checkpoint of another query, also where no bucket of these rows has a state.

        A query without key, say, whose rows meet in a bucket that the one with a key never used.
        """
        if (self.identity, chunks.QUERY) in _SEEN:
            return
        header, _ = self._header(chunks.QUERY)
        if header.nonce:  # it is there, and ours
            return
        header.nonce = uuid.uuid4().hex
        self.entries.updateValue((HEADER,), (json.dumps(asdict(header)).encode() + b"\n",))

    def _header(self, bucket: int) -> tuple[Header, bytes]:
        """The header and, when it is kept beside it, the snapshot."""
        expected = self.fingerprint
        # Spark warns when an entry is asked for that is not there: look first, once.
        seen = (self.identity, bucket) in _SEEN or self.entries.containsKey((HEADER,))
        held = self._entry(HEADER) if seen else None
        if held is None:
            return Header(expected), b""
        _SEEN.add((self.identity, bucket))
        text, _, snapshot = held.partition(b"\n")
        header = Header(**json.loads(text))
        if header.fingerprint != expected and not continues(header.fingerprint, expected):
            raise ValueError(
                "the checkpoint belongs to another query: "
                f"{differences(header.fingerprint, expected)}: use a new checkpoint folder, or the "
                "query as it was"
            )
        return header, snapshot

    def _entry(self, number: int) -> bytes | None:
        held = self.entries.getValue((number,))
        return None if held is None else bytes(held[0])

    def _stored(self, number: int) -> bytes:
        held = self._entry(number)
        if held is None:
            raise SnapshotError(f"the checkpoint lacks entry {number} of a bucket's state")
        return held

    def _rebuilt(self, bucket: int, header: Header, beside: bytes) -> BatchOperator:
        """The operator that snapshot and log describe. beside : what stands beside the header"""
        blueprint = self.blueprint.for_task(murmur3(bucket) % self.blueprint.tasks)
        if not header.nonce:
            return blueprint.make()
        data = beside or b"".join(self._stored(number) for _, number in header.pieces)
        operator = blueprint.restore(data)
        for number in range(header.logged):
            step(operator, *from_log(self._stored(LOG + number)))
        return operator

    def _log(self, header: Header, batch: Entries, now: int) -> None:
        self.entries.updateValue((LOG + header.logged,), (to_log(batch, now),))
        header.logged += 1
        header.log_bytes += max(sum(len(chunk) for _, chunk in batch), 1)

    def _store(self, header: Header, snapshot: bytes) -> bytes:
        """Write a snapshot, but for pieces that are there already; what goes beside the header."""
        header.logged, header.log_bytes = 0, 0  # older log entries are overwritten in time
        header.snapshot_bytes = len(snapshot)
        before = dict(header.pieces)
        pieces = cut(snapshot, PIECE) if len(snapshot) > BESIDE_HEADER else []
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
        # After a step back of the clock the timer that is set fires too late: another one is set.
        assert self.idle_timeout is not None
        header.seen = now if rows_came else min(header.seen, now)
        due = header.seen + self.idle_timeout
        if now < due and not now < header.timer <= due:
            self.handle.registerTimer(due)
            header.timer = due
