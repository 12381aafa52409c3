"""Figures as Prometheus reads them, through its own client library (extra `metrics`)."""

from collections.abc import Iterable
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest, write_to_textfile
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from sfumato.metrics import names
from sfumato.metrics.figures import Figures
from sfumato.metrics.names import Metric
from sfumato.metrics.samples import Sample, samples

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def registry(figures: Figures) -> CollectorRegistry:
    """A registry that has these figures, as they are whenever it is asked."""
    found = CollectorRegistry(auto_describe=False)
    found.register(_Figures(figures))
    return found


def text(figures: Figures) -> bytes:
    """The figures in Prometheus' text format."""
    return generate_latest(registry(figures))


def write(figures: Figures, file: Path) -> None:
    """The figures into a file `*.prom`, as the node exporter collects them; replaced at once."""
    write_to_textfile(str(file), registry(figures))


class _Figures(Collector):
    def __init__(self, figures: Figures) -> None:
        self.figures = figures

    def collect(self) -> Iterable[Family]:
        found: dict[Metric, list[Sample]] = {metric: [] for metric in names.every_metric()}
        for sample in samples(self.figures):
            found.setdefault(sample.metric, []).append(sample)
        for metric, of_metric in found.items():
            kind = CounterMetricFamily if metric.kind == names.COUNTER else GaugeMetricFamily
            family = kind(metric.name, metric.about, labels=metric.labels)
            for sample in of_metric:
                family.add_metric(list(sample.labels), sample.value)
            if of_metric:
                yield family
