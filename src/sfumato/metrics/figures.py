"""The figures of all streaming queries of a session, taken from reports, read by any thread."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, NamedTuple

from sfumato.metrics.held_back import HeldBack
from sfumato.metrics.history import History
from sfumato.metrics.progress import STAYS, WAITS, MicroBatch, QueryProgress
from sfumato.metrics.waits import RecentWaits
from sfumato.observed import PREFIX, SIDE, operator_name

ANSWERS = "_answers"


class Operator(NamedTuple):
    """An operator by what its metrics are called: its name in labels, and one of its sides."""

    name: str
    side: str
    answers: bool


def operator_of(metric: str) -> Operator:
    """The operator of an observed metric, `sfumato_join_3_left` say."""
    name = metric.removeprefix(PREFIX)
    answers = name.endswith(ANSWERS)
    name = name.removesuffix(ANSWERS)
    found = SIDE.search(name)
    side = "" if found is None else found.group(1)
    return Operator(operator_name(name), side, answers)


@dataclass
class QueryFigures:
    """What is known of one query.

    newest : its newest micro-batch     reported : when it was, seconds since 1970
    heard : the same, seconds of a clock that is never set
    said : what is out of the ordinary, in words     waits : of each reorder
    """

    name: str
    progress: QueryProgress = field(default_factory=QueryProgress)
    newest: MicroBatch | None = None
    gauges: dict[str, dict[str, Any]] = field(default_factory=dict)
    reported: float | None = None
    heard: float = 0.0
    busy: float = 0.0
    active: bool = True
    error: str | None = None
    history: History = field(default_factory=History)
    held_back: HeldBack = field(default_factory=HeldBack)
    said: list[tuple[float, str]] = field(default_factory=list)
    waits: dict[str, RecentWaits] = field(default_factory=dict)

    def take(self, reports: Iterable[Any]) -> None:
        """Take in what is new in some reports."""
        batches = self.progress.take(reports)
        for batch in batches:
            self.newest, self.reported, self.heard = batch, time.time(), time.monotonic()
            self.busy += batch.seconds
            for metric, shown in batch.gauges.items():
                self._show(metric, shown)
            self.history.add(batch, self.reported)
        self._watch(batches)

    def _show(self, metric: str, shown: dict[str, Any]) -> None:
        before = self.gauges.get(metric, {})
        stays = {n: before[n] for n in STAYS if n in before and shown.get(n) is None}
        self.gauges[metric] = shown | stays
        if any(shown.get(WAITS) or ()):
            self.waits.setdefault(metric, RecentWaits()).add(shown[WAITS], time.monotonic())

    def look(self) -> None:
        """Say what takes long by now."""
        if self.active:
            self._watch([])

    def _watch(self, batches: list[MicroBatch]) -> None:
        for sentence in self.held_back.look(batches, time.monotonic()):
            self.said = [*self.said[-9:], (time.time(), sentence)]

    def late_share(self, metric: str) -> float | None:
        """Late rows over the rows that came into an operator; None while there is no row."""
        counts = self.progress.counters.get(metric, {})
        return counts["late"] / counts["rows"] if counts.get("rows") and "late" in counts else None


def hidden_in(tree: Any, hide: Callable[[str], str]) -> Any:
    """Return a JSON value with each of its texts, names included, as `hide` gives it."""
    if isinstance(tree, str):
        return hide(tree)
    if isinstance(tree, dict):
        return {hidden_in(name, hide): hidden_in(value, hide) for name, value in tree.items()}
    if type(tree) in (list, tuple):
        return [hidden_in(value, hide) for value in tree]
    return tree


class Figures:
    """Queries by name; what is read in `with figures.locked()` belongs together."""

    def __init__(self) -> None:
        self.hide: Callable[[str], str] = str  # takes secrets out of texts that others see
        self._lock = RLock()
        self._queries: dict[str, QueryFigures] = {}

    def locked(self) -> RLock:
        """The lock that keeps others from changing anything."""
        return self._lock

    def take(self, name: str, reports: Iterable[Any]) -> None:
        """Take in reports of a query."""
        with self._lock:
            self._of(name).take(reports)

    def started(self, name: str) -> None:
        """A query of that name began, or began again."""
        with self._lock:
            query = self._of(name)
            query.active, query.error = True, None

    def ended(self, name: str, error: str | None) -> None:
        """It ended, by itself or by an error."""
        with self._lock:
            query = self._of(name)
            query.active, query.error = False, error

    def queries(self) -> Iterator[QueryFigures]:
        """Those there are, in the order in which they began; call it under the lock."""
        yield from list(self._queries.values())

    def _of(self, name: str) -> QueryFigures:
        return self._queries.setdefault(name, QueryFigures(name))
