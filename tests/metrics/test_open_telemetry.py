"""OpenTelemetry's own reader collects the same metrics as the Prometheus text."""

import pytest

from sfumato.metrics import exporters
from sfumato.metrics.exporters import samples
from sfumato.metrics.session_metrics import SessionMetrics
from spark_reports import reorder, report

export = pytest.importorskip("opentelemetry.sdk.metrics.export")


@pytest.fixture
def metrics():
    found = SessionMetrics()
    waits = ",".join(["0,5", *"0" * 30])
    observed = reorder(1000, 20, 5, lag=2_500_000, waits=waits)
    found.take("flights", [report(0, 1000, sfumato_reorder_intake=observed)])
    return found


@pytest.fixture
def collect(metrics):
    from opentelemetry.sdk.metrics import MeterProvider

    reader = export.InMemoryMetricReader()
    provider = MeterProvider([reader])
    exporters.instrument(metrics, provider.get_meter("sfumato"))

    def collected():
        return {
            (metric.name, tuple(sorted(point.attributes.items()))): point.value
            for resource in reader.get_metrics_data().resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in metric.data.data_points
        }

    yield collected
    provider.shutdown()


def test_a_reader_collects_every_sample_under_its_name_and_labels(metrics, collect):
    found = collect()
    assert found == {
        (s.metric.name, tuple(sorted(zip(s.metric.labels, s.labels, strict=True)))): s.value
        for s in samples(metrics)
    }
    assert len(found) > 40


def test_all_samples_of_a_collection_are_computed_once(metrics, collect, monkeypatch):
    computed = []

    def counted(of):
        computed.append(of)
        return samples(of)

    monkeypatch.setattr(exporters, "samples", counted)
    rows = ("sfumato_rows_in", (("query", "flights"),))
    assert collect()[rows] == 1000
    metrics.take("flights", [report(1, 500)])
    assert collect()[rows] == 1500
    assert computed == [metrics] * 2
