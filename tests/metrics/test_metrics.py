"""Metrics: figures from reports, their names, and the forms in which others read them."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from sfumato.metrics import names
from sfumato.metrics.figures import Figures, operator_of
from sfumato.metrics.history import MOST
from sfumato.metrics.lines import lines
from sfumato.metrics.progress import QueryProgress
from sfumato.metrics.prometheus import text
from sfumato.metrics.serve import served
from sfumato.metrics.waits import QUANTILES, RecentWaits, quantile
from sfumato.operators.disorder.waits import BINS, bins
from sfumato.tables.operator import TableConfig
from spark_reports import reorder, report

DOCS = Path(__file__).resolve().parents[2] / "docs"


WAITS = ",".join(["0,0,0,98,0,0,0,0,0,0,0,2", *"0" * 20])  # from 4 to 8 ms, and 1 to 2 s
NONE = ",".join("0" * 32)
WINDOW = {"window_size": 14, "window_rows": 10, "due": 60_000_000, "timetable": None}


@pytest.fixture
def figures():
    found = Figures()
    first = report(
        0,
        10,
        sfumato_rows_out={"rows": 4},
        sfumato_reorder_intake=reorder(
            10,
            1,
            5,
            lag=2_500_000,
            punctuation=7_000_000,
            waited=9_000_000,
            waits=WAITS,
            keys=7,
            new_keys=7,
        ),
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
    found.take("out", [first, second])  # reports come again
    found.take("other", [report(0, 1)])
    found.ended("other", "no disk")
    return found


def sampled(figures):
    """(name, labels) -> value, as Prometheus' own parser reads the text."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text(figures).decode())
        for sample in family.samples
    }


def test_prometheus_reads_what_the_reports_said(figures):
    found = sampled(figures)
    out = ("query", "out")
    intake = (("operator", "reorder_intake"), out, ("side", ""))
    assert found["sfumato_rows_in_total", (out,)] == 15
    assert found["sfumato_rows_out_total", (out,)] == 10
    assert found["sfumato_batches_total", (out,)] == 2
    assert found["sfumato_busy_seconds_total", (out,)] == 1.0
    assert found["sfumato_batch_part_seconds", (("part", "addBatch"), out)] == 0.4
    assert found["sfumato_state_memory_bytes", (out,)] == 100
    assert found["sfumato_state_disk_bytes", (out,)] == 140
    assert found["sfumato_operator_rows_total", intake] == 15
    assert found["sfumato_operator_late_total", intake] == 3
    assert found["sfumato_reorder_held_rows", intake] == 4
    assert found["sfumato_reorder_oldest_wait_seconds", intake] == 1.0
    for share, low, high in (("0.5", 0.004, 0.008), ("0.99", 1.024, 2.048)):
        labels = tuple(sorted((*intake, ("quantile", share))))
        assert low < found["sfumato_reorder_wait_seconds", labels] < high
    assert found["sfumato_operator_keys", intake] == 8
    near = (("operator", "join_near"), out, ("side", ""))
    assert found["sfumato_operator_opposite_total", near] == 50
    assert found["sfumato_operator_compared_total", near] == 15
    assert found["sfumato_window_size", near] == 14  # of the newest micro-batch with answers
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


def test_how_far_the_punctuation_is_behind_is_of_the_newest_micro_batch(figures):
    intake = (("operator", "reorder_intake"), ("query", "out"), ("side", ""))
    late = reorder(5, 2, -1, lag=1_500_000, punctuation=8_000_000)
    figures.take("out", [report(2, 5, sfumato_reorder_intake=late)])
    found = sampled(figures)
    assert found["sfumato_reorder_lag_seconds", intake] == 1.5
    assert found["sfumato_reorder_punctuation_timestamp_seconds", intake] == 8.0


def test_a_quantile_of_waits_is_within_a_factor_of_two():
    assert quantile([], 0.5) is None
    assert quantile([3, 0, 0], 0.99) == 0.0
    rng = np.random.default_rng(seed=5)
    waits = (10 ** rng.uniform(3, 11, 5_000)).astype(np.int64)  # 1 ms to a day, microseconds
    counts = np.bincount(bins(waits), minlength=BINS).tolist()
    for share in QUANTILES:
        exact = np.quantile(waits, share, method="inverted_cdf") / 1e6
        assert exact / 2 <= quantile(counts, share) <= exact * 2


def test_keys_are_at_least_those_that_came_and_those_of_the_buckets_with_rows():
    progress = QueryProgress()
    for number, (keys, new) in enumerate([(5, 5), (3, 1), (90, 0), (4, -2), (None, None)]):
        observed = {"rows": 1, "keys": keys, "new_keys": new}
        progress.take([report(number, 1, sfumato_window_1=observed)])
        assert progress.keys == {"sfumato_window_1": [5, 6, 90, 88, 88][number]}


def test_waits_of_long_ago_are_no_part_of_how_long_rows_wait_now():
    recent = RecentWaits()
    recent.add([4, 0], 0.0)
    recent.add([0, 1], 250.0)
    assert recent.counts == [4, 1]
    recent.add([0, 2], 301.0)
    assert recent.counts == [0, 3]


def test_json_lines_have_the_same_samples(figures):
    found = {}
    for line in map(json.loads, lines(figures)):
        labels = tuple(sorted(line["labels"].items()))
        found[line["name"], labels] = line["value"]
    assert found == sampled(figures)


def test_an_operator_has_the_same_name_whatever_it_runs_with():
    assert operator_of("sfumato_reorder_intake__in_window_means") == ("reorder_intake", "", False)
    assert operator_of("sfumato_join_near_right") == ("join_near", "right", False)
    assert operator_of("sfumato_top_k_5_answers") == ("top_k_5", "", True)


def test_the_figures_are_at_a_port_of_loopback_and_in_files(figures, tmp_path):
    prom, grown = tmp_path / "sfumato.prom", tmp_path / "sfumato.jsonl"
    with served(figures, port=0, file=prom) as port, served(figures, file=grown):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert b'sfumato_rows_in_total{query="out"} 15.0' in answer.read()
        before = prom.read_text()
        figures.take("out", [report(2, 100)])
    assert 'sfumato_rows_in_total{query="out"} 15.0' in before
    assert 'sfumato_rows_in_total{query="out"} 115.0' in prom.read_text()  # written at the end
    values = [json.loads(line) for line in grown.read_text().splitlines()]
    rows = [v["value"] for v in values if v["name"] == "sfumato_rows_in_total"]
    assert rows == [15, 1, 115, 1]
    with (
        pytest.raises(ValueError, match=r"ends in .prom or .jsonl"),
        served(figures, file=tmp_path / "x.txt"),
    ):
        pass


def test_a_query_of_hours_keeps_a_bounded_number_of_points():
    figures = Figures()
    for batch in range(3 * MOST):
        figures.take("q", [report(batch, 1, sfumato_reorder_1=reorder(1, 0, 1, lag=batch))])
    (query,) = figures.queries()
    points = query.history.points
    assert len(points) <= MOST
    assert sum(point.rows_in for point in points) == 3 * MOST
    assert sum(point.batches for point in points) == 3 * MOST
    assert points[-1].held == 3 * MOST
    assert points[-1].lag == pytest.approx((3 * MOST - 1) / 1e6)


def test_what_takes_long_is_said_in_words():
    figures = Figures()
    first = report(0, 9, sfumato_reorder_1=reorder(9, 0, 9, oldest=0, slowest="b"))
    figures.take("q", [first])
    (query,) = figures.queries()
    query.held_back.long = 0.0
    for waiting in query.held_back._waiting.values():
        waiting.patience = 0.0
    query.look()
    ((_, sentence),) = query.said
    assert "reorder_1 has emitted no in-order rows" in sentence
    assert "it waits for b" in sentence


# ---- names, docs, dashboard --------------------------------------------------------------------


def every_counter():
    """Of the library's operators; other tests have some of their own."""
    open_, found = [TableConfig], set()
    while open_:
        kind = open_.pop()
        open_ += kind.__subclasses__()
        counters = kind.__dict__.get("counters")
        ours = kind.__module__.startswith("sfumato.")
        found |= set(counters) if ours and isinstance(counters, tuple) else set()
    return found


def test_every_counter_of_every_operator_has_a_meaning():
    import sfumato.api.similarity_join  # noqa: F401 - defines all table operators

    missing = every_counter() - set(names.COUNTED) - set(names.GATHERED)
    assert not missing


def test_the_table_of_the_docs_is_generated():
    assert names.page() in (DOCS / "metrics.md").read_text()


def test_the_states_of_rows_are_defined_once_and_their_table_is_generated():
    assert names.states() in (DOCS / "semantics.md").read_text()
    for state in names.STATES:
        name = state.name
        said = names.HELD.about if name in names.GATHERED else names.COUNTED[name]
        assert said == state.counted


def test_the_dashboard_and_the_alerts_use_metrics_that_exist():
    yaml = pytest.importorskip("yaml")
    folder = DOCS / "monitoring"
    panels = json.loads((folder / "grafana.json").read_text())["panels"]
    (group,) = yaml.safe_load((folder / "alerts.yml").read_text())["groups"]
    charts = [line["expr"] for panel in panels for line in panel["targets"]]
    alerts = [rule["expr"] for rule in group["rules"]]
    assert len(panels) > 10
    assert len(alerts) > 5
    known = {metric.exposed for metric in names.every_metric()}
    for expression in charts + alerts:
        used = set(re.findall(r"sfumato_\w+", expression))
        assert used, expression
        assert used <= known, expression


def test_panels_and_alerts_have_names_of_their_own():
    yaml = pytest.importorskip("yaml")
    folder = DOCS / "monitoring"
    panels = json.loads((folder / "grafana.json").read_text())["panels"]
    (group,) = yaml.safe_load((folder / "alerts.yml").read_text())["groups"]
    for values in (
        [panel["id"] for panel in panels],
        [panel["title"] for panel in panels],
        [tuple(panel["gridPos"].values()) for panel in panels],
        [rule["alert"] for rule in group["rules"]],
    ):
        assert len(set(values)) == len(values)
    assert all(rule["annotations"]["summary"] for rule in group["rules"])
