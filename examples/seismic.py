"""The stations where a volcano shakes most: the top-k streams among sixteen seismic stations.

    python examples/seismic.py [FOLDER]

Every station sends the size of the ground's motion several times per second. A sample exists with
probability 1 / w, where w is the number of a station's samples in a window. All stations' samples
are ranked together. The stations with the highest values in the last minute are the stations whose
samples have the largest sum of top-k probabilities. Six queries are answered together, each within
its bound.

No recording could be shipped with this example, so the motion is synthetic. Each station has
background noise from the sea, with a spectrum around 0.2 Hz. Three small earthquakes occur under
the crater; their waves arrive after distance / speed and fade with the distance.
"""

import sys
from datetime import UTC, datetime, timedelta

import numpy as np

import sfumato as sf

STATIONS, SECONDS, RATE = 16, 260, 2  # 2 samples per second: the envelope, not the wave
WINDOW = 60
START = datetime(2026, 1, 1, tzinfo=UTC)
QUAKES = [(80.0, 1.0), (150.0, 2.5), (230.0, 1.5)]  # seconds, size
SPEED, FADE = 1.5, 1.3  # km per second; size falls with distance to this power
QUERIES = [
    sf.Top(2, every="5 seconds", name="alarm"),
    sf.Top(3, every="8 seconds"),
    sf.Top(2, every="12 seconds", name="map"),
    sf.Top(4, every="20 seconds"),
    sf.Top(5, every="30 seconds", name="log"),
    sf.Top(3, every="45 seconds", name="archive"),
]


def distances() -> np.ndarray:
    """Return float64[STATIONS], km from the crater, the nearest station first."""
    return np.geomspace(0.5, 9.0, STATIONS)


def motion(seed: int = 1) -> np.ndarray:
    """Return float64[STATIONS, samples]: size of the ground's motion in micrometres per second."""
    rng = np.random.default_rng(seed)
    samples = SECONDS * RATE
    time = np.arange(samples) / RATE
    hum = np.abs(rng.normal(0, 1, (STATIONS, samples)))
    smooth = np.exp(-np.arange(3 * RATE) / RATE)  # swell lasts seconds, not samples
    hum = np.stack([np.convolve(row, smooth / smooth.sum(), "same") for row in hum])
    hum *= rng.uniform(0.5, 1.5, (STATIONS, 1))
    for at, size in QUAKES:
        since = time[None, :] - at - distances()[:, None] / SPEED
        shape = np.where(since > 0, np.exp(-np.maximum(since, 0) / 6.0), 0.0)
        hum += 30 * size * shape / np.maximum(distances(), 0.5)[:, None] ** FADE
    return hum


def ranked(spark, seed: int = 1):
    """Return the answers to all queries over the samples of all stations."""
    sizes = motion(seed)
    rows = [
        (i, f"S{station + 1:02d}", START + timedelta(seconds=i / RATE), float(sizes[station, i]))
        for i in range(sizes.shape[1])
        for station in range(STATIONS)
    ]
    samples = spark.createDataFrame(rows, "id long, station string, ts timestamp, size double")
    return sf.top_k(
        samples.selectExpr("*", f"{1.0 / (WINDOW * RATE)}D AS existence"),
        QUERIES,
        by="size",
        window=sf.Range(f"{WINDOW} seconds"),
        order="ts",
        group="station",
    )


def main(arguments: list[str]) -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]")
    for name, value in sf.ops.settings(2, local_disk=True).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    answers = ranked(spark).selectExpr(
        "query", "time", "rank", "station", "round(score, 1) AS size",
        "round(probability, 4) AS probability", "answered",
    )  # fmt: skip
    answers.where("query = 'map'").orderBy("time", "rank").show(60, truncate=False)
    table = sf.engine_free.timetable([(query.k, query.interval) for query in QUERIES])
    alone = sf.engine_free.timetable([(query.k, query.interval) for query in QUERIES], plan="none")
    saved = alone.cost_per_unit / table.cost_per_unit
    print(
        f"Queries that are due share a run: without sharing, the cost is {saved:.2f} times as high."
    )
    if arguments:
        from pathlib import Path

        from sfumato.charts import save, timetable_chart

        names = [query.label for query in QUERIES]
        chart = timetable_chart(table, names, unit="second", size=1_000_000, against=("none", "in"))
        Path(arguments[0]).mkdir(parents=True, exist_ok=True)
        for ending in (".html", ".png"):
            print("drawn:", save(chart, Path(arguments[0]) / f"seismic{ending}"))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
