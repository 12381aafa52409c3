"""OpenTelemetry's own reader sees the figures that Prometheus' text has."""

from __future__ import annotations

import pytest

from sfumato.metrics.figures import Figures
from sfumato.metrics.samples import samples
from spark_reports import reorder, report


def test_a_reader_collects_every_sample_under_its_name_and_labels():
    export = pytest.importorskip("opentelemetry.sdk.metrics.export")
    from opentelemetry.sdk.metrics import MeterProvider

    from sfumato.metrics.open_telemetry import instrument

    figures = Figures()
    observed = reorder(1000, 20, 5, lag=2_500_000)
    figures.take("flights", [report(0, 1000, sfumato_reorder_intake=observed)])
    reader = export.InMemoryMetricReader()
    provider = MeterProvider([reader])
    instrument(figures, provider.get_meter("sfumato"))
    found = {
        (metric.name, tuple(sorted(point.attributes.items()))): point.value
        for resource in reader.get_metrics_data().resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }
    expected = {
        (s.metric.name, tuple(sorted(zip(s.metric.labels, s.labels, strict=True)))): s.value
        for s in samples(figures)
    }
    assert found == expected
    assert len(found) > 10
    provider.shutdown()
