"""The reports of a run: counted rows, log lines, held rows."""

import io
import json

from sfumato.cli.output import Log
from sfumato.cli.pipeline.environment import RedactingConsole
from sfumato.metrics.anomalies import DisorderDetector, StallDetector
from sfumato.metrics.progress import GAUGES, late_and_rows, total_of_counter, totals_by_operator
from sfumato.metrics.session_metrics import QueryMetrics
from sfumato.tables.disorder.table_reorder import ReorderTableConfig
from sfumato.tables.joins.table_join import JoinTableConfig
from sfumato.tables.ranking.table_top_k import TopKTableConfig
from sfumato.tables.windows.table_windows import RowWindowTableConfig
from spark_reports import part, report

# ---- progress ------------------------------------------------------------------------------------


def test_reports_seen_again_count_once_and_idle_looks_are_no_batches():
    progress = QueryMetrics()
    first = report(0, 10, sfumato_rows_out={"rows": 8})
    second = report(1, 5, sfumato_rows_out={"rows": 5})
    progress.take([first])
    progress.take([first, second, report(2, 0, ran=False)])
    assert (progress.batches, progress.rows_in, progress.rows_out) == (2, 15, 13)


def test_each_row_is_counted_once_whatever_operators_stand_behind_one_another():
    progress = QueryMetrics()
    (batch,) = progress.take(
        [
            report(
                0,
                10,
                sfumato_reorder_1={"rows": 10, "late": 2, "invalid": 1},
                sfumato_reorder_berlin={"rows": 10, "late": 3, "invalid": 0, "out_of_order": 4},
                sfumato_join_2_left={"rows": 9, "invalid": 3},
                sfumato_join_2_right={"rows": 9, "invalid": 2},
                sfumato_window_3={"rows": 9, "late": 5, "out_of_order": 1},
                sfumato_top_k_4_answers={"late": 7},
                mine={"late": 100},
            )
        ]
    )
    for counts in (progress, batch):
        assert total_of_counter(counts.counters, "late") == 5
        assert total_of_counter(counts.counters, "invalid") == 5
        assert total_of_counter(counts.counters, "out_of_order") == 4
    assert totals_by_operator(progress.counters) == {
        "reorder_1": {"rows": 10, "late": 2, "invalid": 1},
        "reorder_berlin": {"rows": 10, "late": 3, "out_of_order": 4},
        "join_2": {"rows": 18, "invalid": 5},
        "window_3": {"rows": 9, "late": 5, "out_of_order": 1},
    }


# ---- the log -------------------------------------------------------------------------------------


def logged(machines, **more):
    console = RedactingConsole(file=io.StringIO(), width=40)
    log = Log(console, is_json=machines)
    counts = {"rows": 10, "late": 2, **more}
    rows_out = {"rows": 8}
    (batch,) = QueryMetrics().take(
        [report(3, 10, sfumato_reorder_1=counts, sfumato_rows_out=rows_out)]
    )
    log.batch("out", batch)
    log.event("out", "again in 1 s")
    return console.file.getvalue().splitlines()


def test_a_line_tells_a_micro_batch_and_what_was_counted():
    assert logged(machines=False) == [
        "t3 out: micro-batch 3, 10 rows in, 8 out, 2 marked late, 0.5 s",
        "out: again in 1 s",
    ]


def test_a_micro_batch_without_rows_has_no_line():
    console = RedactingConsole(file=io.StringIO())
    for batch in QueryMetrics().take([report(3, 0, sfumato_reorder_1={"rows": 0})]):
        Log(console).batch("out", batch)
    assert console.file.getvalue() == ""


def test_the_totals_of_a_ranking_have_units_and_words():
    console = RedactingConsole(file=io.StringIO(), width=120)
    counts = {"cost": 4, "answers": 4, "answered": 2, "late_answers": 1, "latency": 1_250_000}
    progress = QueryMetrics()
    progress.take([report(0, 2, sfumato_top_k_1=counts)])
    Log(console)._totals("out", progress)
    assert console.file.getvalue().splitlines()[0] == (
        "out: top_k_1: 4 cost (the sum of k), 4 rows of answers, 2 answers, 1 late answers, "
        "1.25 s latency in all"
    )


def test_machines_get_json_lines():
    assert [json.loads(line) for line in logged(machines=True)] == [
        {
            "sink": "out",
            "batch": 3,
            "started": "t3",
            "rows_in": 10,
            "rows_out": 8,
            "seconds": 0.5,
            "metrics": {"sfumato_reorder_1": {"rows": 10, "late": 2}},
        },
        {"sink": "out", "event": "again in 1 s"},
    ]


SHOWN = {"oldest": 60_000_000, "punctuation": 30_500_000, "lag": 45_000_000, "slowest": None}


def test_what_a_reorder_holds_has_a_line_of_its_own_and_is_not_added_up():
    line = logged(machines=False, held=3, **SHOWN)[1]
    assert line == (
        "    reorder_1: 3 rows held, oldest 1970-01-01 00:01:00, "
        "punctuation 1970-01-01 00:00:30.500000, lag 45 s"
    )
    metrics = json.loads(logged(machines=True, held=3, **SHOWN)[0])["metrics"]
    assert metrics == {"sfumato_reorder_1": {"rows": 10, "late": 2, "held": 3, **SHOWN}}
    progress = QueryMetrics()
    for number in (0, 1):
        progress.take([report(number, 5, sfumato_reorder_1={"rows": 5, "held": 2, **SHOWN})])
    assert progress.counters == {part("sfumato_reorder_1"): {"rows": 10, "held": 4}}


def said(watch, now, *, number=0, **counts):
    batches = []
    if counts:
        batches = QueryMetrics().take([report(number, 5, sfumato_reorder_in=counts)])
    return list(watch.detect(batches, now))


def test_a_reorder_that_lets_nothing_out_for_long_says_so_and_for_whom():
    watch = StallDetector()
    stuck = {"rows": 9, "held": 7, "late": 2, **SHOWN, "slowest": "berlin"}
    assert said(watch, 0.0, **stuck) == []
    assert said(watch, 59.0, **stuck) == []
    assert said(watch, 61.0) == [
        "reorder_in has emitted no in-order rows for 61 s and holds 7 rows; the oldest row has "
        "the event time 1970-01-01 00:01:00; the operator waits for berlin (an idle timeout "
        "releases the rows)"
    ]
    assert said(watch, 90.0, **stuck) == []  # it is not repeated immediately
    assert len(said(watch, 125.0)) == 1
    assert said(watch, 126.0, **{**stuck, "held": 6}) == []  # one row was emitted
    assert said(watch, 185.0, **stuck) == []
    assert len(said(watch, 187.0)) == 1


def test_the_command_line_knows_what_operators_show():
    kinds = (ReorderTableConfig, RowWindowTableConfig, JoinTableConfig, TopKTableConfig)
    assert set().union(*(kind.gauges for kind in kinds)) == set(GAUGES)


def test_a_reorder_that_holds_nothing_may_be_silent():
    watch = StallDetector()
    assert said(watch, 0.0, rows=9, held=0, late=0, oldest=None, lag=0) == []
    assert said(watch, 999.0) == []


def test_late_rows_are_a_share_of_the_rows_of_the_operators_that_mark_them():
    counts = {
        "sfumato_reorder_a": {"rows": 100, "late": 10},
        "sfumato_reorder_b": {"rows": 50, "late": 5},
        "sfumato_join_1": {"rows": 150, "late": 15},
        "sfumato_window_1_input": {"rows": 9_000, "invalid": 1},
        "sfumato_window_1": {"rows": 8_999, "late": 40},
    }
    counters = {part(name): of for name, of in counts.items()}
    assert late_and_rows(counters) == (15, 150)
    aside = {part("sfumato_reorder_a"): {"rows": 107, "late": 17, "invalid": 4, "duplicates": 3}}
    assert late_and_rows(counters | aside) == (15, 150)
    assert total_of_counter(counters, "late") == 15
    without = {of: counts for of, counts in counters.items() if of.kind != "reorder"}
    assert late_and_rows(without) == (40, 8_999)
    assert late_and_rows({}) == (0, 0)


def test_metrics_of_a_chain_have_the_names_of_their_operators_where_these_are_free():
    progress = QueryMetrics()
    (batch,) = progress.take(
        [
            report(
                0,
                9,
                sfumato_reorder_in={"rows": 1},
                sfumato_reorder_in__in_window_means={"rows": 2},
                sfumato_window_a__in_top_k_b={"rows": 3},
                sfumato_window_a__in_top_k_b_input={"rows": 4},
            )
        ]
    )
    assert {of[1:]: counts["rows"] for of, counts in batch.counters.items()} == {
        ("reorder_in", ""): 1,
        ("reorder_in__in_window_means", ""): 2,
        ("window_a", ""): 3,
        ("window_a", "input"): 4,
    }


def test_rows_out_of_order_of_arrival_are_told_once_with_cause_and_cure():
    progress, watch = QueryMetrics(), DisorderDetector()
    orderly = {"rows": 10, "out_of_order": 0}
    assert list(watch.detect(progress.take([report(0, 10, sfumato_reorder_in=orderly)]))) == []
    late = report(
        1,
        10,
        sfumato_reorder_in={"rows": 10, "out_of_order": 4},
        sfumato_window_1={"rows": 9, "out_of_order": 9},
    )
    (sentence,) = watch.detect(progress.take([late]))
    assert sentence.startswith("reorder_in: 4 of 20 rows so far were read after rows that arrived")
    assert "Likely cause: files" in sentence
    assert "Give the files modification times in order of arrival" in sentence
    again = report(2, 10, sfumato_reorder_in={"rows": 10, "out_of_order": 4})
    assert list(watch.detect(progress.take([again]))) == []
    alone = report(3, 10, sfumato_window_2={"rows": 9, "out_of_order": 9})
    (sentence,) = watch.detect(progress.take([alone]))
    assert sentence.endswith(". Reorder the rows first")


def test_what_is_held_is_counted_from_the_start_of_a_run():
    progress, watch = QueryMetrics(), StallDetector()
    assert progress.held is None
    for number, (run, change) in enumerate([("a", 7), ("a", -2), ("b", 6), ("b", 1)]):
        one = report(number, 10, run=run, sfumato_reorder_1={"rows": 10, "held": change, **SHOWN})
        list(watch.detect(progress.take([one]), 0.0))
    assert progress.held == 7
    assert progress.counters[part("sfumato_reorder_1")]["rows"] == 40
    (sentence,) = watch.detect([], 1000.0)
    assert "holds 7 rows" in sentence
