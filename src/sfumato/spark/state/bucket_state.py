"""An engine-free operator on a stream: one instance per key bucket, with durable state.

A bucket's state is a snapshot of its operator and a log of the chunks since the snapshot. Each
micro-batch writes the smaller of the two, and only the new pieces of a snapshot:

    entry  0   header: JSON, "\\n", the snapshot if it is small
    entry  1   chunks of the first micro-batch after the snapshot       (pack_entries)
    entry  2   chunks of the second ...                                 the log
    entry -1   a piece of the snapshot, identified by its hash in the header
    entry -2   another piece ...

The live operator also stays in the memory of a Python worker, its owner. It is used only if its
nonce equals the nonce of the stored state; otherwise it is rebuilt from snapshot and log. See
docs/decisions/0002.

The query's identity is stored with every bucket, and once in a separate bucket (`chunks.QUERY`), so
that no other query can continue from the checkpoint unnoticed.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext, cloudpickle
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StructField, StructType

from sfumato.operators.state.config import differences
from sfumato.operators.state.snapshot import SnapshotError, cut
from sfumato.spark.crossing import chunks
from sfumato.spark.crossing.chunks import OperatorMetrics, spark_hash
from sfumato.spark.model.declared_frame import is_connected
from sfumato.spark.state.deferred_processor import DeferredProcessor
from sfumato.spark.state.operator_owners import (
    END,
    IDLE,
    RESUME,
    BatchRequest,
    BucketResult,
    pack_entries,
    process_entries,
    run_local,
    run_remote,
    run_with,
    unpack_entries,
    worker_id,
)

if TYPE_CHECKING:
    from sfumato.tables.reading.chain import Chain, ChainConfig
    from sfumato.tables.reading.layout import LayoutChange

HEADER, LOG = 0, 1  # entries of a bucket's state: the log starts at LOG, pieces are below 0
MAX_HEADER_SNAPSHOT_BYTES = 32_768  # a snapshot up to this size is stored in the header's entry
MAX_PIECE_BYTES = 4 << 20  # maximum bytes of a snapshot in one entry
MAX_LOG_ENTRY_BYTES = 8 << 20  # maximum bytes of a log entry; a larger entry becomes a snapshot
MAX_SEEN = 100_000
BROADCAST_SETTING, DEFAULT_BROADCAST_LIMIT = "spark.broadcast.UDFCompressionThreshold", "1m"
PICKLED_CALL_BYTES = 65_536  # what Spark pickles with a processor occupies less

_SEEN: set[tuple[str, int]] = set()  # queries and buckets whose state this worker has read


@dataclass
class Header:
    """The state of a bucket, except snapshot and log.

    owner : the worker that has the live operator
    logged, log_bytes : number of valid log entries, and the bytes of their chunks
    pieces : (hash, entry) of each snapshot piece; empty if it is stored in the header entry
    seen, timer : processing time of the newest row, and the timer's time, in ms
    run : the query run that wrote the header;  layout : `ChainConfig.layout` as JSON
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
    layout: str = ""

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


def _run() -> str:
    """Return the id of this task's query run, or "" if it is unknown."""
    context = TaskContext.get()
    return "" if context is None else context.getLocalProperty("spark.jobGroup.id") or ""


def run_buckets(
    packed: DataFrame, blueprint: ChainConfig, fingerprint: str, idle_timeout: int | None = None
) -> DataFrame:
    """Run an operator on chunks of `chunks.pack`; return chunks of answers, counters and gauges.

    fingerprint : JSON; a checkpoint with a different fingerprint cannot be resumed
    idle_timeout : milliseconds
    """
    columns = [StructField("chunk", BinaryType()), *OperatorMetrics.of(blueprint).columns]
    processor = cloudpickle.dumps(BucketProcessor(blueprint, fingerprint, idle_timeout))
    if not is_connected(packed):  # Spark Connect broadcasts no processor
        limit = packed.sparkSession.conf.get(BROADCAST_SETTING, DEFAULT_BROADCAST_LIMIT)
        require_not_broadcast(len(processor), str(limit))
    return packed.groupBy(chunks.BUCKET).transformWithState(
        DeferredProcessor(processor),
        StructType(columns),
        "Append",
        "None" if idle_timeout is None else "ProcessingTime",
    )


def require_not_broadcast(size: int, limit: str) -> None:
    """Raise ValueError for a processor whose size in bytes makes Spark broadcast it.

    At the start of a query, Spark loads the processor in a process that has no broadcasts.
    """
    written = re.fullmatch(r"(\d+)([kmgtp]?)b?", limit.strip().lower())
    assert written is not None, "Spark has checked it"
    bound = int(written[1]) << 10 * " kmgtp".index(written[2] or " ")
    if size + PICKLED_CALL_BYTES > bound:
        raise ValueError(
            f"the arguments of an operator on this stream occupy {size / 2**20:,.1f} MB, probably "
            f"for a repository, but Spark accepts at most {limit} here: start the session with "
            f"sf.configure(...), which sets {BROADCAST_SETTING}, or with a larger value of this "
            "setting; or use a smaller repository"
        )


def _foreign_checkpoint(why: str) -> ValueError:
    return ValueError(
        f"the checkpoint belongs to a different query: {why}. Use a new checkpoint folder, or "
        "restore the query"
    )


class BucketProcessor:
    """Processor of a bucket's chunks; header, snapshot and log are in Spark's state."""

    def __init__(self, blueprint: ChainConfig, fingerprint: str, idle_timeout: int | None) -> None:
        self.blueprint = blueprint
        self.fingerprint = fingerprint
        self.idle_timeout = idle_timeout
        self.metrics = OperatorMetrics.of(blueprint)
        self.identity = uuid.uuid4().hex  # identifies this operator in a worker's cache

    @cached_property
    def layout(self) -> str:
        """The places of columns in state, as JSON."""
        return json.dumps(self.blueprint.layout())

    def open(self, handle: StatefulProcessorHandle, entries: Any) -> None:
        """Set the handle for timers, and the map with the state's entries."""
        self.handle, self.entries = handle, entries

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
            return  # the bucket has had no rows
        run = _run() or self.identity
        new_run, header.run = header.run != run, run
        if new_run and header.nonce and self.idle_timeout is not None:
            batch, header.seen = [(RESUME, b""), *batch], now
        size = sum(len(chunk) for _, chunk in batch)
        whole = size > MAX_LOG_ENTRY_BYTES or header.log_bytes + size >= header.snapshot_bytes
        whole = whole or header.layout != self.layout  # the log has chunks of one layout
        state = header.snapshot_bytes + header.log_bytes
        nonce = uuid.uuid4().hex
        request = BatchRequest(self.identity, bucket, header.nonce, nonce, now, whole, state)
        result = run_local(request, batch) or run_remote(header.owner, request, batch)
        if result is None:
            result = run_with(self._rebuild(bucket, header, snapshot), request, batch)
            header.owner = worker_id()
        header.nonce, header.layout = nonce, self.layout
        if new_run:  # held rows are counted from the start of a run
            for name, count in result.held.items():
                result.changes[name] += count
        if result.snapshot is None:
            self._write(LOG + header.logged, pack_entries(now, batch))
            header.logged += 1
            header.log_bytes += max(size, 1)
        else:
            snapshot = self._store(header, result.snapshot)
        if self.idle_timeout is not None:
            self._keep_timer(header, result, now)
        self._write(HEADER, header.to_bytes() + snapshot)
        for row in result.rows(self.metrics):
            yield Row(**row)

    def _check_query(self) -> None:
        """Refuse a different query's checkpoint, even if this task's buckets have no state."""
        if (self.identity, chunks.QUERY) not in _SEEN:
            header, _ = self._header(chunks.QUERY)
            if not header.nonce or header.layout != self.layout:
                header.nonce, header.layout = uuid.uuid4().hex, self.layout
                self._write(HEADER, header.to_bytes())

    def _write(self, number: int, data: bytes) -> None:
        self.entries.updateValue((number,), (data,))

    def _header(self, bucket: int) -> tuple[Header, bytes]:
        """Return the header, and the snapshot if it is stored with the header."""
        new = Header(self.fingerprint, layout=self.layout)
        # Spark warns when a missing entry is read: check its existence first, once.
        if (self.identity, bucket) not in _SEEN and not self.entries.containsKey((HEADER,)):
            return new, b""
        held = self.entries.getValue((HEADER,))
        if held is None:
            return new, b""
        if len(_SEEN) >= MAX_SEEN:  # mostly ended queries; another existence check is cheap
            _SEEN.clear()
        _SEEN.add((self.identity, bucket))
        text, _, snapshot = bytes(held[0]).partition(b"\n")
        known = json.loads(text)
        before = known["fingerprint"]  # checked first: other formats have different fields
        if before != self.fingerprint:
            raise _foreign_checkpoint(differences(before, self.fingerprint))
        header = Header(**known)
        self._change_of(header)
        return header, snapshot

    def _change_of(self, header: Header) -> LayoutChange | None:
        """Return the change of columns since the state was written, or None."""
        if header.layout == self.layout:
            return None
        try:
            return self.blueprint.change_from(json.loads(header.layout))
        except ValueError as error:
            raise _foreign_checkpoint(str(error)) from None

    def _read_entry(self, number: int) -> bytes:
        held = self.entries.getValue((number,))
        if held is None:
            raise SnapshotError(
                f"the checkpoint is damaged: entry {number} of a bucket's state is missing. "
                "Restore the checkpoint folder, or use a new one"
            )
        return bytes(held[0])

    def _rebuild(self, bucket: int, header: Header, snapshot: bytes) -> Chain:
        blueprint = self.blueprint.for_task(spark_hash(bucket) % self.blueprint.tasks)
        if not header.nonce:
            return blueprint.make()
        data = snapshot or b"".join(self._read_entry(number) for _, number in header.pieces)
        change = self._change_of(header)
        operator = blueprint.restore(data, change)
        for number in range(header.logged):
            now, batch = unpack_entries(self._read_entry(LOG + number))
            if change is not None:
                batch = [(side, self._converted(side, data, change)) for side, data in batch]
            process_entries(operator, batch, now)
        return operator

    def _converted(self, side: int, chunk: bytes, change: LayoutChange) -> bytes:
        """Return a logged chunk in the current layout."""
        if side < 0:
            return chunk
        rows = self.blueprint.convert_rows(chunks.from_bytes(chunk), side, change)
        return chunks.to_bytes(rows)

    def _store(self, header: Header, snapshot: bytes) -> bytes:
        """Write a snapshot's new pieces; return the part to write with the header."""
        header.logged, header.log_bytes = 0, 0  # older log entries are overwritten later
        header.snapshot_bytes = len(snapshot)
        before = dict(header.pieces)
        pieces = cut(snapshot, MAX_PIECE_BYTES) if len(snapshot) > MAX_HEADER_SNAPSHOT_BYTES else []
        hashed = [(hashlib.blake2b(piece, digest_size=16).hexdigest(), piece) for piece in pieces]
        kept = {name: before[name] for name, _ in hashed if name in before}
        spare = [number for number in before.values() if number not in set(kept.values())]
        lowest = min(before.values(), default=0)
        for name, piece in hashed:
            if name not in kept:
                lowest -= not spare
                kept[name] = spare.pop() if spare else lowest
                self._write(kept[name], bytes(piece))
        for number in spare:
            self.entries.removeKey((number,))
        header.pieces = [(name, kept[name]) for name, _ in hashed]
        return b"" if pieces else snapshot

    def _keep_timer(self, header: Header, result: BucketResult, now: int) -> None:
        # Each bucket has one timer, which is set again if it fires early because rows have arrived.
        # It is replaced if the clock steps back, because it would fire too late.
        assert self.idle_timeout is not None
        header.seen = now if result.has_processed_rows else min(header.seen, now)
        due = header.seen + self.idle_timeout
        if result.next_timeout is not None:
            next_timeout = max(result.next_timeout, now + 1)
            due = min(due, next_timeout) if now < due else next_timeout
        if now < due and not now < header.timer <= due:
            self.handle.registerTimer(due)
            header.timer = due
