"""Metrics as Prometheus text, OpenTelemetry instruments and JSON lines, and their HTTP server.

Prometheus and OpenTelemetry need the extras `metrics` and `opentelemetry`; without them a call
raises ImportError.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from sfumato.metrics.history import FIRST_BIN_S
from sfumato.metrics.names import COUNTER, METRICS, MetricDefinition, operator_counter
from sfumato.metrics.progress import PartTotals
from sfumato.metrics.session_metrics import QueryMetrics, SessionMetrics
from sfumato.reports import ANSWERS_SUFFIX, REORDER, OperatorPart

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter, Observation
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric as Family

SIZE_NAMES = ("window_size", "window_rows")  # gauges that are exported under their own names
TIME_GAUGES = {  # gauges in microseconds
    "lag": "reorder_lag_seconds",
    "oldest": "reorder_oldest_timestamp_seconds",
    "punctuation": "reorder_punctuation_timestamp_seconds",
    "waited": "reorder_oldest_wait_seconds",
    "due": "ranking_due_timestamp_seconds",
}
OTHER_METRICS = ("held", "latency")  # counters that are exported under different names


class Sample(NamedTuple):
    """A value of a metric, with labels in the metric's order."""

    metric: MetricDefinition
    labels: tuple[str, ...]
    value: float


def samples(metrics: SessionMetrics) -> list[Sample]:
    """Return a consistent snapshot of all metrics."""
    with metrics.locked():
        found = [sample for query in metrics.queries() for sample in _query_samples(query)]
    return [s._replace(labels=tuple(map(metrics.hide, s.labels))) for s in found]


def _query_samples(query: QueryMetrics) -> Iterator[Sample]:
    name, newest = query.name, query.newest
    values: dict[str, float] = {
        "rows_in": query.rows_in,
        "rows_out": query.rows_out,
        "batches": query.batches,
        "batch_duration_seconds": query.busy,
        "active": query.active,
        "failed": query.error is not None,
    }
    if newest is not None and query.reported is not None:
        values["batch_seconds"] = newest.seconds
        values["batch_end_timestamp_seconds"] = query.reported
        values["state_memory_bytes"] = newest.state.get("memory", 0)
        values["state_disk_bytes"] = newest.state.get("disk", 0)
        values["state_rows"] = newest.state.get("rows", 0)
        for phase, seconds in newest.parts.items():
            yield Sample(METRICS["batch_part_seconds"], (name, phase), seconds)
    for metric, value in values.items():
        yield Sample(METRICS[metric], (name,), float(value))
    for part, totals in query.operators.items():
        if part.side == ANSWERS_SUFFIX:
            for ranking, count in totals.counters.items():
                labels = (name, part.operator, ranking)
                yield Sample(METRICS["ranking_answers"], labels, count)
        else:
            yield from _part_samples(part, totals, (name, part.operator, part.side))


def _part_samples(
    part: OperatorPart, totals: PartTotals, labels: tuple[str, ...]
) -> Iterator[Sample]:
    counters, gauges = {**totals.counters, **totals.batch_totals}, totals.gauges
    for counter, count in counters.items():
        if counter not in OTHER_METRICS:
            yield Sample(operator_counter(counter), labels, count)
    values = {gauge: gauges.get(gauge) for gauge in SIZE_NAMES}
    for gauge, metric in TIME_GAUGES.items():
        values[metric] = None if gauges.get(gauge) is None else gauges[gauge] / 1e6
    values["operator_keys"] = totals.keys or None  # 0: no key
    if "latency" in counters:  # microseconds
        values["ranking_latency_seconds"] = counters["latency"] / 1e6
    if part.kind == REORDER:
        values["reorder_held_rows"] = counters.get("held")
        values["late_share"] = totals.late_share
    if totals.waits:
        values["reorder_wait_seconds_count"] = sum(totals.waits)
        *starts, everything = accumulate(totals.waits)
        for number, rows in enumerate(starts):
            end = str(FIRST_BIN_S * 2**number)
            yield Sample(METRICS["reorder_wait_seconds_bucket"], (*labels, end), rows)
        yield Sample(METRICS["reorder_wait_seconds_bucket"], (*labels, "+Inf"), everything)
    for metric, value in values.items():
        if value is not None:
            yield Sample(METRICS[metric], labels, float(value))


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def build_registry(metrics: SessionMetrics) -> CollectorRegistry:
    from prometheus_client import CollectorRegistry

    found = CollectorRegistry(auto_describe=False)
    found.register(_Collector(metrics))
    return found


def prometheus_text(metrics: SessionMetrics) -> bytes:
    from prometheus_client import generate_latest

    return generate_latest(build_registry(metrics))


def write_prometheus(metrics: SessionMetrics, file: Path) -> None:
    """Replace a `*.prom` file for the node exporter, atomically."""
    from prometheus_client import write_to_textfile

    write_to_textfile(str(file), build_registry(metrics))


class _Collector:
    def __init__(self, metrics: SessionMetrics) -> None:
        self.metrics = metrics

    def collect(self) -> Iterator[Family]:
        from prometheus_client.core import Metric as Family

        families: dict[str, Any] = {}
        places = {metric: place for place, metric in enumerate(METRICS.values())}
        found = sorted(samples(self.metrics), key=lambda s: places.get(s.metric, len(places)))
        for metric, labels, value in found:
            name = metric.family
            if name not in families:
                families[name] = Family(name, metric.about, metric.kind)
            named = dict(zip(metric.labels, labels, strict=True))
            families[name].add_sample(metric.exposed, named, value)
        yield from families.values()


def instrument(metrics: SessionMetrics, meter: Meter) -> None:
    """Register the metrics with a meter, under their Prometheus names."""
    collection = _Collection(metrics)
    for metric in METRICS.values():
        is_counter = metric.kind == COUNTER
        make = meter.create_observable_counter if is_counter else meter.create_observable_gauge
        make(metric.name, callbacks=[collection.reader(metric)], description=metric.about)


class _Collection:
    """A snapshot of the samples; each instrument reads its own samples once per snapshot."""

    def __init__(self, metrics: SessionMetrics) -> None:
        self._metrics, self._lock = metrics, Lock()
        self._unread: dict[MetricDefinition, list[Sample]] = {}

    def reader(self, metric: MetricDefinition) -> Callable[[Any], Iterator[Observation]]:
        def read(_: Any) -> Iterator[Observation]:
            from opentelemetry.metrics import Observation

            for _, labels, value in self._take(metric):
                yield Observation(value, dict(zip(metric.labels, labels, strict=True)))

        return read

    def _take(self, metric: MetricDefinition) -> list[Sample]:
        with self._lock:
            if metric not in self._unread:
                self._unread = {known: [] for known in METRICS.values()}
                for sample in samples(self._metrics):
                    self._unread.setdefault(sample.metric, []).append(sample)
            return self._unread.pop(metric)


def json_lines(metrics: SessionMetrics) -> Iterator[str]:
    """Yield one JSON object per sample, with Prometheus names."""
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    for metric, values, value in samples(metrics):
        labels = dict(zip(metric.labels, values, strict=True))
        sample = {"at": at, "name": metric.exposed, "labels": labels, "value": value}
        yield json.dumps(sample, ensure_ascii=False)


def append_json_lines(metrics: SessionMetrics, file: Path) -> None:
    with file.open("a", encoding="utf-8") as out:
        out.writelines(f"{line}\n" for line in json_lines(metrics))


WRITE_SECONDS = 10.0  # seconds between two writes of a file
MAX_SCRAPES = 32  # concurrent connections
SCRAPE_SECONDS = 10.0  # maximum time for a request and its response
WRITERS = {".prom": write_prometheus, ".jsonl": append_json_lines}  # by file suffix


@contextmanager
def served(
    metrics: SessionMetrics,
    *,
    port: int | None = None,
    file: Path | None = None,
    every: float = WRITE_SECONDS,
) -> Iterator[int | None]:
    """Serve metrics at http://127.0.0.1:PORT/metrics and in a file, and yield the port.

    port : 0 for a free port, None for no server     every : seconds between two writes
    file : `*.prom`, replaced atomically for the node exporter, or `*.jsonl`, to which lines are
        appended
    Raises ValueError for other suffixes, OSError for a port in use, and ImportError without the
    extra `metrics`.
    """
    if file is not None and file.suffix not in WRITERS:
        raise ValueError(
            f"the name of a metrics file must end in {' or '.join(WRITERS)}; got {file.name!r}"
        )
    with ExitStack() as stack:
        if port is not None:
            port = stack.enter_context(_serve_http(metrics, port))
        if file is not None:
            stack.enter_context(_repeat(lambda: WRITERS[file.suffix](metrics, file), every))
        yield port


class MetricsServer(ThreadingHTTPServer):
    """HTTP server on loopback for one request per connection."""

    request_queue_size = 256  # in the system's queue, without file descriptors of this process
    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self._open: dict[Any, float] = {}  # connection -> start time, oldest first
        self._lock = Lock()
        super().__init__(("127.0.0.1", port), handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open[request] = time.monotonic()
        self.service_actions()
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        limit = time.monotonic() - SCRAPE_SECONDS
        with self._lock:
            surplus = len(self._open) - MAX_SCRAPES
            ending = [
                connection
                for number, (connection, began) in enumerate(self._open.items())
                if number < surplus or began < limit
            ]
            for connection in ending:
                del self._open[connection]
        for connection in ending:  # its thread then ends, and closes the connection
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing, because the client receives the error."""


@contextmanager
def _serve_http(metrics: SessionMetrics, port: int) -> Iterator[int]:
    from prometheus_client import MetricsHandler

    server = MetricsServer(port, MetricsHandler.factory(build_registry(metrics)))
    thread = Thread(target=server.serve_forever, name="sfumato metrics port", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def _repeat(write: Callable[[], None], every: float) -> Iterator[None]:
    """Call `write` at the start, every `every` seconds, and at the end."""
    write()
    over = Event()

    def work() -> None:
        while not over.wait(every):
            write()

    thread = Thread(target=work, name="sfumato metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        write()
