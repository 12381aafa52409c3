"""What operators counted is read by name, from a query's report and from one by Spark Connect."""

from __future__ import annotations

from types import SimpleNamespace

from pyspark.sql import Row

from sfumato.observed import observed

COUNTED = {"rows": 40, "invalid": 10, "reason": "no number"}
FIELDS = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in COUNTED]
BY_CONNECT = {"values": list(COUNTED.values()), "schema": {"type": "struct", "fields": FIELDS}}


def test_figures_are_the_same_however_a_report_holds_them():
    for held in (Row(**COUNTED), COUNTED, BY_CONNECT, Row(**BY_CONNECT)):
        metrics = {"sfumato_window_1_input": held}
        for report in ({"observedMetrics": metrics}, SimpleNamespace(observedMetrics=metrics)):
            assert observed(report) == {"sfumato_window_1_input": COUNTED}


def test_a_report_without_figures_has_none():
    assert observed({}) == {}
    assert observed(SimpleNamespace(observedMetrics=None)) == {}


def test_figures_that_are_called_values_and_schema_stay_what_they_are():
    report = {"observedMetrics": {"mine": {"values": 3, "schema": 4}}}
    assert observed(report) == {"mine": {"values": 3, "schema": 4}}
