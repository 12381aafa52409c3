"""Metrics: metrics from reports, their names, and the formats that other systems read."""

import itertools
import json
import re
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from sfumato.metrics import names
from sfumato.metrics.exporters import OTHER_METRICS, json_lines, prometheus_text, served
from sfumato.metrics.history import MAX_POINTS, QUANTILES, RecentWaits, quantile
from sfumato.metrics.session_metrics import QueryMetrics, SessionMetrics
from sfumato.operators.disorder.statistics import WAIT_BINS, wait_bins
from sfumato.tables.operator import TableConfig
from spark_reports import part, reorder, report

DOCS = Path(__file__).resolve().parents[2] / "docs"


WAITS = ",".join(["0,0,0,98,0,0,0,0,0,0,0,2", *"0" * 20])  # 98 of 4 to 8 ms, 2 of 1 to 2 s
NONE = ",".join("0" * 32)
WINDOW = {"window_size": 14, "window_rows": 10, "due": 60_000_000, "timetable": None}


@pytest.fixture
def metrics():
    found = SessionMetrics()
    intake = {"lag": 2_500_000, "punctuation": 7_000_000, "waited": 9_000_000, "waits": WAITS}
    first = report(
        0,
        10,
        sfumato_rows_out={"rows": 4},
        sfumato_reorder_intake=reorder(10, 1, 5, **intake, keys=7, new_keys=7),
        sfumato_join_near={"rows": 4, "pairs": 1, "opposite": 40, "compared": 10, **WINDOW},
        sfumato_join_near_left={"rows": 4, "invalid": 3},
        sfumato_top_k_5_answers={"best three": 2},
    )
    second = report(
        1,
        5,
        sfumato_rows_out={"rows": 6},
        sfumato_reorder_intake=reorder(5, 2, -1, keys=2, new_keys=1, waited=1_000_000, waits=NONE),
        sfumato_join_near={"rows": 0, "pairs": 0, "opposite": 10, "compared": 5},
    )
    found.take("out", [first])
    found.take("out", [first, second])  # a repeated report
    found.take("other", [report(0, 1)])
    found.ended("other", "no disk")
    return found


def sampled(metrics):
    """Return {(name, labels): value} as Prometheus' own parser reads the text."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(prometheus_text(metrics).decode())
        for sample in family.samples
    }


def test_prometheus_reads_what_the_reports_said(metrics):
    found = sampled(metrics)
    out = ("query", "out")
    intake = (("operator", "reorder_intake"), out, ("side", ""))
    assert found["sfumato_rows_in_total", (out,)] == 15
    assert found["sfumato_rows_out_total", (out,)] == 10
    assert found["sfumato_batches_total", (out,)] == 2
    assert found["sfumato_batch_duration_seconds_total", (out,)] == 1.0
    assert found["sfumato_batch_part_seconds", (("part", "addBatch"), out)] == 0.4
    assert found["sfumato_state_memory_bytes", (out,)] == 100
    assert found["sfumato_state_disk_bytes", (out,)] == 140
    assert found["sfumato_operator_rows_total", intake] == 15
    assert found["sfumato_operator_late_total", intake] == 3
    assert found["sfumato_reorder_held_rows", intake] == 4
    assert found["sfumato_reorder_oldest_wait_seconds", intake] == 1.0
    buckets = {
        float(dict(labels)["le"]): value
        for (name, labels), value in found.items()
        if name == "sfumato_reorder_wait_seconds_bucket"
    }
    assert list(buckets) == [*(0.001 * 2**i for i in range(31)), float("inf")]
    assert [buckets[0.001 * 2**i] for i in (2, 3, 10, 11, 30)] == [0, 98, 98, 100, 100]
    assert buckets[float("inf")] == found["sfumato_reorder_wait_seconds_count", intake] == 100
    assert found["sfumato_operator_keys", intake] == 8
    near = (("operator", "join_near"), out, ("side", ""))
    assert found["sfumato_operator_opposite_total", near] == 50
    assert found["sfumato_operator_compared_total", near] == 15
    assert found["sfumato_window_size", near] == 14  # from the newest micro-batch with answers
    assert found["sfumato_window_rows", near] == 10
    assert found["sfumato_ranking_due_timestamp_seconds", near] == 60
    assert found["sfumato_late_share", intake] == pytest.approx(0.2)
    side = (("operator", "join_near"), out, ("side", "left"))
    assert found["sfumato_operator_invalid_total", side] == 3
    ranked = (("operator", "top_k_5"), out, ("ranking", "best three"))
    assert found["sfumato_ranking_answers_total", ranked] == 2
    assert found["sfumato_active", (out,)] == 1
    other = ("query", "other")
    assert found["sfumato_active", (other,)] == 0
    assert found["sfumato_failed", (other,)] == 1


def test_the_lag_of_the_punctuation_is_that_of_the_newest_micro_batch(metrics):
    intake = (("operator", "reorder_intake"), ("query", "out"), ("side", ""))
    late = reorder(5, 2, -1, lag=1_500_000, punctuation=8_000_000)
    metrics.take("out", [report(2, 5, sfumato_reorder_intake=late)])
    found = sampled(metrics)
    assert found["sfumato_reorder_lag_seconds", intake] == 1.5
    assert found["sfumato_reorder_punctuation_timestamp_seconds", intake] == 8.0


def test_a_quantile_of_waits_is_within_a_factor_of_two():
    assert quantile([], 0.5) is None
    assert quantile([3, 0, 0], 0.99) == 0.0
    rng = np.random.default_rng(seed=5)
    waits = (10 ** rng.uniform(3, 11, 5_000)).astype(np.int64)  # 1 ms to a day, in microseconds
    counts = np.bincount(wait_bins(waits), minlength=WAIT_BINS).tolist()
    for share in QUANTILES:
        exact = np.quantile(waits, share, method="inverted_cdf") / 1e6
        assert exact / 2 <= quantile(counts, share) <= exact * 2


def test_keys_are_at_least_those_that_came_and_those_of_the_buckets_with_rows():
    progress = QueryMetrics()
    for number, (keys, new) in enumerate([(5, 5), (3, 1), (90, 0), (4, -2), (None, None)]):
        observed = {"rows": 1, "keys": keys, "new_keys": new}
        progress.take([report(number, 1, sfumato_window_1=observed)])
        assert progress.operators[part("sfumato_window_1")].keys == [5, 6, 90, 88, 88][number]


def test_old_waits_are_dropped():
    recent = RecentWaits()
    recent.add([4, 0], 0.0)
    recent.add([0, 1], 250.0)
    assert recent.counts == [4, 1]
    recent.add([0, 2], 301.0)
    assert recent.counts == [0, 3]


def test_json_lines_have_the_same_samples(metrics):
    found = {}
    for line in map(json.loads, json_lines(metrics)):
        labels = tuple(sorted(line["labels"].items()))
        found[line["name"], labels] = line["value"]
    assert found == sampled(metrics)


def test_a_latency_is_in_seconds():
    metrics = SessionMetrics()
    metrics.take("q", [report(0, 1, sfumato_top_k_1={"rows": 1, "latency": 2_500_000})])
    of = (("operator", "top_k_1"), ("query", "q"), ("side", ""))
    assert sampled(metrics)["sfumato_ranking_latency_seconds_total", of] == 2.5


def test_an_operator_that_a_query_has_twice_has_two_names():
    metrics = SessionMetrics()
    twice = {"sfumato_reorder_in__in_window_a": {"rows": 1}, "sfumato_reorder_in": {"rows": 2}}
    metrics.take("q", [report(0, 3, **twice)])
    found = sampled(metrics)
    for name, rows in (("reorder_in", 2), ("reorder_in__in_window_a", 1)):
        of = (("operator", name), ("query", "q"), ("side", ""))
        assert found["sfumato_operator_rows_total", of] == rows


def test_metrics_are_served_on_loopback_and_written_to_files(metrics, tmp_path):
    prom, grown = tmp_path / "sfumato.prom", tmp_path / "sfumato.jsonl"
    with served(metrics, port=0, file=prom) as port, served(metrics, file=grown):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert b'sfumato_rows_in_total{query="out"} 15.0' in answer.read()
        before = prom.read_text()
        metrics.take("out", [report(2, 100)])
    assert 'sfumato_rows_in_total{query="out"} 15.0' in before
    assert 'sfumato_rows_in_total{query="out"} 115.0' in prom.read_text()  # written at the end
    values = [json.loads(line) for line in grown.read_text().splitlines()]
    rows = [v["value"] for v in values if v["name"] == "sfumato_rows_in_total"]
    assert rows == [15, 1, 115, 1]
    with (
        pytest.raises(ValueError, match=r"must end in .prom or .jsonl"),
        served(metrics, file=tmp_path / "x.txt"),
    ):
        pass


def test_a_query_of_hours_keeps_a_bounded_number_of_points():
    metrics = SessionMetrics()
    for batch in range(3 * MAX_POINTS):
        metrics.take("q", [report(batch, 1, sfumato_reorder_1=reorder(1, 0, 1, lag=batch))])
    (query,) = metrics.queries()
    points = query.points
    assert len(points) <= MAX_POINTS
    assert sum(point.rows_in for point in points) == 3 * MAX_POINTS
    assert sum(point.batches for point in points) == 3 * MAX_POINTS
    assert points[-1].held == 3 * MAX_POINTS
    assert points[-1].lag == pytest.approx((3 * MAX_POINTS - 1) / 1e6)


def test_a_stalled_operator_is_reported():
    metrics = SessionMetrics()
    first = report(0, 9, sfumato_reorder_1=reorder(9, 0, 9, oldest=0, slowest="b"))
    metrics.take("q", [first])
    (query,) = metrics.queries()
    for waiting in query.stalls._reorders.values():
        waiting.patience = 0.0
    query.detect_stalls()
    ((_, sentence),) = query.messages
    assert "reorder_1 has emitted no in-order rows" in sentence
    assert "the operator waits for b" in sentence


# ---- names, docs, dashboard --------------------------------------------------------------------


def every_counter():
    """Return the counters of the library's own operators; other tests define more operators."""
    open_, found = [TableConfig], set()
    while open_:
        kind = open_.pop()
        open_ += kind.__subclasses__()
        counters = kind.__dict__.get("counters")
        ours = kind.__module__.startswith("sfumato.")
        found |= set(counters) if ours and isinstance(counters, tuple) else set()
    return found


def test_every_counter_of_every_operator_has_a_meaning():
    import sfumato.api.joins  # noqa: F401 - defines all table operators

    missing = every_counter() - set(names.COUNTER_TEXTS) - set(OTHER_METRICS)
    assert not missing


def rows_of_table(page, head):
    """Return the cells, by row, of a table in the docs."""
    text = (DOCS / page).read_text()
    lines = text[text.index(head) :].splitlines()[2:]
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines)
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def test_the_table_of_the_docs_has_every_metric():
    assert rows_of_table("metrics.md", "| metric | kind | labels | meaning |") == [
        [f"`{of.exposed}`", of.kind, ", ".join(f"`{label}`" for label in of.labels), of.about]
        for of in names.METRICS.values()
    ]


def test_the_states_of_rows_have_the_meanings_of_their_counters():
    head = "| state | condition | what happens | counter |"
    states = rows_of_table("reference/semantics/row-states.md", head)
    assert len(states) > 5
    for name, _, _, counter in states:
        about = names.COUNTER_TEXTS.get(name, names.OPERATOR_GAUGES["reorder_held_rows"])
        assert counter == f"`{name}`: {about}"


@pytest.fixture
def monitoring():
    """Return the panels of the dashboard and the rules of the alerts."""
    yaml = pytest.importorskip("yaml")
    folder = DOCS / "monitoring"
    (group,) = yaml.safe_load((folder / "alerts.yml").read_text())["groups"]
    return json.loads((folder / "grafana.json").read_text())["panels"], group["rules"]


def test_the_dashboard_and_the_alerts_use_metrics_that_exist(monitoring):
    panels, rules = monitoring
    charts = [line["expr"] for panel in panels for line in panel["targets"]]
    alerts = [rule["expr"] for rule in rules]
    assert len(panels) > 10
    assert len(alerts) > 5
    known = {metric.exposed for metric in names.METRICS.values()}
    for expression in charts + alerts:
        used = set(re.findall(r"sfumato_\w+", expression))
        assert used, expression
        assert used <= known, expression


def test_panels_and_alerts_have_different_names(monitoring):
    panels, rules = monitoring
    for values in (
        [panel["id"] for panel in panels],
        [panel["title"] for panel in panels],
        [tuple(panel["gridPos"].values()) for panel in panels],
        [rule["alert"] for rule in rules],
    ):
        assert len(set(values)) == len(values)
    assert all(rule["annotations"]["summary"] for rule in rules)
