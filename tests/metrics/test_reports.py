"""Reports give each operator's counts by name, and each report is read once."""

from types import SimpleNamespace

from pyspark.sql import Row

from sfumato.reports import OperatorPart, QueryRun, metrics_of, parts_of

COUNTED = {"rows": 40, "invalid": 10, "reason": "no number"}
FIELDS = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in COUNTED]
BY_CONNECT = {"values": list(COUNTED.values()), "schema": {"type": "struct", "fields": FIELDS}}


def test_metrics_are_the_same_however_a_report_holds_them():
    for held in (Row(**COUNTED), COUNTED, BY_CONNECT, Row(**BY_CONNECT)):
        metrics = {"sfumato_window_1_input": held}
        for report in ({"observedMetrics": metrics}, SimpleNamespace(observedMetrics=metrics)):
            assert metrics_of(report) == {"sfumato_window_1_input": COUNTED}


def test_a_report_without_metrics_has_none():
    assert metrics_of({}) == {}
    assert metrics_of(SimpleNamespace(observedMetrics=None)) == {}


def test_metrics_that_are_called_values_and_schema_stay_what_they_are():
    report = {"observedMetrics": {"mine": {"values": 3, "schema": 4}}}
    assert metrics_of(report) == {"mine": {"values": 3, "schema": 4}}


def row(kind, operator, side, rows):
    return {"kind": kind, "operator": operator, "step": 1, "side": side, "rows": rows}


def test_the_operator_of_a_row_is_read_from_its_fields():
    rows = {
        "sfumato_reorder_x__in_window_a": row("reorder", "reorder_x", "", 1),
        "sfumato_newest_left_input": row("newest", "newest_left", "input", 2),
        "sfumato_newest_left": row("newest", "newest_left", "", 3),
        "sfumato_reorder_x__in_top_k_b": row("reorder", "reorder_x", "", 4),
        "sfumato_rows_out": {"rows": 5},
        "mine": {"rows": 6},
    }
    assert parts_of(rows) == {
        OperatorPart("reorder", "reorder_x"): {"rows": 1},
        OperatorPart("newest", "newest_left", "input"): {"rows": 2},
        OperatorPart("newest", "newest_left"): {"rows": 3},
        OperatorPart("reorder", "reorder_x__in_top_k_b"): {"rows": 4},
    }


class Asked:
    """A query with one more report after each access."""

    def __init__(self):
        self.times = []

    @property
    def lastProgress(self):  # noqa: N802 - Spark's name
        last = report(self.times[-1]) if self.times else None
        self.times.append(len(self.times))
        return last

    @property
    def recentProgress(self):  # noqa: N802
        return [report(time) for time in self.times]


def report(number):
    return SimpleNamespace(timestamp=f"2026-01-01T00:00:{number:02d}.000Z", number=number)


def test_each_report_is_returned_once():
    run = QueryRun(Asked())
    came = [r.number for _ in range(20) for r in run.new_reports()]
    assert came == list(range(len(came)))
    assert len(came) > 15


def test_a_query_without_news_has_none():
    quiet = SimpleNamespace(lastProgress=report(3), recentProgress=[report(2), report(3)])
    run = QueryRun(quiet)
    assert [r.number for r in run.new_reports()] == [2, 3]
    assert run.new_reports() == []
    assert QueryRun(SimpleNamespace(lastProgress=None, recentProgress=[])).new_reports() == []
