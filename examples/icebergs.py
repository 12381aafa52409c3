"""The icebergs that have drifted longest: top-k over sightings that may be wrong.

    python examples/icebergs.py SIGHTINGS.parquet [FOLDER]

SIGHTINGS is a table of the International Ice Patrol's sightings (NSIDC G00807) with the columns
iceberg_year, iceberg_number, ts, latitude, longitude, method and source. The paper from which the
queries come ranks such sightings by the days an iceberg has drifted, and converts the method of
sighting into the probability that the iceberg is there. This example does the same, and counts the
days from the first sighting.

Two sightings that one platform reports within ten minutes and a tenth of a degree may be the same
iceberg seen twice: at most one of them exists, if their probabilities allow it (a generation rule).

Three queries with different k and bounds are answered together. Pictures of their timetable and of
the ranks in the last answer are written to FOLDER.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import sfumato as sf

# The methods of sighting, with their reliability (radar and visual, ..., satellite).
CONFIDENCE = {"R/V": 0.8, "VIS": 0.7, "SAT-HIGH": 0.6, "RAD": 0.5, "SAT-MED": 0.4, "SAT-LOW": 0.3}
QUERIES = [
    sf.Top(2, every="1 day", name="two a day"),
    sf.Top(5, every="3 days", name="five"),
    sf.Top(10, every="1 week", name="ten a week"),
]
MONTH = "30 days"
COLUMNS = ("iceberg_year", "iceberg_number", "ts", "latitude", "longitude", "method", "source")


def read(path: Path, season: int = 2014) -> pd.DataFrame:
    """Return a season's sightings in order: berg, ts, place, days drifted, confidence and rule."""
    if not path.is_file():
        raise SystemExit(f"there is no file {path}: give the path of your copy of the sightings")
    data = pd.read_parquet(path)
    missing = [name for name in COLUMNS if name not in data.columns]
    if missing:
        raise SystemExit(f"{path} does not have the columns {', '.join(missing)}")
    data = data[(data["iceberg_year"] == season) & data["method"].isin(CONFIDENCE)]
    data = data.sort_values(["ts", "iceberg_number"], kind="stable").reset_index(drop=True)
    first = data.groupby("iceberg_number")["ts"].transform("min")
    frame = pd.DataFrame(
        {
            "id": np.arange(len(data)),
            "berg": data["iceberg_number"].astype("int64"),
            "ts": data["ts"].astype("datetime64[us]"),
            "latitude": data["latitude"],
            "longitude": data["longitude"],
            "days": (data["ts"] - first).dt.total_seconds() / 86_400,
            "existence": data["method"].map(CONFIDENCE),
        }
    )
    frame["rule"] = same_berg_twice(frame, data["source"])
    return frame


def same_berg_twice(frame: pd.DataFrame, source: pd.Series) -> pd.Series:
    """Return a number for each pair of consecutive sightings of possibly one iceberg, or NULL."""
    near = (
        (source == source.shift())
        & (frame["ts"].diff() <= pd.Timedelta(minutes=10))
        & (frame["latitude"].diff().abs() < 0.1)
        & (frame["longitude"].diff().abs() < 0.1)
        & (frame["existence"] + frame["existence"].shift() <= 1.0)
    ).to_numpy()
    rule = np.full(len(frame), np.nan)
    for i in np.flatnonzero(near):
        if np.isnan(rule[i - 1]):
            rule[i - 1] = rule[i] = i
    return pd.Series(rule).astype("Int64")


def ranked(spark, frame: pd.DataFrame):
    """Return the answers to all queries: one ranking of the last 30 days per query time."""
    rows = [
        (
            *r[:2],
            r.ts.tz_localize("UTC").to_pydatetime(),
            *r[3:7],
            None if pd.isna(r.rule) else int(r.rule),
        )
        for r in frame.itertuples(index=False)
    ]
    schema = (
        "id long, berg long, ts timestamp, latitude double, longitude double, days double, "
        "existence double, rule long"
    )
    sightings = spark.createDataFrame(rows, schema)
    return sf.top_k(
        sightings, QUERIES, by="days", window=sf.Range(MONTH), order="ts", exclusive="rule"
    )


def pictures(frame: pd.DataFrame, folder: Path) -> list[Path]:
    """Draw the timetable, and the rank probabilities of 30 days at the height of the season."""
    from sfumato.charts import rank_chart, save, timetable_chart

    folder.mkdir(parents=True, exist_ok=True)
    day = 86_400_000_000
    table = sf.engine_free.timetable([(query.k, query.interval) for query in QUERIES])
    plan = timetable_chart(
        table, [query.label for query in QUERIES], unit="day", size=day, against=("none", "in")
    )
    end = frame["ts"].iloc[len(frame) // 2]
    window = frame[(frame["ts"] >= end - pd.Timedelta(MONTH)) & (frame["ts"] < end)]
    ranks = rank_chart(
        window["days"],
        window["existence"],
        window["rule"].fillna(-1).astype("int64"),
        k=10,
        labels=[
            f"berg {r.berg}, {r.days:.0f} days, seen {r.ts:%d %b %H:%M}"
            for r in window.itertuples()
        ],
        what="sighting",
    )
    names = [("timetable", plan), ("ranks", ranks)]
    return [save(c, folder / f"{n}{end}") for n, c in names for end in (".html", ".png")]


def main(arguments: list[str]) -> None:
    if not 1 <= len(arguments) <= 2:
        raise SystemExit(__doc__)
    from pyspark.sql import SparkSession

    frame = read(Path(arguments[0]))
    builder = SparkSession.builder.master("local[2]")
    for name, value in sf.ops.settings(2, local_disk=True).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    answers = ranked(spark, frame).selectExpr(
        "query", "time", "rank", "row.berg", "round(score, 1) AS days",
        "round(probability, 3) AS probability", "answered",
    )  # fmt: skip
    answers.where("query = 'five'").orderBy("time", "rank").show(20, truncate=False)
    if len(arguments) == 2:
        for path in pictures(frame, Path(arguments[1])):
            print(f"drawn: {path}")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
