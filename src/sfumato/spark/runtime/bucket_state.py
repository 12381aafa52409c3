"""Run an engine-free operator on Spark: one instance a bucket of keys, state that survives.

On a stream the state of a bucket is a snapshot of its operator and a log of the chunks that came
after it; whichever is smaller is written for a micro-batch. The live operator also stays in the
memory of the Python worker, so that most micro-batches rebuild nothing. It may only be used if it
is exactly what the state describes: every write of the state carries a fresh random nonce, a
call takes the cached operator out of the cache before it touches it, and uses it only if its
nonce is the state's. A retried, speculative, moved or restarted task finds another nonce, or
nothing, and rebuilds the operator from snapshot and log.
"""

from __future__ import annotations

import json
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import BinaryType, LongType, StructType

from sfumato.spark.runtime import chunks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StatefulProcessorHandle

IDLE = -1  # as a log entry's side: no rows came, the idle timeout passed
CACHED_OPERATORS = 128  # a worker; a miss only costs the rebuild

ENTRY = StructType().add("number", LongType())
DATA = StructType().add("data", BinaryType())
HEADER, SNAPSHOT, LOG = 0, 1, 2  # entries of a bucket's state; the log's from LOG on
BESIDE_HEADER = 32_768  # bytes: a snapshot up to this size is in the header's entry


class BucketOperator(Protocol):
    """What an adapter gives: an operator over the keys of one bucket, tables in, tables out."""

    def process(self, batch: Sequence[tuple[int, pa.Table]], now: int) -> list[pa.Table]:
        """Answers to the rows of one micro-batch: (side, rows) pairs; `now`: milliseconds."""

    def idle(self, now: int) -> list[pa.Table]:
        """What comes out because nothing came for so long."""

    def flush(self) -> list[pa.Table]:
        """What comes out at the end of a static frame."""

    def counters(self) -> dict[str, int]:
        """Counts since the beginning, by the names of `Blueprint.counters`."""

    def snapshot(self) -> bytes: ...


class Blueprint(Protocol):
    """How to make a bucket's operator; goes to the workers, so it holds plain values only."""

    counters: ClassVar[tuple[str, ...]]

    def make(self) -> BucketOperator: ...

    def restore(self, data: bytes) -> BucketOperator: ...

    def fingerprint(self) -> str:
        """Text that differs where a checkpoint of another configuration cannot be continued."""


def run(
    packed: DataFrame, blueprint: Blueprint, metrics_name: str, idle_timeout: int | None = None
) -> DataFrame:
    """Chunks in (as `chunks.pack` makes them), chunks of answers out, counters observed.

    metrics_name : the name under which the query's observed metrics show the counters
    idle_timeout : milliseconds; streams only
    """
    counters = ", ".join(f"{name} long" for name in blueprint.counters)
    schema = f"chunk binary, {counters}"
    if packed.isStreaming:
        answers = packed.groupBy(chunks.BUCKET).transformWithState(
            BucketProcessor(blueprint, idle_timeout),
            schema,
            "Append",
            "None" if idle_timeout is None else "ProcessingTime",
        )
    else:

        def whole(table: pa.Table) -> pa.Table:
            operator = blueprint.make()
            batch = [
                (side, chunks.from_bytes(chunk))
                for side, chunk in zip(
                    table.column("side").to_pylist(), table.column("chunk").to_pylist(), strict=True
                )
            ]
            outputs = [*operator.process(batch, 0), *operator.flush()]
            rows = list(_answer_rows(outputs, _difference({}, operator.counters())))
            fields = [pa.field("chunk", pa.binary())]
            fields += [pa.field(name, pa.int64()) for name in blueprint.counters]
            return pa.Table.from_pylist(rows, schema=pa.schema(fields))

        answers = packed.groupBy(chunks.BUCKET).applyInArrow(whole, schema)
    totals = [F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in blueprint.counters]
    return answers.observe(metrics_name, *totals)


@dataclass
class Header:
    """What a bucket's state is: everything but the snapshot and the log.

    logged, log_bytes : entries of the log that count, and the size of their chunks
    seen, timer : processing time of the newest row, and the one the timer is set for; ms
    """

    fingerprint: str
    nonce: str = ""
    logged: int = 0
    log_bytes: int = 0
    snapshot_bytes: int = 0
    seen: int = 0
    timer: int = 0


class BucketProcessor(StatefulProcessor):
    """Feeds a bucket's chunks to its operator; keeps header, snapshot and log in Spark's state.

    All in one map, because every state variable costs its own milliseconds a micro-batch.
    """

    def __init__(self, blueprint: Blueprint, idle_timeout: int | None) -> None:
        self.blueprint = blueprint
        self.idle_timeout = idle_timeout
        self.identity = uuid.uuid4().hex  # of this operator of this query, in a worker's cache

    def init(self, handle: StatefulProcessorHandle) -> None:
        # This also runs in a process beside the driver: nothing is compiled or imported here.
        # Types as objects: Spark would parse a text anew for every task.
        self.handle = handle
        self.entries = handle.getMapState("entries", ENTRY, DATA)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802
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
        operator = _cached(self.identity, bucket, header.nonce)
        if operator is None:
            operator = self._rebuilt(header, snapshot)
        before = operator.counters()
        outputs = _step(operator, batch, now)
        changes = _difference(before, operator.counters())
        self._save(header, snapshot, operator, batch, now)
        _cache(self.identity, bucket, header.nonce, operator)
        for row in _answer_rows(outputs, changes):
            yield Row(**row)

    def _header(self, bucket: int) -> tuple[Header, bytes]:
        """The header and, when it is kept beside it, the snapshot."""
        expected = self.blueprint.fingerprint()
        # Spark warns when an entry is asked for that is not there: look first, unless this worker
        # has seen the bucket.
        seen = (self.identity, bucket) in _CACHE or self.entries.containsKey((HEADER,))
        held = self._entry(HEADER) if seen else None
        if held is None:
            return Header(expected), b""
        text, _, snapshot = held.partition(b"\n")
        header = Header(**json.loads(text))
        if header.fingerprint != expected:
            raise ValueError(
                "the checkpoint belongs to another query: it was written with "
                f"{header.fingerprint}, and this query has {expected}: use a new checkpoint "
                "folder, or the query as it was"
            )
        return header, snapshot

    def _entry(self, number: int) -> bytes | None:
        held = self.entries.getValue((number,))
        return None if held is None else bytes(held[0])

    def _rebuilt(self, header: Header, snapshot: bytes) -> BucketOperator:
        """The operator that snapshot and log describe."""
        if not header.nonce:
            return self.blueprint.make()
        data = snapshot or self._entry(SNAPSHOT)
        assert data is not None
        operator = self.blueprint.restore(data)
        for number in range(header.logged):
            logged = self._entry(LOG + number)
            assert logged is not None
            _step(operator, *_from_log(logged))
        return operator

    def _save(
        self,
        header: Header,
        snapshot: bytes,
        operator: BucketOperator,
        batch: list[tuple[int, bytes]],
        now: int,
    ) -> None:
        size = sum(len(chunk) for _, chunk in batch)
        if header.log_bytes + size < header.snapshot_bytes:
            self.entries.updateValue((LOG + header.logged,), (_to_log(batch, now),))
            header.logged += 1
            header.log_bytes += max(size, 1)
        else:
            snapshot = operator.snapshot()
            header.logged, header.log_bytes = 0, 0  # older log entries are overwritten in time
            header.snapshot_bytes = len(snapshot)
            if len(snapshot) > BESIDE_HEADER:
                self.entries.updateValue((SNAPSHOT,), (snapshot,))
                snapshot = b""
        header.nonce = uuid.uuid4().hex
        if self.idle_timeout is not None:
            self._keep_timer(header, batch, now)
        text = json.dumps(asdict(header)).encode()
        self.entries.updateValue((HEADER,), (text + b"\n" + snapshot,))

    def _keep_timer(self, header: Header, batch: list[tuple[int, bytes]], now: int) -> None:
        # One timer a bucket: when it fires early, because rows came since, it is set again.
        assert self.idle_timeout is not None
        if batch[0][0] != IDLE:
            header.seen = now
        due = header.seen + self.idle_timeout
        if header.timer <= now < due:
            self.handle.registerTimer(due)
            header.timer = due


def _step(operator: BucketOperator, batch: Iterable[tuple[int, bytes]], now: int) -> list[pa.Table]:
    entries = list(batch)
    if entries[0][0] == IDLE:
        return operator.idle(now)
    return operator.process([(side, chunks.from_bytes(chunk)) for side, chunk in entries], now)


def _to_log(batch: list[tuple[int, bytes]], now: int) -> bytes:
    table = pa.table(
        {
            "now": pa.array([now] * len(batch), pa.int64()),
            "side": pa.array([side for side, _ in batch], pa.int32()),
            "chunk": pa.array([chunk for _, chunk in batch], pa.binary()),
        }
    )
    return chunks.to_bytes(table)


def _from_log(data: bytes) -> tuple[list[tuple[int, bytes]], int]:
    columns = chunks.from_bytes(data).to_pydict()
    return list(zip(columns["side"], columns["chunk"], strict=True)), columns["now"][0]


def _difference(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {name: count - before.get(name, 0) for name, count in after.items()}


def _answer_rows(outputs: Iterable[pa.Table], changes: dict[str, int]) -> Iterator[dict[str, Any]]:
    """Rows (chunk, counters): the counters come once, with the first chunk or without any."""
    nothing = dict.fromkeys(changes, 0)
    filled = [table for table in outputs if table.num_rows]
    if not filled and not any(changes.values()):
        return
    first = chunks.to_bytes(filled[0]) if filled else None
    yield {"chunk": first, **changes}
    for table in filled[1:]:
        yield {"chunk": chunks.to_bytes(table), **nothing}


_CACHE: OrderedDict[tuple[str, int], tuple[str, BucketOperator]] = OrderedDict()


def _cached(identity: str, bucket: int, nonce: str) -> BucketOperator | None:
    """Take this bucket's operator out of the cache, if it is the one the state describes."""
    held = _CACHE.pop((identity, bucket), None)
    return held[1] if held is not None and nonce and held[0] == nonce else None


def _cache(identity: str, bucket: int, nonce: str, operator: BucketOperator) -> None:
    _CACHE[(identity, bucket)] = (nonce, operator)
    while len(_CACHE) > CACHED_OPERATORS:
        _CACHE.popitem(last=False)
