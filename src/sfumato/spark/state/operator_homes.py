"""Every live operator has a home, a Python worker; others send it what is to be done.

Spark gives a partition's task to whichever worker is idle, so that a bucket comes to another worker
in every second micro-batch or so. What the bucket's rows are is small beside its operator: they go
to where the operator is, and the answers come back. The worker with the task writes the state.

A home that is busy with the same query declines, and so gives the operator up: whoever asked
rebuilds it and is its home from then on. So operators spread over the workers that a query has.
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from sfumato.spark.crossing.garbage import behind_batch
from sfumato.spark.state import siblings
from sfumato.spark.state.bucket_steps import Done, Entries, advanced
from sfumato.spark.state.operator_cache import CACHE

if TYPE_CHECKING:  # a process beside the driver imports this, and must not import kernels
    from sfumato.tables.operator import BatchOperator

LEAST_WORK = 50
# Of each query: held while one of its operators is at work here.
_AT_WORK: defaultdict[str, threading.RLock] = defaultdict(threading.RLock)


class Turn(NamedTuple):
    """One micro-batch of one operator.

    nonce, after : of the state that the operator must be, and of the one that it will be
    now : processing time, ms    whole : whether a snapshot is wanted behind it
    size : bytes of the state before
    """

    query: str
    bucket: int
    nonce: str
    after: str
    now: int
    whole: bool
    size: int


@dataclass
class Resident:
    """An operator that lives here, and the bytes that it takes.

    They are measured again once the work since then took LEAST_WORK times as long as measuring
    them: an operator of many keys is not looked through for the few that have rows.
    """

    operator: BatchOperator
    size: int = 0
    worked: float = 0.0  # seconds since the size was measured
    measuring: float = 0.0  # seconds that this took

    def takes(self, turn: Turn, batch: Entries) -> Done:
        """What the operator does with a micro-batch."""
        start = time.perf_counter()
        done = advanced(self.operator, batch, turn.now, turn.whole)
        end = time.perf_counter()
        self.worked += end - start
        if self.worked > LEAST_WORK * self.measuring:
            self.size = self.operator.nbytes
            self.worked, self.measuring = 0.0, time.perf_counter() - end
        return done


def home() -> str:
    """The name of this worker as a home; "" where workers cannot ask each other."""
    return siblings.listen(_answered)


def taken(turn: Turn, batch: Entries) -> Done | None:
    """What the operator does that lives here; None if it does not."""
    resident = CACHE.take(turn.query, turn.bucket, turn.nonce)
    return None if resident is None else _lives_on(resident, turn, batch)


def taken_by(operator: BatchOperator, turn: Turn, batch: Entries) -> Done:
    """What an operator does, which lives here from now on."""
    return _lives_on(Resident(operator), turn, batch)


def _lives_on(resident: Resident, turn: Turn, batch: Entries) -> Done:
    with _AT_WORK[turn.query]:
        done = resident.takes(turn, batch)
    saved = turn.size if done.snapshot is None else len(done.snapshot)
    size = max(saved, resident.size)
    behind_batch(CACHE.put(turn.query, turn.bucket, turn.after, resident, size))
    return done


def taken_at(name: str, turn: Turn, batch: Entries) -> Done | None:
    """What the operator does at its home; None if that declines, or is not there any more."""
    sides = [side for side, _ in batch]
    request = [json.dumps([turn, sides]).encode(), *(chunk for _, chunk in batch)]
    reply = siblings.ask(name, request)
    if not reply:
        return None
    whole, changes, gauges, held, took = json.loads(reply[0])
    return Done(reply[1 + whole :], changes, gauges, reply[1] if whole else None, held, took)


def _answered(request: Sequence[bytes]) -> list[bytes]:
    """The reply to who has the task: empty where it has to rebuild the operator."""
    fields, sides = json.loads(request[0])
    turn = Turn(*fields)
    at_work = _AT_WORK[turn.query]
    if not at_work.acquire(blocking=False):
        CACHE.take(turn.query, turn.bucket, turn.nonce)
        return []
    try:
        done = taken(turn, list(zip(sides, request[1:], strict=True)))
    except Exception:  # will come again where the operator is rebuilt, and there it has a task
        return []
    finally:
        at_work.release()
    if done is None:
        return []
    snapshot = [] if done.snapshot is None else [done.snapshot]
    first = json.dumps([len(snapshot), done.changes, done.gauges, done.held, done.took]).encode()
    return [first, *snapshot, *done.chunks]
