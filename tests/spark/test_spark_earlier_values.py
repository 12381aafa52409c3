"""sf.earlier_values on real Spark: by definition, in any micro-batches, and as determinants."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812

import sfumato as sf
from sfumato.operators.joins.incomplete_join import IncompleteArrivals, IncompleteJoin
from streams import counts_of, put_parts, run, stream_of

pytestmark = pytest.mark.spark

SCHEMA = "id long, device string, time timestamp, a double, b double"
START = 1_600_000_000_000_000  # microseconds
ADDED = ["earlier_a", "age_a", "earlier_b", "age_b"]


def gappy(n, seed):
    """[(id, device, microseconds, a, b)] in order of time: gaps, NaN, no device, no time."""
    rng = np.random.default_rng(seed)
    time = START + np.cumsum(rng.integers(1, 4, n)) * 250_000
    rows = []
    for i, at in enumerate(time.tolist()):
        a, b = (float(x) if rng.random() < 0.6 else None for x in rng.integers(0, 9, 2))
        device = f"d{rng.integers(0, 3)}" if rng.random() < 0.95 else None
        rows.append((i, device, at if rng.random() < 0.95 else None, math.nan if i == 7 else a, b))
    return rows


def by_definition(rows):
    """{id: (earlier a, its age, earlier b, its age)}"""
    known, result = {}, {}
    for i, device, at, *values in rows:
        if device is None or at is None:
            result[i] = (None,) * 4
            continue
        row = []
        for name, value in zip("ab", values, strict=True):
            before = known.get((device, name))
            row += (None, None) if before is None else (before[0], (at - before[1]) / 1e6)
            if value is not None and not math.isnan(value):
                known[device, name] = value, at
        result[i] = tuple(row)
    return result


def table_of(rows):
    ids, device, at, a, b = zip(*rows, strict=True)
    stamp = pa.timestamp("us", tz="UTC")
    return pa.table(
        [pa.array(ids), pa.array(device, pa.string()), pa.array(at, pa.int64()).cast(stamp),
         pa.array(a, pa.float64()), pa.array(b, pa.float64())],
        names=["id", "device", "time", "a", "b"],
    )  # fmt: skip


def knows(df):
    return sf.earlier_values(df, ["a", "b"], order="time", key="device")


def test_a_stream_gives_the_same_in_any_micro_batches_and_after_a_restart(spark, tmp_path):
    rows = gappy(240, 2)
    stream = stream_of(spark, tmp_path / "in", SCHEMA)
    put_parts(tmp_path / "in", table_of(rows), [0, 1, 90, 91, 150])
    first, one = run(knows(stream), tmp_path)
    put_parts(tmp_path / "in", table_of(rows), [150, 151, 240])
    second, other = run(knows(stream), tmp_path)
    got = {row.id: tuple(row[name] for name in ADDED) for row in first + second}
    assert got == by_definition(rows)
    counts = counts_of(one, other)
    assert len(first + second) == len(rows) == counts["rows"]
    lost = sum(device is None or at is None for _, device, at, _, _ in rows)
    assert counts["invalid"] == lost > 0
    put_parts(tmp_path / "in", table_of(rows), [239, 240])
    with pytest.raises(Exception, match="another query"):
        run(sf.earlier_values(stream, "a", order="time"), tmp_path)


def test_a_late_row_replaces_nothing(spark, tmp_path):
    rows = [
        (0, "d", START, 1.0, None),
        (1, "d", START + 4_000_000, 2.0, 3.0),
        (2, "d", START + 1_000_000, 9.0, 9.0),
        (3, "d", START + 5_000_000, None, None),
    ]
    put_parts(tmp_path / "in", table_of(rows), [0, 2, 3, 4])
    got, query = run(knows(stream_of(spark, tmp_path / "in", SCHEMA)), tmp_path)
    by_id = {row.id: tuple(row[name] for name in ADDED) for row in got}
    assert by_id[2] == (2.0, -3.0, 3.0, -3.0)
    assert by_id[3] == (2.0, 1.0, 3.0, 1.0)
    assert counts_of(query)["out_of_order"] == 1


MOTES, ON = (22, 23), ["temperature", "humidity"]
ROWS, EACH, WITHIN, LEAST, MOST = 40, 150, 0.5, 0.2, 16
KNOWN = [f"{what}_{name}" for name in ON for what in ("earlier", "age")]
DEPENDENCIES = [
    "earlier_temperature, age_temperature -> temperature : 0.005, 0.05 -> 0.05",
    "earlier_humidity, age_humidity -> humidity : 0.005, 0.05 -> 0.05",
    "temperature -> humidity : 0.05 -> 0.1",
    "humidity -> temperature : 0.05 -> 0.1",
]


def lab(data_folder):
    """Two motes of the Intel lab: what they sent until some hour, and after that, with gaps."""
    table = pq.read_table(data_folder / "intel_lab_9motes.parquet").to_pandas()
    table = table[table.moteid.isin(MOTES)].dropna(subset=ON).sort_values("ts", kind="stable")
    table = table.drop_duplicates("ts")[["ts", "moteid", *ON]]
    past = table.iloc[2_000:6_000].copy()
    live = table.iloc[6_000 : 6_000 + 2 * EACH].reset_index(drop=True)
    lost = np.random.default_rng(5)
    gaps = live.copy()
    for frame in (past, gaps):
        for name in ON:
            frame.loc[lost.random(len(frame)) < 0.4, name] = np.nan
    return past, live, gaps


def arrow(frame):
    return pa.table(
        {
            "time": pa.array(frame.ts.to_numpy("datetime64[us]")).cast(pa.timestamp("us", "UTC")),
            "mote": pa.array(frame.moteid.to_numpy(np.int64)),
            **{name: pa.array(frame[name].to_numpy(float), from_pandas=True) for name in ON},
        }
    )


def by_operators(repository, gaps):
    """The pairs without Spark: earlier values, then the fused join."""
    key = (gaps.moteid.to_numpy() == MOTES[1]).astype(np.int64)
    micro = gaps.ts.to_numpy("datetime64[us]").astype(np.int64)
    earlier, age = sf.engine_free.EarlierValues(2).process(key, micro, gaps[ON])
    values = np.column_stack([gaps[ON].to_numpy(float), earlier[:, 0], age[:, 0] / 1e6,
                              earlier[:, 1], age[:, 1] / 1e6])  # fmt: skip
    names = [*ON, *KNOWN]
    imputer = sf.engine_free.Imputer(
        repository[names].to_numpy(float), DEPENDENCIES, ON, names=names, max_alternatives=MOST
    )
    join = IncompleteJoin(imputer, WITHIN, LEAST, sf.Rows(ROWS))
    answers, _ = join.process(
        IncompleteArrivals(key.astype(np.uint8), np.zeros(len(gaps), np.int64), values)
    )
    sides = [micro[key == side] for side in (0, 1)]
    return {
        (int(sides[0][u]), int(sides[1][v])): p
        for u, v, p in zip(
            answers.left.tolist(), answers.right.tolist(), answers.probability.tolist(), strict=True
        )
    }


def complete_pairs(live):
    """The pairs of the data without gaps."""
    held, found = ([], []), set()
    for row in live.itertuples():
        side = int(row.moteid == MOTES[1])
        at = int(row.ts.to_datetime64().astype("datetime64[us]").astype(np.int64))
        point = np.array([row.temperature, row.humidity])
        for other, value in held[1 - side][-ROWS:]:
            if np.linalg.norm(point - value) <= WITHIN:
                found.add((other, at) if side else (at, other))
        held[side].append((at, point))
    return found


def f_score(found, true):
    return 2 * len(found & true) / (len(found) + len(true))


def test_a_gappy_stream_joins_by_its_earlier_values_as_the_operators_do(
    spark, tmp_path, data_folder
):
    past, live, gaps = lab(data_folder)
    repository = sf.earlier_values(
        spark.createDataFrame(arrow(past)), ON, order="time", key="mote"
    ).localCheckpoint()
    impute = sf.Imputation(repository, DEPENDENCIES, ON, max_alternatives=MOST)

    def joined(stream):
        known = sf.earlier_values(stream, ON, order="time", key="mote")
        return sf.similarity_join(
            *(known.where(F.col("mote") == mote) for mote in MOTES), on=ON, within=WITHIN,
            probability=LEAST, window=sf.Rows(ROWS), order="time", impute=impute,
        ).drop("alternatives")  # fmt: skip

    put_parts(tmp_path / "in", arrow(gaps), [0, 120, 121, 2 * EACH])
    schema = "time timestamp, mote long, temperature double, humidity double"
    rows, _ = run(joined(stream_of(spark, tmp_path / "in", schema)), tmp_path)

    def micro(time: datetime) -> int:
        return round(time.astimezone(UTC).timestamp() * 1e6)

    got = {(micro(row.left.time), micro(row.right.time)): row.probability for row in rows}
    complete = repository.toPandas().dropna()
    expected = by_operators(complete, gaps)
    assert got == pytest.approx(expected, abs=1e-12)
    without = sf.engine_free.Imputer(
        complete[ON].to_numpy(float), DEPENDENCIES[2:], ON, names=ON, max_alternatives=MOST
    )
    true = complete_pairs(live)
    alone = IncompleteJoin(without, WITHIN, LEAST, sf.Rows(ROWS))
    side = (gaps.moteid.to_numpy() == MOTES[1]).astype(np.uint8)
    answers, _ = alone.process(
        IncompleteArrivals(side, np.zeros(len(gaps), np.int64), gaps[ON].to_numpy(float))
    )
    stamps = gaps.ts.to_numpy("datetime64[us]").astype(np.int64)
    plain = {
        (int(stamps[side == 0][u]), int(stamps[side == 1][v]))
        for u, v in zip(answers.left.tolist(), answers.right.tolist(), strict=True)
    }
    assert f_score(set(got), true) > f_score(plain, true) + 0.05


def test_an_order_that_is_no_number_is_no_order(spark):
    rows = [("x", 1.0, 5.0), ("y", math.nan, 6.0), ("z", 2.5, None)]
    df = spark.createDataFrame(rows, "id string, at double, a double")
    out = sf.earlier_values(df, "a", order="at").collect()
    got = {row.id: (row.earlier_a, row.age_a) for row in out}
    assert got == {"x": (None, None), "y": (None, None), "z": (5.0, 1.5)}
