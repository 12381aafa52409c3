"""Unique features (docs/only-here.md): each example runs, and each claim holds on real data."""

import re
from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf
from worlds import law_over, moments_of, worlds

PAGE = Path(__file__).resolve().parents[2] / "docs" / "only-here.md"
METHODS = {  # confidence in a sighting, by method; D uses such confidences
    "R/V": 0.9, "VIS": 0.8, "RAD": 0.7, "SAT-HIGH": 0.6, "SAT-MED": 0.5, "SAT-LOW": 0.4,
}  # fmt: skip


@pytest.fixture(scope="module")
def sightings(data_folder):
    """Return sightings of icebergs in time order, with the existence of each."""
    rows = pd.read_parquet(data_folder / "iip_sightings_2014_2021.parquet")
    rows = rows.sort_values("ts", kind="stable").reset_index(drop=True)
    return rows.assign(existence=rows["method"].map(METHODS).astype(float))


def test_the_examples_run_as_printed(capsys):
    pytest.importorskip("altair")
    found: dict = {}
    for code in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE):
        exec(compile(code, str(PAGE), "exec"), found)
    said = capsys.readouterr().out
    assert "2.25 instead of 5.72" in said
    share = float(re.search(r"([\d.]+)% of the rows came too late", said).group(1))
    assert share <= 4.0  # of 400 rows, while the estimator has seen few rows


def test_windows_of_real_sightings_are_exact(sightings):
    existence = sightings["existence"].to_numpy()
    rows, confidence = 150, 0.95
    starts = sf.engine_free.UncertainWindow(rows, confidence).extend(existence)
    for i in range(400, len(existence), 997):
        held = existence[starts[i] : i + 1]
        # The fewest newest tuples with `rows` existing ones: one tuple fewer is not enough.
        assert sf.engine_free.PoissonBinomial(held).sf(rows - 1) >= confidence
        assert sf.engine_free.PoissonBinomial(held[1:]).sf(rows - 1) < confidence


def test_the_drop_ratio_holds_on_real_delays_of_every_shape(data_folder):
    """Networks, radio and machinery have three kinds of delays, none of them normal."""
    trace = pd.read_parquet(data_folder / "ooo_dataset_d.parquet")
    streams = {s: (p["event_time"], p["arrival_time"]) for s, p in trace.groupby("session")}
    radio = pd.read_parquet(data_folder / "helium_lorawan_frames.parquet")
    streams["radio"] = radio["reported_at"], radio["arrival_time"]
    delays = pd.read_parquet(data_folder / "arrival_delays_machinery.parquet")["delay_ms"][:50_000]
    made = pd.Series(pd.date_range("2024-01-01", periods=len(delays), freq="500ms"))
    streams["machinery"] = made, made + pd.to_timedelta(delays, unit="ms")
    for name, (event, arrival) in streams.items():
        given = pa.table(
            {
                "made": pa.array(event, pa.timestamp("us")),
                "came": pa.array(arrival, pa.timestamp("us")),
            }
        )
        given = given.take(pa.array(np.argsort(given.column("came").to_numpy(), kind="stable")))
        for wanted in (0.01, 0.05):
            found = sf.reorder(given, event_time="made", arrival="came", drop_ratio=wanted)
            late = np.mean(found.column("late").to_numpy(zero_copy_only=False))
            assert late <= 1.2 * wanted, (name, wanted, late)


def test_top_k_of_real_sightings_with_rules_is_exact(sightings):
    score = -sightings["latitude"].to_numpy()  # southernmost first
    prob = sightings["existence"].to_numpy()
    berg = sightings["iceberg_year"].astype(int) * 100_000 + sightings["iceberg_number"].astype(int)
    rule = pd.factorize(berg)[0]
    # Sightings of one iceberg exclude each other and share its probability.
    prob = prob / np.maximum(np.bincount(rule, prob)[rule], 1.0)
    few = np.arange(40, 52)
    groups = [
        [(float(prob[i]), (score[i], -i)) for i in few if rule[i] == r]
        for r in np.unique(rule[few])
    ]
    among = dict.fromkeys(few.tolist(), 0.0)
    for p, there in worlds(groups):
        for _, negative in sorted(there, reverse=True)[:3]:
            among[-negative] += float(p)
    found = sf.engine_free.top_k_probabilities(score[few], prob[few], rule[few], k=3)
    assert found == pytest.approx([among[i] for i in few.tolist()], abs=1e-12)


def test_a_chain_of_operators_over_real_readings_is_that_of_the_possible_worlds(data_folder):
    """Readings with an error are filtered and summed in windows: one probability, end to end."""
    motes = pd.read_parquet(data_folder / "intel_lab_9motes.parquet").query("moteid == 1")[:60]
    given = pa.table(
        {
            "ts": pa.array(motes["ts"], pa.timestamp("us")),
            "alternatives": sf.samples(
                motes["temperature"].to_list(), 0.3, 3, attributes="celsius"
            ),
        }
    )
    limit = float(motes["temperature"].median())
    warm = sf.where(given, f"celsius > {limit}")
    sums = sf.window_aggregate(
        warm, {"total": "sum(celsius)", "n": "count(*)"}, window=sf.Range("3 minutes"), order="ts"
    )
    checked = 0
    for answer in sums.to_pylist():
        start, end = answer["window"]["start"], answer["window"]["end"]
        groups = [
            [(a["prob"], a["celsius"]) for a in row["alternatives"] if a["celsius"] > limit]
            for row in given.to_pylist()
            if start <= row["ts"] < end
        ]
        found = worlds([group for group in groups if group])
        for name, function in (("total", sum), ("n", len)):
            mean, variance, _ = moments_of(law_over(found, function))
            result = answer[name]
            assert result["mean"] == pytest.approx(float(mean), abs=1e-9)
            assert result["stddev"] ** 2 == pytest.approx(float(variance), abs=1e-6)
        checked += 1
    assert checked >= 5


def test_the_cost_that_explain_tells_is_the_cost_of_the_run(data_folder):
    """Three queries rank hours of weather at one airport: the timetable's cost is the counted
    cost of the run."""
    weather = pd.read_parquet(data_folder / "nycflights13_weather.parquet")
    weather = weather[(weather["origin"] == "JFK") & weather["temp"].notna()][:2_000]
    given = pa.table(
        {"ts": pa.array(weather["time_hour"].dt.tz_localize(None), pa.timestamp("us")),
         "temp": pa.array(weather["temp"])}
    )  # fmt: skip
    queries = [sf.Top(3, every="2 hours"), sf.Top(5, every="5 hours"), sf.Top(2, every="3 hours")]
    hour = timedelta(hours=1)
    plan = sf.engine_free.timetable(
        [(q.k, q.interval // (hour // timedelta(microseconds=1))) for q in queries]
    )
    found = sf.top_k(given, queries, by="temp", window=sf.Range("1 day"), order="ts")
    counted = sf.ops.counters(found)["sfumato_top_k_1"]
    times = given.column("ts").to_pylist()
    hours = (times[-1] - times[0]) / hour
    most = plan.cycle * plan.cost_per_unit
    assert abs(counted["cost"] - plan.cost_per_unit * hours) <= 2 * most
    alone = sf.engine_free.timetable(plan.queries, "none").cost_per_unit
    assert plan.cost_per_unit < 0.75 * alone


@pytest.mark.spark
def test_explain_says_state_lateness_and_cost_without_starting_anything(spark, data_folder):
    path = str(data_folder / "nycflights13_flights.parquet")
    schema = spark.read.parquet(path).schema
    flights = spark.readStream.schema(schema).parquet(path)  # a stream, so it has not run
    text = """
    SELECT TOP 3 carrier, flight FROM f [RANGE 1 hour WATTR time_hour DRATIO 1%]
    RANK BY dep_delay FREQUENCY 10 MINUTES;
    SELECT TOP 5 carrier, flight FROM f [RANGE 1 hour WATTR time_hour DRATIO 1%]
    RANK BY dep_delay FREQUENCY 25 MINUTES
    """
    said = sf.explain(spark, text, f=flights)
    assert not spark.streams.active
    for word in ("state", "late in the long run, for any delays", "cost"):
        assert word in said, said
