"""Polars and DuckDB over frames: sliding sums in the obvious way, and with panes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from engine import measure

FOLDER = Path(sys.argv[2])
ROWS = pq.read_table(FOLDER / "all.parquet").select(["ts", "k", "v"]).sort_by("ts")


def kept(table: pa.Table, answers: Path | None) -> None:
    if answers is not None:
        pq.write_table(table, answers)


if Path(sys.argv[0]).name and sys.argv[1].startswith("polars"):
    import polars as pl

    FRAME: Any = pl.from_arrow(ROWS)
    END = (pl.col("end").dt.epoch("ms"), pl.col("k").cast(pl.Int64))
else:
    import duckdb

    DUCK = duckdb.connect()
    DUCK.sql("SET threads = 2")
    DUCK.sql("SET TimeZone = 'UTC'")
    DUCK.register("given", ROWS)
    DUCK.sql("CREATE TABLE r AS SELECT * FROM given")


def polars_static(folder: Path, answers: Path | None) -> None:
    out = FRAME.group_by_dynamic(
        "ts", every="1m", period="10m", group_by="k", closed="left", label="right"
    ).agg(s=pl.col("v").sum(), n=pl.len().cast(pl.Int64))
    if answers is not None:
        kept(out.rename({"ts": "end"}).with_columns(END).to_arrow(), answers)


def polars_panes(folder: Path, answers: Path | None) -> None:
    minute = pl.col("ts").dt.truncate("1m")
    panes = FRAME.lazy().group_by("k", minute).agg(s=pl.col("v").sum(), n=pl.len())
    ends = panes.with_columns(after=pl.int_ranges(1, 11)).explode("after")
    ends = ends.with_columns(end=pl.col("ts") + pl.duration(minutes=pl.col("after")))
    out = ends.group_by("k", "end").agg(pl.col("s").sum(), pl.col("n").sum().cast(pl.Int64))
    out = out.collect()
    if answers is not None:
        kept(out.with_columns(END).to_arrow(), answers)


def polars_newest(folder: Path, answers: Path | None) -> None:
    out = FRAME.with_columns(s=pl.col("v").rolling_sum(100, min_samples=1).over("k"))
    if answers is not None:
        kept(out.rename({"ts": "end"}).with_columns(END).to_arrow(), answers)


def duckdb_static(folder: Path, answers: Path | None) -> None:
    kept(
        DUCK.sql(
            "SELECT k::BIGINT k, epoch_ms(time_bucket(INTERVAL 1 MINUTE, ts)) + (o + 1) * 60000"
            ' "end", sum(v) s, count(*) n FROM r, range(0, 10) t(o) GROUP BY ALL'
        ).to_arrow_table(),
        answers,
    )


def duckdb_panes(folder: Path, answers: Path | None) -> None:
    kept(
        DUCK.sql(
            "WITH p AS (SELECT k, epoch_ms(time_bucket(INTERVAL 1 MINUTE, ts)) b, sum(v) s,"
            " count(*) n FROM r GROUP BY ALL) SELECT k::BIGINT k, b + (o + 1) * 60000"
            ' "end", sum(s) s, sum(n)::BIGINT n FROM p, range(0, 10) t(o) GROUP BY ALL'
        ).to_arrow_table(),
        answers,
    )


def duckdb_newest(folder: Path, answers: Path | None) -> None:
    kept(
        DUCK.sql(
            'SELECT k::BIGINT k, epoch_ms(ts) "end", sum(v) OVER (PARTITION BY k ORDER BY ts'
            " ROWS BETWEEN 99 PRECEDING AND CURRENT ROW) s FROM r"
        ).to_arrow_table(),
        answers,
    )


if __name__ == "__main__":
    calls = (polars_static, polars_panes, polars_newest, duckdb_static, duckdb_panes, duckdb_newest)
    measure(sys.argv[1].partition("_")[0], {call.__name__: call for call in calls})
