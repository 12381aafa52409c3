"""Operations that move a controller's rows on their way to another operator change no answer."""

import pytest

import sfumato as sf
from engine_cases import rows_of
from seeds import nightly_except
from spark_tables import tables_of

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def readings(spark):
    """Return one row per second; every third row arrives later than the controller waits."""
    return spark.range(240).selectExpr(
        "id", "id % 5 AS device", "timestamp_seconds(id) AS made",
        "timestamp_seconds(id + IF(id % 3 = 0, 12, 1)) AS arrival",
    )  # fmt: skip


@pytest.fixture(scope="module")
def devices(spark):
    return spark.range(5).selectExpr("id AS device", "id % 2 AS site")


def ordered(rows):
    return sf.reorder(rows, event_time="made", arrival="arrival", max_delay="10 seconds")


def counted(rows):
    window = sf.Range("5 seconds")
    found = sf.window_aggregate(rows, {"n": "count(*)"}, window=window, order="made")
    return found.selectExpr("window.start", "n", "late")


def earlier(rows):
    found = sf.earlier_values(rows, "id", order="made", key="device")
    return found.select("id", "late", "earlier_id", "age_id")


def ranked(rows):
    found = sf.top_k(rows, 2, by="id", window=sf.Range("7 seconds"), order="made")
    return found.selectExpr("time", "rank", "score", "row.id")


def tuples(frame):
    return sorted(map(tuple, frame.collect()))


def shuffled(rows, devices):
    return rows.hint("merge").join(devices, "device")


@pytest.mark.parametrize("query", nightly_except([counted, earlier, ranked], counted, earlier))
def test_a_join_a_repartition_a_sort_and_a_file_between_change_no_answer(
    spark, readings, devices, tmp_path, query
):
    rows = ordered(readings)
    rows.repartition(3).write.parquet(str(tmp_path / "rows"))
    moved = {
        "not at all": rows,
        "by a join": shuffled(rows, devices),
        "to other partitions": rows.repartition(4),
        "by a sort": rows.orderBy("device", "id", ascending=False),
        "through a file": spark.read.parquet(str(tmp_path / "rows")),
    }
    found = tables_of({name: query(df) for name, df in moved.items()})
    expected = rows_of(found["not at all"])
    assert len(expected) > 40
    assert {name: rows_of(table) == expected for name, table in found.items()} == dict.fromkeys(
        moved, True
    )


def test_a_join_between_that_shuffles_a_stream_changes_no_answer(
    spark, readings, devices, tmp_path
):
    for number in range(3):  # three micro-batches
        part = readings.where(f"id DIV 80 = {number}").orderBy("arrival")
        part.coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))

    def start():
        reader = spark.readStream.schema(readings.schema).option("maxFilesPerTrigger", 1)
        rows = shuffled(ordered(reader.parquet(str(tmp_path / "in"))), devices)
        writer = counted(rows).writeStream.option("checkpointLocation", str(tmp_path / "state"))
        writer = writer.format("parquet").trigger(availableNow=True)
        return writer.start(str(tmp_path / "out"))

    sf.ops.run_to_end(spark, start)
    expected = tuples(counted(ordered(readings)))
    assert sum(row[1] for row in expected) == 240
    assert tuples(spark.read.parquet(str(tmp_path / "out"))) == expected


def test_rows_that_lost_what_describes_them_are_refused_where_late_ones_have_no_part(readings):
    rows = ordered(readings)
    bare = rows.sparkSession.createDataFrame(rows.rdd, rows.schema.simpleString()[7:-1])
    assert tuples(counted(bare)) == tuples(counted(rows))  # extents read late rows too
    with pytest.raises(ValueError, match="lost the metadata that describes them"):
        earlier(bare)
    with pytest.raises(ValueError, match="lost the metadata that describes them"):
        sf.window_aggregate(bare, {"n": "count(*)"}, window=sf.Rows(3), order="made")
    pairs = {"on": "id", "within": 1.0, "probability": 0.5, "window": sf.Rows(3)}
    with pytest.raises(ValueError, match="lost the metadata that describes them"):
        sf.similarity_join(bare, rows, order="made", **pairs)


def test_an_order_that_is_not_the_event_time_is_refused_and_a_new_name_of_it_is_not(readings):
    rows = ordered(readings)
    renamed = rows.withColumnRenamed("made", "at")
    window = {"window": sf.Range("5 seconds"), "order": "at"}
    found = sf.window_aggregate(renamed, {"n": "count(*)"}, **window)
    assert found.selectExpr("sum(n)").first()[0] == 240
    moved = rows.selectExpr("*", "made - INTERVAL 4 HOURS AS local")
    for order in ("local", "arrival"):
        with pytest.raises(ValueError, match='Write order="made"'):
            sf.window_aggregate(moved, {"n": "count(*)"}, window=sf.Range("1 day"), order=order)
    converted = rows.selectExpr("id", "made - INTERVAL 4 HOURS AS made", "late", "punctuation")
    with pytest.raises(ValueError, match="has since been removed or changed"):
        sf.window_aggregate(converted, {"n": "count(*)"}, window=sf.Range("1 day"), order="made")
