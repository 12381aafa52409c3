"""Spark frames and Arrow tables describe the same columns in the same way."""

import pytest

from sfumato.memory.frame import frame_of

COLUMNS = {
    "t": "TIMESTAMP '2026-01-01 00:00:00'",
    "local": "TIMESTAMP_NTZ '2026-01-01 00:00:00'",
    "tiny": "CAST(1 AS TINYINT)",
    "whole": "1L",
    "number": "1.5D",
    "exact": "1.5BD",
    "day": "DATE '2026-01-01'",
    "truth": "true",
    "text": "'a'",
    "bytes": "X'00'",
    "list": "array(1, 2)",
    "map": "map('a', 1)",
    "within": "struct(map('a', 1) AS m)",
    "alternatives": "array(struct(1.0D AS prob, 2.0D AS x))",
}


@pytest.fixture(scope="module")
def frames(spark):
    from sfumato.spark.model.frame import SparkFrame

    df = spark.range(1).selectExpr(*(f"{text} AS {name}" for name, text in COLUMNS.items()))
    return SparkFrame(df), frame_of(df.toArrow())


def test_frames_have_the_same_columns(frames):
    one, other = frames
    assert one.columns == other.columns == list(COLUMNS)
    assert one.attributes == other.attributes == ["x"]
    assert one.uncertain
    assert other.uncertain
    assert [one.single_column("key", name) for name in ("T", "WHOLE")] == ["t", "whole"]


def test_frames_agree_on_kinds_of_values(frames):
    times, others = ["timestamp", "timestamp_ntz"], ["date", "truth", "text"]
    kinds = [*times, "whole", "whole", "number", "number", *others, "", "", "", "", ""]
    for frame in frames:
        assert [frame.kind(name) for name in COLUMNS] == kinds
        assert [name for name in COLUMNS if not frame.is_groupable(name)] == ["map", "within"]


@pytest.mark.parametrize(
    "asked",
    [
        lambda f: f.single_column("order", "tt"),
        lambda f: f.single_column("order", ["t"]),
        lambda f: f.single_column("order", "x"),
        lambda f: f.resolve("order", ["t", "T"]),
        lambda f: f.keys("key", 3),
    ],
)
def test_frames_refuse_with_the_same_message(frames, asked):
    said = []
    for frame in frames:
        with pytest.raises((TypeError, ValueError)) as error:
            asked(frame)
        said.append(str(error.value))
    assert said[0] == said[1]


def test_frames_name_types_in_their_own_words(frames):
    one, other = frames
    for frame, shown in ((one, "array<int>"), (other, "list<element: int32")):
        with pytest.raises(TypeError, match=f"numbers, times or dates; `list` is {shown}"):
            frame.require_orders("order", ["list"])
    with pytest.raises(TypeError, match="Spark cannot group by column `map`, which is map"):
        one.keys("key", "map")
    with pytest.raises(TypeError, match="rows cannot be grouped by column `map`, which is"):
        other.keys("key", "map")
    with pytest.raises(TypeError, match=r"`text` is string: convert it with to_timestamp\(text\)"):
        one.require_time("order", "text")
    with pytest.raises(TypeError, match=r"`text` is string: convert text with pandas.to_datetime"):
        other.require_time("order", "text")
