"""`sf.chart`: charts of results, windows, timetables and running queries."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf
from chart_data import data_of
from sfumato.charts import save
from sfumato.charts.style import number_text
from spark_reports import observed_row

LAW = [{"prob": 0.25, "n": 1.0}, {"prob": 0.5, "n": 3.0}, {"prob": 0.125, "n": 1.0}]
ROWS = pa.Table.from_pylist(
    [
        {
            "ts": datetime(2024, 1, 1, 0, 0, i, tzinfo=UTC),
            "site": "ab"[i % 2],
            "alternatives": [{"prob": 0.5, "x": float(i)}, {"prob": 0.3, "x": i + 1.0}],
        }
        for i in range(40)
    ]
)
WINDOW = {"window": sf.Range("10 seconds"), "order": "ts"}


def test_a_distribution_shows_each_value_and_the_probability_of_none():
    bars, [mean] = data_of(chart := sf.chart(LAW))
    assert [(bar["at"], bar["prob"]) for bar in bars] == [("1", 0.375), ("3", 0.5)]
    assert mean["mean"] == pytest.approx((0.375 + 1.5) / 0.875)
    subtitle = chart.to_dict()["title"]["subtitle"]
    assert subtitle[1] == "a value with probability 0.875; no value with 0.12"


def test_many_values_are_put_into_bins_without_losing_probability():
    values = np.random.default_rng(0).normal(size=5000)
    bars, _ = data_of(sf.chart([{"prob": 1 / 5000, "x": v} for v in values]))
    assert len(bars) == 60
    assert sum(bar["prob"] for bar in bars) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "law",
    [
        LAW,
        [{"prob": 0.7, "n": 3.0}],
        [{"prob": 1 / 7, "n": n} for n in (0.0, 1.0, 2.0, 3.0, 10.0, 20.0, 200.0)],
        [{"prob": p, "n": float(n)} for n, p in enumerate(np.full(20, 0.05))],
        [{"prob": p, "n": n**1.5} for n, p in enumerate(np.linspace(0.01, 0.07, 25))],
        [{"prob": 1 / 400, "n": v} for v in np.random.default_rng(1).normal(size=400)],
    ],
    ids=["few", "one", "far apart", "equal distances", "merged", "many"],
)
def test_the_areas_of_a_distribution_are_its_probabilities(law):
    bars, _ = data_of(chart := sf.chart(law))
    encoding = chart.to_dict()["layer"][0]["encoding"]
    high = encoding["y"]["field"].split(":")[0]
    areas = [(bar["high"] - bar["low"]) * bar[high] for bar in bars]
    assert areas == pytest.approx([bar["prob"] for bar in bars])
    assert sum(areas) == pytest.approx(sum(a["prob"] for a in law))
    mean = sum(a * (bar["low"] + bar["high"]) / 2 for a, bar in zip(areas, bars, strict=True))
    step = max(bar["high"] - bar["low"] for bar in bars)
    assert mean == pytest.approx(sum(a["prob"] * a["n"] for a in law), abs=step)
    one_width = len({round(bar["high"] - bar["low"], 6) for bar in bars}) == 1
    assert encoding["y"]["title"] == ("probability" if one_width else "probability per unit of n")


def test_a_merged_distribution_has_no_notch_that_the_distribution_has_not():
    readings = pd.DataFrame(
        {
            "t": range(20),
            "alternatives": sf.samples([20.0] * 20, 0.4, 5, attributes="x").to_pylist(),
        }
    )
    found = sf.window_aggregate(
        readings, {"total": "sum(x)"}, window=sf.Rows(20), order="t", distribution=32
    )
    bars, [mean] = data_of(sf.chart(found["total"].iloc[-1]))
    rising = [bar["density"] for bar in bars if bar["high"] <= mean["mean"] + 1e-9]
    falling = [bar["density"] for bar in bars if bar["low"] >= mean["mean"] - 1e-9]
    assert np.all(np.diff(rising) > -1e-3)
    assert np.all(np.diff(falling) < 1e-3)


def test_whole_nanoseconds_are_times_as_pandas_reads_nested_timestamps_of_spark():
    ends = [datetime(2026, 3, 1, 8, minute) for minute in (5, 10)]
    rows = [
        {"window": {"end": int(np.datetime64(end, "ns").astype(int))}, "mean": 1.5} for end in ends
    ]
    (drawn, *_) = data_of(sf.chart(pd.DataFrame(rows), "mean"))
    assert [row["at"] for row in drawn] == ["2026-03-01T08:05:00", "2026-03-01T08:10:00"]


def test_no_line_or_band_is_drawn_where_windows_are_missing():
    seconds = [*range(10), *range(40, 60)]
    rows = ROWS.take(pa.array(range(30))).set_column(
        0, "ts", pa.array(seconds, pa.timestamp("s", "UTC"))
    )
    found = sf.window_aggregate(rows, {"m": "avg(x)"}, **WINDOW)
    drawn, *_ = data_of(sf.chart(found, "m"))
    assert [row["part"] for row in drawn] == [0, 1, 1]


def test_certain_results_have_no_band_and_none_is_named():
    certain = pa.table({"ts": ROWS["ts"], "x": [1.0 * i for i in range(40)]})
    found = sf.window_aggregate(certain, {"m": "avg(x)"}, **WINDOW)
    chart = sf.chart(found, "m").to_dict()
    assert chart["title"]["subtitle"] == ["values without uncertainty"]
    assert [layer["mark"]["type"] for layer in chart["layer"]] == ["line"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (4.5e8, "450,000,000"), (-82070.0, "-82,070"), (0.25, "0.25"), (3.2e-5, "0.000032"),
        (1234.5, "1234"), (12.0, "12"), (0.0, "0"),
    ],
)  # fmt: skip
def test_numbers_are_written_without_exponents(value, text):
    assert number_text(value) == text


def test_axes_of_the_page_have_no_exponents():
    page = Path(sf.__file__).parent / "live" / "page" / "page.js"
    assert "~g" not in page.read_text()


@pytest.mark.parametrize("give", [pa.Table.to_pandas, pa.Table.to_pylist, lambda table: table])
def test_results_are_drawn_over_the_end_of_their_window(give):
    found = sf.window_aggregate(ROWS, {"s": "sum(x)"}, distribution=16, **WINDOW)
    rows, *_ = data_of(sf.chart(give(found), "s"))
    assert [row["at"] for row in rows] == [f"2024-01-01T00:00:{s}" for s in (10, 20, 30, 40)]
    first = sorted(found.to_pylist()[0]["s"]["distribution"], key=lambda a: a["value"])
    reached, total = 0.0, sum(a["prob"] for a in first)
    for a in first:  # the median, by its definition
        reached += a["prob"]
        if reached >= total / 2:
            assert rows[0]["q50"] == a["value"]
            break


def test_a_line_for_each_key_and_what_may_not_exist_has_its_probability_below():
    found = sf.window_aggregate(ROWS, {"top": "max(x)"}, key="site", **WINDOW)
    chart = sf.chart(found, "top", key="site")
    assert {row["key"] for row in data_of(chart)[0]} == {"a", "b"}
    _, below = chart.to_dict()["vconcat"]
    assert below["encoding"]["y"]["title"] == "a value exists"
    assert chart.to_dict()["title"]["subtitle"] == [
        "mean, and one standard deviation on either side"
    ]


def test_rows_of_several_keys_are_not_joined_to_one_line():
    found = sf.window_aggregate(ROWS, {"top": "max(x)"}, key="site", **WINDOW)
    with pytest.raises(ValueError, match=r'end of the window \(UTC\): write key="site" for one'):
        sf.chart(found, "top")
    with pytest.raises(ValueError, match='write key="site" for one'):
        sf.chart(
            [{**row, "site": row["site"].strip("b") or None} for row in found.to_pylist()], "top"
        )
    of_one = [row for row in found.to_pylist() if row["site"] == "a"]
    assert len(data_of(sf.chart(of_one, "top"))[0]) == len(of_one) == 4


def test_the_tuples_of_a_window_are_drawn_with_their_probabilities():
    window = sf.engine_free.UncertainWindow(3, 0.9)
    window.extend(np.array([0.5, 0.9, 0.4, 0.8, 1.0, 0.3]))
    bars, *_ = data_of(sf.chart(window))
    both = {bar["tuple"]: bar["both"] for bar in bars}
    exists = {bar["tuple"]: bar["exists"] for bar in bars}
    for j, p in both.items():
        assert p == pytest.approx(exists[j] * window.in_window(j))
    with pytest.raises(ValueError, match="is still empty"):
        sf.chart(sf.engine_free.UncertainWindow(3, 0.9))


def test_a_running_query_is_drawn_with_its_rate_and_its_late_rows():
    reports = [
        {
            "batchId": i,
            "timestamp": f"2024-01-01T00:00:0{i}.000Z",
            "numInputRows": 100 * i,
            "durationMs": {"addBatch": 1, "triggerExecution": 500} if i else {},
            "observedMetrics": {
                name: observed_row(name, counts)
                for name, counts in {
                    "sfumato_reorder_1": {"rows": 110 * i, "late": 11 * i, "duplicates": 10 * i},
                    "sfumato_window_2_input": {"rows": 100 * i, "invalid": 50},
                    "sfumato_rows_out": {"rows": 7},
                }.items()
            },
        }
        for i in range(3)
    ]
    query = SimpleNamespace(name="flights", recentProgress=reports)
    rates, shares = data_of(chart := sf.chart(query))
    assert [rate["rate"] for rate in rates] == [200.0, 400.0]
    assert [(row["what"], row["share"]) for row in shares] == [("late in reorder_1", 0.01)] * 2
    assert chart.to_dict()["title"]["text"] == "Query flights"
    query.recentProgress = []
    with pytest.raises(ValueError, match="has not finished a micro-batch yet"):
        sf.chart(query)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_picture_is_drawn_in_both_themes(tmp_path, theme):
    window = sf.engine_free.UncertainWindow(3, 0.9)
    window.extend(np.full(9, 0.6))
    for i, chart in enumerate(
        [
            sf.chart(LAW, theme=theme),
            sf.chart(pd.DataFrame({"x": [1.0, 2.0]}), "x", theme=theme),
            sf.chart(window, theme=theme),
            sf.chart(sf.engine_free.timetable([(3, 2), (2, 3)]), theme=theme, unit="minute"),
        ]
    ):
        assert save(chart, tmp_path / f"{i}.svg").stat().st_size > 1000
        assert ("background" in chart.to_dict()["config"]) == (theme == "dark")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((3,), TypeError, "`what` must be a distribution, a table of results"),
        ((ROWS,), TypeError, "`result` must name the result column to draw, one of ts"),
        ((ROWS, "y"), ValueError, "`result` must be one of ts, site, alternatives; got 'y'"),
        ((ROWS, "site"), TypeError, "a result must be a number, a struct<mean"),
        (([{"prob": 1.0, "x": 1, "y": 2}],), ValueError, "a chart shows one attribute"),
    ],
)
def test_wrong_arguments_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        sf.chart(*arguments)
