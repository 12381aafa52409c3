"""Export metrics as Prometheus text, OpenTelemetry instruments, and JSON lines.

Prometheus and OpenTelemetry need the extras `metrics` and `opentelemetry`; without them a call
raises ImportError.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from sfumato.metrics.figures import SessionFigures
from sfumato.metrics.names import COUNTER, METRICS, MetricDefinition
from sfumato.metrics.samples import Sample, samples

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter, Observation
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric as Family

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def registry(figures: SessionFigures) -> CollectorRegistry:
    """Return a registry of these metrics, which are read at each collection."""
    from prometheus_client import CollectorRegistry

    found = CollectorRegistry(auto_describe=False)
    found.register(_Collector(figures))
    return found


def prometheus_text(figures: SessionFigures) -> bytes:
    """Return the metrics in Prometheus' text format."""
    from prometheus_client import generate_latest

    return generate_latest(registry(figures))


def write_prometheus(figures: SessionFigures, file: Path) -> None:
    """Atomically replace a file `*.prom` for the node exporter."""
    from prometheus_client import write_to_textfile

    write_to_textfile(str(file), registry(figures))


class _Collector:
    def __init__(self, figures: SessionFigures) -> None:
        self.figures = figures

    def collect(self) -> Iterator[Family]:
        from prometheus_client.core import Metric as Family

        families: dict[str, Any] = {}
        places = {metric: place for place, metric in enumerate(METRICS.values())}
        found = sorted(samples(self.figures), key=lambda s: places.get(s.metric, len(places)))
        for metric, labels, value in found:
            name = metric.family
            if name not in families:
                families[name] = Family(name, metric.about, metric.kind)
            named = dict(zip(metric.labels, labels, strict=True))
            families[name].add_sample(metric.exposed, named, value)
        yield from families.values()


def instrument(figures: SessionFigures, meter: Meter) -> None:
    """Register the metrics with a meter, under their Prometheus names."""
    collection = _Collection(figures)
    for metric in METRICS.values():
        is_counter = metric.kind == COUNTER
        make = meter.create_observable_counter if is_counter else meter.create_observable_gauge
        make(metric.name, callbacks=[collection.reader(metric)], description=metric.about)


class _Collection:
    """The samples of one collection, read once per instrument, in turn."""

    def __init__(self, figures: SessionFigures) -> None:
        self._figures, self._lock = figures, Lock()
        self._unread: dict[MetricDefinition, list[Sample]] = {}

    def reader(self, metric: MetricDefinition) -> Callable[[Any], Iterator[Observation]]:
        """Return the callback of a metric's instrument."""

        def read(_: Any) -> Iterator[Observation]:
            from opentelemetry.metrics import Observation

            for _, labels, value in self._take(metric):
                yield Observation(value, dict(zip(metric.labels, labels, strict=True)))

        return read

    def _take(self, metric: MetricDefinition) -> list[Sample]:
        with self._lock:
            if metric not in self._unread:
                self._unread = {known: [] for known in METRICS.values()}
                for sample in samples(self._figures):
                    self._unread.setdefault(sample.metric, []).append(sample)
            return self._unread.pop(metric)


def json_lines(figures: SessionFigures, now: datetime | None = None) -> Iterator[str]:
    """Yield one JSON object per sample, with Prometheus names."""
    at = (now or datetime.now(UTC)).isoformat(timespec="milliseconds")
    for metric, values, value in samples(figures):
        labels = dict(zip(metric.labels, values, strict=True))
        sample = {"at": at, "name": metric.exposed, "labels": labels, "value": value}
        yield json.dumps(sample, ensure_ascii=False)


def append_json_lines(figures: SessionFigures, file: Path) -> None:
    with file.open("a", encoding="utf-8") as out:
        out.writelines(f"{line}\n" for line in json_lines(figures))
