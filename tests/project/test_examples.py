"""The examples of top-k queries run and print the expected answers."""

import importlib.util
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sfumato as sf

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.spark
def test_icebergs_that_have_drifted_longest(spark, data_folder, tmp_path):
    path = data_folder / "iip_sightings_2014_2021.parquet"
    if not path.is_file():
        pytest.skip("no iceberg sightings")
    icebergs = example("icebergs")
    frame = icebergs.read(path)
    assert len(frame) > 17_000
    assert frame["rule"].notna().sum() > 0
    spring = frame[(frame["ts"] >= "2014-04-01") & (frame["ts"] < "2014-05-20")]
    answers = icebergs.ranked(spark, spring).collect()
    by_query = {}
    for row in answers:
        by_query.setdefault(row["query"], {}).setdefault(row["time"], []).append(row)
    for query in icebergs.QUERIES:
        times = sorted(by_query[query.label])
        gaps = [other - one for one, other in pairwise(times)]
        assert max(gaps) <= pd.Timedelta(microseconds=query.interval)
    last = sorted(by_query["ten a week"])[-2]
    got = by_query["ten a week"][last]
    now = pd.Timestamp(last).tz_localize(None)
    window = spring[(spring["ts"] >= now - pd.Timedelta("30 days")) & (spring["ts"] < now)]
    expected = sf.engine_free.pk_topk(
        window["days"], window["existence"], window["rule"].fillna(-1).astype("int64"), k=10
    )
    assert [r["row"]["id"] for r in got] == window["id"].to_numpy()[expected.indices].tolist()
    assert [r["probability"] for r in got] == pytest.approx(expected.probability.tolist())
    files = icebergs.pictures(frame, tmp_path)
    assert all(file.stat().st_size > 1000 for file in files)


def test_without_the_sightings_the_example_says_so(tmp_path):
    with pytest.raises(SystemExit, match="give the path of your copy"):
        example("icebergs").read(tmp_path / "none.parquet")


@pytest.mark.spark
def test_the_stations_near_the_crater_shake_most_after_an_earthquake(spark):
    seismic = example("seismic")
    sizes = seismic.motion()
    rows = [row for row in seismic.ranked(spark).collect() if row["query"] == "alarm"]
    first = {row["time"]: row for row in rows if row["rank"] == 1}
    start = pd.Timestamp(seismic.START).tz_localize(None)
    since = {time: (pd.Timestamp(time) - start) / pd.Timedelta(seconds=1) for time in first}
    quake = 150  # seconds; the largest earthquake
    after = {time for time, at in since.items() if 20 <= at - quake <= 55}
    assert len(after) >= 6
    # The two nearest stations; before the earthquake, the stations where the sea is loudest.
    assert {row["station"] for row in rows if row["time"] in after} == {"S01", "S02"}
    # Compare with the definition, which ranks all samples of a window together.
    time, row = sorted(first.items())[30]
    at = since[time]
    begin, end = max(0, int((at - seismic.WINDOW) * seismic.RATE)), int(at * seismic.RATE)
    window = sizes[:, begin:end]
    stream = np.repeat(np.arange(seismic.STATIONS), window.shape[1])
    prob = np.full(window.size, 1 / (seismic.WINDOW * seismic.RATE))
    best = sf.engine_free.top_k_streams(window.ravel(), prob, stream, k=2)
    assert row["station"] == f"S{best.indices[0] + 1:02d}"
    assert row["probability"] == pytest.approx(best.probability[0])
