"""Streams in any micro-batches, restarted and run to their end, answer like tables in memory."""

import warnings
from itertools import pairwise

import pytest
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType

import sfumato as sf
from engine_cases import (
    CASES,
    COMPLETE,
    IMPUTED,
    INCOMPLETE,
    REORDERED,
    ROWS,
    A,
    B,
    rows_of,
    with_times,
)
from seeds import nightly_except
from sfumato.spark.run_to_end import ending
from streams import counts_of, put_parts, stream_of

pytestmark = pytest.mark.spark
CUTS = [0, 1, 60, ROWS]  # before the last part, the query is restarted
COUNTED = (
    "late",
    "stale",
    "duplicates",
    "pairs",
    "unmatched",
    "answers",
    "complete",
    "imputed",
    "unimputable",
)
QUERIES = {
    name: (CASES[name], (A, B))
    for name in (
        "reorder sources", "joined with itself after reorder", "resampled",
        "early answers", "early answers of uncertain rows", "joined in lockstep",
        "sessions after reorder", "days of a zone", "extents of unique rows",
        "extents of corrected rows", "extents with shared errors", "three joined",
        "averages over time",
        "neighbours after reorder", "neighbours in another frame after reorder",
        "full joined after reorder",
        "as of, after reorder", "worlds of reordered rows",
    )
}  # fmt: skip
for name in ("imputed or rejected", "imputed by changes", "incomplete rows joined"):
    QUERIES[name] = IMPUTED[name], (INCOMPLETE, COMPLETE)
QUERIES["shared by tasks"] = (
    lambda sf, a, b: sf.similarity_join(
        *(sf.reorder(one, **REORDERED, slack=3) for one in (a, b)), on=["x", "y"], within=0.4,
        probability=0.2, window=sf.Rows(6, 0.9), order="made", key="room", tasks=3,
    ),
    (A, B),
)  # fmt: skip
QUERIES["missed rows"] = (
    lambda sf, a, b: sf.window_aggregate(
        sf.reorder(a, **REORDERED, key="room", slack=3), {"s": "sum(y)"}, window=sf.Range("7 s"),
        order="made", key="room", missed=True,
    ),
    (A, B),
)  # fmt: skip
QUERIES["uncertain times"] = (
    lambda sf, a, b: sf.window_aggregate(
        sf.reorder(a, **REORDERED, key="room", slack=4), {"n": "count(*)", "s": "sum(y)"},
        window=sf.Range("7 s", "3 s"), order="t", key="room",
    ),
    (with_times(A, "made"), B),
)  # fmt: skip


# Spark's part is the same for all operators; test_table_laws has the cuts and restarts of each.
KEPT = "reorder sources", "early answers", "full joined after reorder", "imputed by changes"


def computed(frame):
    """Return a frame whose arrays are computed from those of the frame, without NULL elements."""

    def each(field):
        names = field.dataType.elementType.names
        return F.transform(field.name, lambda of: F.struct(*(of[n].alias(n) for n in names)))

    arrays = [field for field in frame.schema if isinstance(field.dataType, ArrayType)]
    return frame.withColumns({field.name: each(field) for field in arrays})


@pytest.mark.parametrize("name", nightly_except(QUERIES, "shared by tasks", *KEPT))
def test_a_stream_answers_as_the_table_in_memory(spark, tmp_path, name):
    build, tables = QUERIES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sf.errors.InvalidRowsWarning)
        answers = build(sf, *tables)
    frames = [spark.createDataFrame(table) for table in tables]
    streams = 2 if tables[1] is B else 1  # the second table may be a repository
    came, queries = [], []

    def run_all(last):
        with ending(spark, last):
            given = [
                computed(stream_of(spark, tmp_path / str(side), frame.schema))
                if side < streams
                else frame
                for side, frame in enumerate(frames)
            ]
            writer = build(sf, *given).writeStream.trigger(availableNow=True)
            writer = writer.option("checkpointLocation", str(tmp_path / "state"))
            queries.append(writer.foreachBatch(lambda df, _: came.append(df.toArrow())).start())
        queries[-1].awaitTermination()

    def put(cuts):
        for side, table in enumerate(tables[:streams]):
            for part in pairwise(cuts):
                put_parts(tmp_path / str(side), table, part)

    put(CUTS[:-1])
    run_all(last=False)
    put(CUTS[-2:])
    run_all(last=True)
    assert sorted(row for table in came for row in rows_of(table)) == rows_of(answers)
    counted = counts_of(*queries)
    expected = {}
    for each in sf.ops.counters(answers).values():
        for counter, count in each.items():
            expected[counter] = expected.get(counter, 0) + (counter in COUNTED and count)
    found = {counter: counted.get(counter, 0) for counter in expected if counter in COUNTED}
    assert found == {counter: expected[counter] for counter in found}
