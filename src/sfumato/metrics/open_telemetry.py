"""Figures as OpenTelemetry's instruments, through its own packages (extra `opentelemetry`)."""

from collections.abc import Callable, Iterator

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from sfumato.metrics import names
from sfumato.metrics.figures import Figures
from sfumato.metrics.names import Metric
from sfumato.metrics.samples import samples


def instrument(figures: Figures, meter: Meter) -> None:
    """Let a meter read the figures whenever it collects, under the names that Prometheus has.

    A counter has OpenTelemetry's kind for it, and no ending `_total`, which exporters add.
    """
    for metric in names.every_metric():
        is_counter = metric.kind == names.COUNTER
        make = meter.create_observable_counter if is_counter else meter.create_observable_gauge
        make(metric.name, callbacks=[_reader(figures, metric)], description=metric.about)


def _reader(figures: Figures, metric: Metric) -> Callable[[CallbackOptions], Iterator[Observation]]:
    def read(_: CallbackOptions) -> Iterator[Observation]:
        for sample in samples(figures):
            if sample.metric == metric:
                labels = dict(zip(metric.labels, sample.labels, strict=True))
                yield Observation(sample.value, labels)

    return read
