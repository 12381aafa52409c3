"""Flink SQL through PyFlink, two tasks, over two CSV files."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from engine import measure

READINGS = "ts BIGINT, arrival BIGINT, k INT, v DOUBLE"
ROW_TIME = "et AS TO_TIMESTAMP_LTZ(ts, 3), WATERMARK FOR et AS et - INTERVAL {}"
MEANS = """SELECT CAST(k AS BIGINT),
  UNIX_TIMESTAMP(DATE_FORMAT(window_end, 'yyyy-MM-dd HH:mm:ss')) * 1000, SUM(v), COUNT(*)
  FROM TABLE(HOP(TABLE src, DESCRIPTOR(et),
    INTERVAL '1' MINUTE, INTERVAL '10' MINUTES))
  GROUP BY window_start, window_end, k"""
PAIRS = """SELECT l.id, r.id FROM src l JOIN src r
  ON l.side = 0 AND r.side = 1 AND ABS(l.x - r.x) <= 0.5
  AND l.et BETWEEN r.et - INTERVAL '1.999' SECOND AND r.et + INTERVAL '1.999' SECOND"""


def environment(checkpoints: Path | None = None) -> Any:
    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment

    settings = Configuration()
    values = {"parallelism.default": "2", "taskmanager.memory.managed.size": "512m"}
    values["table.local-time-zone"] = "UTC"
    if checkpoints is not None:
        values |= {
            "execution.checkpointing.interval": "1s",
            "execution.checkpointing.storage": "filesystem",
            "execution.checkpointing.dir": checkpoints.as_uri(),
            "state.backend.type": "rocksdb",
        }
    for name, value in values.items():
        settings.set_string(name, value)
    mode = EnvironmentSettings.new_instance().in_streaming_mode()
    return TableEnvironment.create(mode.with_configuration(settings).build())


def run(
    folder: Path, answers: Path | None, rows: str, delay: str, query: str, sink: str, kept: bool
) -> None:
    """Run one query over the rows; answers are written as CSV, then converted to Parquet."""
    place = Path(tempfile.mkdtemp())
    table = environment(place / "checkpoints" if kept else None)
    source = f"'connector' = 'filesystem', 'path' = '{folder.absolute() / 'csv'}'"
    row_time = ROW_TIME.format(delay)
    table.execute_sql(f"CREATE TABLE src ({rows}, {row_time}) WITH ({source}, 'format' = 'csv')")
    out = "'connector' = 'blackhole'"
    if answers is not None:
        out = f"'connector' = 'filesystem', 'path' = '{place / 'out'}', 'format' = 'csv'"
    table.execute_sql(f"CREATE TABLE snk ({sink}) WITH ({out})")
    table.execute_sql(f"INSERT INTO snk {query}").wait()
    if answers is not None:
        import pandas as pd

        names = [part.split()[0].strip("`") for part in sink.split(", ")]
        files = [path for path in (place / "out").rglob("*") if path.is_file()]
        parts = [pd.read_csv(path, names=names) for path in files if path.stat().st_size]
        pd.concat(parts).to_parquet(answers)
    shutil.rmtree(place, ignore_errors=True)


def means(folder: Path, answers: Path | None, kept: bool = False) -> None:
    sink = "k BIGINT, `end` BIGINT, s DOUBLE, n BIGINT"
    run(folder, answers, READINGS, "'2' MINUTE", MEANS, sink, kept)


def means_kept(folder: Path, answers: Path | None) -> None:
    means(folder, answers, kept=True)


def join(folder: Path, answers: Path | None) -> None:
    rows = "id BIGINT, side INT, ts BIGINT, x DOUBLE"
    run(folder, answers, rows, "'1' SECOND", PAIRS, "a BIGINT, b BIGINT", False)


if __name__ == "__main__":
    jobs = {"means": means, "means_kept": means_kept, "join": join, "first": means}
    measure("apache-flink", jobs)
