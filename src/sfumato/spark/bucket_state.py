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

import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor

from sfumato.spark import chunks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StatefulProcessorHandle

IDLE = -1  # as a log entry's side: no rows came, the idle timeout passed
CACHED_OPERATORS = 128  # a worker; a miss only costs the rebuild


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


class BucketProcessor(StatefulProcessor):
    """Feeds a bucket's chunks to its operator; keeps snapshot, log and nonce in Spark's state."""

    def __init__(self, blueprint: Blueprint, idle_timeout: int | None) -> None:
        self.blueprint = blueprint
        self.idle_timeout = idle_timeout
        self.identity = uuid.uuid4().hex  # of this operator of this query, in a worker's cache

    def init(self, handle: StatefulProcessorHandle) -> None:
        # This also runs in a process beside the driver: nothing is compiled or imported here.
        self.handle = handle
        self.meta = handle.getValueState(
            "meta",
            "fingerprint string, nonce string, batch long, logged long, saved long, "
            "seen long, timer long",
        )
        self.saved = handle.getValueState("snapshot", "data binary")
        self.log = handle.getListState("log", "batch long, now long, side int, chunk binary")

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
        state = self._state()
        operator = _cached(self.identity, bucket, state["nonce"])
        if operator is None:
            operator = self._rebuilt(state)
        before = operator.counters()
        outputs = _step(operator, batch, now)
        changes = _difference(before, operator.counters())
        self._save(state, operator, batch, now)
        _cache(self.identity, bucket, state["nonce"], operator)
        for row in _answer_rows(outputs, changes):
            yield Row(**row)

    def _state(self) -> dict[str, Any]:
        names = ("fingerprint", "nonce", "batch", "logged", "saved", "seen", "timer")
        held = self.meta.get()
        expected = self.blueprint.fingerprint()
        if held is None:
            return dict(zip(names, (expected, "", 0, 0, 0, 0, 0), strict=True))
        state = dict(zip(names, held, strict=True))
        if state["fingerprint"] != expected:
            raise ValueError(
                "the checkpoint belongs to another query: it was written with "
                f"{state['fingerprint']}, and this query has {expected}: use a new checkpoint "
                "folder, or the query as it was"
            )
        return state

    def _rebuilt(self, state: dict[str, Any]) -> BucketOperator:
        """The operator that snapshot and log describe."""
        if not state["nonce"]:
            return self.blueprint.make()
        held = self.saved.get()
        operator = self.blueprint.make() if held is None else self.blueprint.restore(bytes(held[0]))
        if state["logged"]:
            for batch, now in _log_batches(self.log.get()):
                _step(operator, batch, now)
        return operator

    def _save(
        self,
        state: dict[str, Any],
        operator: BucketOperator,
        batch: list[tuple[int, bytes]],
        now: int,
    ) -> None:
        size = sum(len(chunk) for _, chunk in batch)
        state["batch"] += 1
        if state["logged"] + size < state["saved"]:
            self.log.appendList([(state["batch"], now, side, chunk) for side, chunk in batch])
            state["logged"] += max(size, 1)
        else:
            data = operator.snapshot()
            self.saved.update((data,))
            if state["logged"]:
                self.log.clear()
            state["logged"], state["saved"] = 0, len(data)
        state["nonce"] = uuid.uuid4().hex
        if self.idle_timeout is not None:
            self._keep_timer(state, batch, now)
        self.meta.update(tuple(state.values()))

    def _keep_timer(self, state: dict[str, Any], batch: list[tuple[int, bytes]], now: int) -> None:
        # One timer a bucket: when it fires early, because rows came since, it is set again.
        assert self.idle_timeout is not None
        if batch[0][0] != IDLE:
            state["seen"] = now
        due = state["seen"] + self.idle_timeout
        if state["timer"] <= now < due:
            self.handle.registerTimer(due)
            state["timer"] = due


def _step(operator: BucketOperator, batch: Iterable[tuple[int, bytes]], now: int) -> list[pa.Table]:
    entries = list(batch)
    if entries[0][0] == IDLE:
        return operator.idle(now)
    return operator.process([(side, chunks.from_bytes(chunk)) for side, chunk in entries], now)


def _log_batches(rows: Iterator[Any]) -> Iterator[tuple[list[tuple[int, bytes]], int]]:
    batch: list[tuple[int, bytes]] = []
    current, time = None, 0
    for number, now, side, chunk in rows:
        if number != current and batch:
            yield batch, time
            batch = []
        current, time = number, now
        batch.append((side, bytes(chunk)))
    if batch:
        yield batch, time


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
