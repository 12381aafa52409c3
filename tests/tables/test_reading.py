"""Rows of users' tables as operators read them, with ties and rejections as on Spark."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from sfumato.memory.frame import ArrowFrame
from sfumato.operators.row_hash import add_bytes, new_hashes
from sfumato.tables.reading.expressions import (
    ColumnRef,
    evaluate_condition,
    evaluate_doubles,
    parse_expression,
    spark_kind,
)
from sfumato.tables.reading.results import rename_taken, result_table
from sfumato.tables.reading.rows import (
    Probabilities,
    Reading,
    Rule,
    Samples,
    Ties,
    Values,
    controller_readers,
)
from sfumato.tables.reading.ties import ties_of
from sfumato.tables.reading.types import as_doubles
from sfumato.tables.reading.validity import why_invalid

INF, NAN = float("inf"), float("nan")
DAY = dt.datetime(2026, 3, 29, 1, 30, tzinfo=dt.UTC)
HASHED = {
    "truth": (pa.bool_(), [True, False, None]),
    "tiny": (pa.int8(), [-1, 127, None]),
    "small": (pa.int16(), [-300, 300, None]),
    "middle": (pa.int32(), [-(2**31), 7, None]),
    "long": (pa.int64(), [-(2**63), 2**40, None]),
    "float": (pa.float32(), [-0.0, NAN, 1.5]),
    "double": (pa.float64(), [-0.0, NAN, 0.1]),
    "few": (pa.decimal128(18, 3), [Decimal("-1.125"), Decimal("999999999999999.999"), None]),
    "many": (pa.decimal128(30, 2), [Decimal("-1.25"), Decimal(2**70), None]),
    "text": (pa.string(), ["", "sfumato: ü ∑ " * 4, None]),
    "short": (pa.string(), ["12345678", "123456789abcd", "\0\uffff"]),
    "bytes": (pa.binary(), [b"\xff\x80", b"x" * 32, None]),
    "day": (pa.date32(), [dt.date(1969, 12, 31), dt.date(2026, 1, 1), None]),
    "moment": (pa.timestamp("us", "UTC"), [DAY, DAY.replace(year=1960), None]),
    "wall": (pa.timestamp("us"), [DAY.replace(tzinfo=None), None, dt.datetime(1900, 1, 1)]),
    "while": (pa.duration("us"), [dt.timedelta(days=-1), dt.timedelta(microseconds=3), None]),
    "numbers": (pa.list_(pa.int32()), [[1, None, 2], [], None]),
    "texts": (pa.list_(pa.string()), [["a", None], ["b", "cc", ""], None]),
    "nested": (pa.list_(pa.list_(pa.float64())), [[[1.0], None, []], [[-0.0, NAN]], None]),
    "struct": (
        pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.string())]))]),
        [{"a": 1, "b": None}, {"a": None, "b": {"c": "x"}}, None],
    ),
    "alternatives": (
        pa.list_(pa.struct([("prob", pa.float64()), ("x", pa.int32())])),
        [[{"prob": 0.5, "x": 1}, None, {"prob": 0.5, "x": None}], [], None],
    ),
    "mixed": (
        pa.list_(pa.struct([("prob", pa.float64()), ("name", pa.string())])),
        [[{"prob": 1.0, "name": "n"}, None], [{"prob": None, "name": None}], None],
    ),
}


def hashed() -> pa.Table:
    return pa.table({name: pa.array(cells, kind) for name, (kind, cells) in HASHED.items()})


def test_ties_are_the_hashes_that_spark_gives_for_every_type(spark):
    frame = spark.createDataFrame(hashed())
    every = [f"xxhash64(`{name}`) as `{name}`" for name in HASHED]
    given_ = frame.selectExpr(*every, f"xxhash64({', '.join(f'`{n}`' for n in HASHED)}) as tie")
    expected = given_.toArrow()
    for name in HASHED:
        assert ties_of(hashed().select([name])).to_pylist() == expected[name].to_pylist(), name
    assert ties_of(hashed()).to_pylist() == expected["tie"].to_pylist()
    sliced = pa.concat_tables([hashed(), hashed()]).combine_chunks().slice(2, 3)
    assert ties_of(sliced).to_pylist() == [expected["tie"][i].as_py() for i in (2, 0, 1)]


def test_columns_with_maps_are_not_hashed():
    maps = pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32()))
    plain = pa.table({"a": [1, 2]})
    assert ties_of(plain.append_column("m", maps)).equals(ties_of(plain))
    assert ties_of(pa.table({"m": maps})).to_pylist() == [0, 0]


def test_bytes_of_any_length_are_hashed_as_by_spark(spark):
    rng = np.random.default_rng(2)
    strings = pa.table({"b": pa.array([rng.bytes(n) for n in range(101)], pa.binary())})
    expected = spark.createDataFrame(strings).selectExpr("xxhash64(b) AS tie").toArrow()
    assert ties_of(strings).to_pylist() == expected["tie"].to_pylist()


def test_a_missing_value_leaves_the_hash():
    hashes = new_hashes(2)
    add_bytes(hashes, np.array([0, 0, 1]), np.zeros(1, np.uint8), np.array([False, True]))
    assert hashes[0] == 42 != hashes[1]


def alternative(prob, x, y=0.0):
    return {"prob": prob, "x": x, "y": y}


ROWS = [
    (1, 10, "a", [alternative(0.5, 1.0), alternative(0.5, None)]),
    (2, 20, "a", [alternative(1.0, 3.0, 7.0)]),
    (3, 5, None, [alternative(0.7, 3.0), alternative(0.4, 2.0)]),
    (4, None, "b", [alternative(0.7, 3.0)]),
    (5, 6, "b", []),
    (6, 7, "b", None),
    (7, 8, "b", [alternative(0.5, 1.0), None]),
    (8, 9, "b", [alternative(NAN, 1.0)]),
    (9, 9, "b", [alternative(0.4, INF)]),
    (10, 9, "b", [alternative(0.4, 2.0, NAN)]),
    (11, 9, None, [alternative(0.4, -1e200)]),
    (12, 9, "c", [alternative(0.2, -0.0), alternative(0.2, 2.0), alternative(0.6 + 1e-10, 3.0)]),
]
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("at", pa.int64()),
        ("k", pa.string()),
        ("alternatives", pa.list_(pa.struct([(n, pa.float64()) for n in ("prob", "x", "y")]))),
    ]
)
UNCERTAIN = pa.Table.from_pylist(
    [dict(zip(SCHEMA.names, row, strict=True)) for row in ROWS], schema=SCHEMA
)
PLAIN = pa.table(
    {
        "id": [1, 2, 3, 4, 5],
        "at": [4, 3, 2, None, 1],
        "k": ["a", None, "a", "b", "b"],
        "m": [{"mean": 1.5, "n": 2}, None, {"mean": NAN, "n": 3}, {"mean": 1.0, "n": 1}, None],
        "existence": [1.0, 0.5, 0.5, 0.25, 0.0],
    }
)


def test_reasons_are_those_of_the_rejected_rows(spark):
    import sfumato as sf

    for table, attributes in ((UNCERTAIN, None), (UNCERTAIN, []), (PLAIN, ["id"])):
        frame = spark.createDataFrame(table)
        expected = {row.id: row.reason for row in sf.split_invalid(frame, attributes)[1].collect()}
        reasons = why_invalid(table, attributes).column()
        got = dict(zip(table["id"].to_pylist(), reasons.to_pylist(), strict=True))
        assert {i: reason for i, reason in got.items() if reason is not None} == expected


def test_reasons_of_any_alternatives_are_those_of_the_rejected_rows(spark):
    import sfumato as sf

    rng = np.random.default_rng(5)
    odd = [None, NAN, INF, -INF, -0.5, 0.0, 1.5, 1e200]

    def some_alternatives():
        shares = rng.dirichlet(np.ones(rng.integers(1, 13)))
        scale = rng.choice([0.5, 1.0, 1.0 + 1e-6, 1.0 + 3e-6])
        found = [alternative(p * scale, *rng.normal(size=2)) for p in shares.tolist()]
        place = int(rng.integers(2 * len(found)))
        if place < len(found):  # half of the rows get an odd value
            field = ("prob", "x", "y", None)[rng.integers(4)]
            if field is None:
                found[place] = None
            else:
                found[place][field] = odd[rng.integers(len(odd))]
        return found

    rows = [{"id": i, "at": i, "k": "a", "alternatives": some_alternatives()} for i in range(1_000)]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    for attributes in (None, [], ["y"]):
        expected = sf.split_invalid(spark.createDataFrame(table), attributes)[1].collect()
        reasons = why_invalid(table, attributes).column()
        got = dict(zip(table["id"].to_pylist(), reasons.to_pylist(), strict=True))
        known = {i: reason for i, reason in got.items() if reason is not None}
        assert 100 < len(known) < 900
        assert known == {row.id: row.reason for row in expected}


def parsed(text):
    return parse_expression("by", text)


def window_reading(*texts):
    """Return the reading of a window of values, for a table with `at` and `k`."""
    values = tuple((f"value{i}", Values(parsed(text))) for i, text in enumerate(texts))
    bounded = tuple(name for name, _ in values)
    rule = Rule(probabilities=True, complete=("order0",), bounded_values=bounded)
    cells = (("prob", Probabilities("existence")), *values)
    return Reading(("id",), ("at",), ("k",), cells, rule, Ties(("id", "at")))


def test_a_window_reads_the_values_of_expressions_and_counts_what_is_wrong_with_other_rows():
    read = window_reading("x", "2 * x + id").read(UNCERTAIN)
    assert [row["c0"] for row in read.rows["row"].to_pylist()] == [1, 2, 10, 12]
    assert read.rows["value1"].to_pylist()[1:] == [[8.0], [14.0], [12.0, 16.0, 18.0]]
    assert read.rows["value0"].to_pylist()[0] == [1.0, None]
    assert read.rows["prob"].to_pylist()[0] == [0.5, 0.5]
    assert read.rows["__tie"].equals(pa.chunked_array([ties_of(pa.table({
        "id": [1, 2, 10, 12], "at": [10, 20, 9, 9]}))]))  # fmt: skip
    assert read.row_count == 12
    assert read.invalid == {
        "the probabilities sum to 1.1": 1,
        "no alternatives": 2,
        "an alternative is NULL": 1,
        "an alternative's prob is missing or not in (0, 1]": 1,
        "order is NULL": 1,
        "an alternative's x is missing or not finite": 1,
        "a value is beyond 1e140": 1,
    }


def test_a_row_of_existence_0_is_valid_and_has_no_effect():
    read = window_reading("m.mean").read(PLAIN)
    assert read.rows["prob"].to_pylist() == [[1.0], [0.5]]
    assert read.rows["value0"].to_pylist() == [[1.5], [None]]
    assert read.invalid == {"m.mean is missing or not finite": 1, "order is NULL": 1}


def test_columns_that_are_read_are_named_once_and_by_the_frame():
    frame = ArrowFrame(UNCERTAIN)
    assert window_reading("X + id").columns(frame) == ["id", "at", "k", "alternatives"]
    assert window_reading("M.mean").columns(ArrowFrame(PLAIN)) == [
        "id", "at", "k", "existence", "m",
    ]  # fmt: skip


KINDS = {"i": "whole", "d": "double", "b": "truth", "s": "text"}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("i", "whole"), ("i + 1", "whole"), ("i / 2", "double"), ("d * 0.5", "double"),
        ("-d", "double"), ("i > 2", "truth"), ("b and not i = 1", "truth"), ("i is null", "truth"),
        ("2e3", "double"), ("0.5", "point"), ("d between 1 and i", "truth"), ("true", "truth"),
        ("abs(i)", "whole"), ("ABS (d - 1)", "double"), ("sqrt(i)", "double"), ("abs", ""),
        ("CASE WHEN i > 1 THEN i WHEN b THEN 2 END", "whole"), ("if(b, i, d)", "double"),
        ("coalesce(d, 0.5)", "double"), ("if(b, b, i = 1)", "truth"),
        ("s = 'a' or s in ('b', 'c')", "truth"), ("if(s < 'b', s, 'a')", "text"),
        ("s is null", "truth"), ("if(s = 'a', i, 0)", "whole"), ("if(b, null, i)", "whole"),
        ("i > 0 and d / i > 1", "truth"), ("if(i > 0, d / i, d)", "double"),
        ("coalesce(s, 'a')", "text"), ("coalesce(i, 1, d)", "double"),
    ],
)  # fmt: skip
def test_expressions_that_are_computed_as_spark_computes_them(text, kind):
    assert spark_kind(parsed(text), lambda name: KINDS.get(name.parts[0], ""), True) == kind


@pytest.mark.parametrize(
    "text",
    [
        "i * 0.5",  # 0.5 is a decimal number
        "0.5 + 0.25", "i > 0.5", "other", "other is null", "s = i", "-s", "s + s", "-b", "b + 1",
        "not i",
        "i and b", "b = b", "99999999999999999999 + i",
        "if(b, 0.5, 0.25)", "if(b, null, null)", "if(b, i, 0.5)", "if(b, b, i)", "if(i, i, i)",
        "case when other then i end", "if(b, i, 'a')", "if(b, d, s)", "if(b, d, b)", "abs(s)",
    ],
)  # fmt: skip
def test_expressions_that_spark_may_compute_otherwise(text):
    assert not spark_kind(parsed(text), lambda name: KINDS.get(name.parts[0], ""), True)


@pytest.mark.parametrize("text", ["i + 1", "-i", "d / 2", "abs(i)"])
def test_where_spark_refuses_no_number_that_is_too_large_it_computes_itself(text):
    assert not spark_kind(parsed(text), lambda name: KINDS.get(name.parts[0], ""), False)
    assert spark_kind(parsed("d * 2"), lambda name: "double", False) == "double"


def test_decimals_become_the_nearest_doubles():
    texts = ["0.1", "-1.125", "123456789012.345", None, "0.30"]
    column = pa.array([None if t is None else Decimal(t) for t in texts], pa.decimal128(15, 3))
    expected = [None if t is None else float(t) for t in texts]
    assert as_doubles(column, "x").to_pylist() == expected
    assert as_doubles(column.slice(1, 3), "x").to_pylist() == expected[1:4]
    assert as_doubles(column.cast(pa.decimal128(38, 3)), "x").to_pylist() == expected


def test_a_late_row_of_a_controller_need_not_be_valid():
    late = pa.array([True, None, True, False, *[False] * 8])
    table = UNCERTAIN.append_column("late", late).append_column("punctuation", pa.nulls(12))
    rule = Rule(probabilities=True, attributes=("x",), complete=("order0",), unless_late=True)
    samples = (("alternatives", Samples(("x",))), *controller_readers())
    reading = Reading(("id",), ("at",), ("k",), samples, rule)
    ids = [row["c0"] for row in reading.read(table).rows["row"].to_pylist()]
    assert ids == [1, 2, 3, 10, 11, 12]


@pytest.mark.parametrize(
    "text",
    ["round(x)", "x +", "x >", "", "x; y", "'a", "x in ()", "if(x)", "case x end", "x --1"],
)
def test_other_expressions_are_refused(text):
    with pytest.raises(ValueError, match="without Spark, `by` can use only"):
        parsed(text)


def test_long_lists_are_computed_and_long_chains_are_refused():
    listed = parsed(f"x in ({', '.join(map(str, range(5000)))})")
    found = evaluate_condition(listed, lambda name: pa.array([4999, 5000, None]), 3)
    assert found.to_pylist() == [True, False, None]
    with pytest.raises(ValueError, match="has too many operations"):
        parsed(" or ".join(f"x = {i}" for i in range(5000)))
    nested = parsed("coalesce(" * 150 + "x" + ", 1)" * 150 + " = 1")
    found = evaluate_condition(nested, lambda name: pa.array([None, 2]), 2)
    assert found.to_pylist() == [True, False]


def test_sides_and_values_that_may_fail_are_computed_only_where_they_are_needed():
    table = {"a": pa.array([0, 2, None, 4]), "s": pa.array([-128, 3, 5, None], pa.int8())}

    def value(text: str) -> list[float]:
        return evaluate_doubles(parsed(text), lambda name: table[name.parts[0]], 4).to_pylist()

    assert value("if(a <> 0, 1 / a, -1)") == [-1.0, 0.5, -1.0, 0.25]
    assert value("CASE WHEN a = 0 THEN 9 WHEN 4 / a > 1 THEN 4 / a END") == [9.0, 2.0, None, None]
    assert value("a <> 0 AND 1 / a > 0.3e0") == [0.0, 1.0, None, 0.0]
    assert value("a = 0 OR 1 / a > 0.3e0") == [1.0, 1.0, None, 0.0]
    assert value("coalesce(s, 1 / a)") == [-128.0, 3.0, 5.0, 0.25]
    assert value("if(s > -128, abs(s), 0)") == [0.0, 3.0, 5.0, 0.0]
    assert value("if(true, 1 / 2, 1 / 0)") == [0.5] * 4
    with pytest.raises(ValueError, match="divide by zero"):
        value("if(a >= 0, 1 / a, 0)")


def test_expressions_are_computed_as_spark_does():
    table = {"a": pa.array([7, 8]), "f": pa.array([0.5, 2.0]), "`": pa.array([1, 2])}

    def value(text: str) -> list[float]:
        return evaluate_doubles(parsed(text), lambda name: table[name.parts[0]], 2).to_pylist()

    assert value("a / 2") == [3.5, 4.0]
    assert value("-(a - 1) * f") == [-3.0, -14.0]
    assert value("````") == [1.0, 2.0]
    assert value("2") == value("1 + 1") == [2.0, 2.0]
    assert value("a > 7 or f < 0") == [0.0, 1.0]
    assert value("CASE WHEN a > 7 THEN f WHEN f > 9 THEN 0 END") == [None, 2.0]
    assert value("if(f < 1, a, 0.5e0)") == [7.0, 0.5]
    assert value("CASE a - 1 WHEN 6 THEN 1 WHEN 7 THEN f END") == [1.0, 2.0]
    assert value("coalesce(case when a > 7 then 1 end, f, a)") == [0.5, 1.0]
    assert value("coalesce(a) + if(true, 1, 2)") == [8.0, 9.0]
    assert value("if(a > 7, null, '--' = '-')") == [0.0, None]
    assert str(parsed("if(a > 7, 1, f)")) == "case when (a > 7) then 1 else f end"
    assert str(parsed("not x > 1 and y is null")) == "((not (x > 1)) and (y is null))"
    with pytest.raises(TypeError, match="must be numeric; it is string"):
        value("'a'")
    with pytest.raises(ValueError, match="compares int64 with string: cast one of them"):
        value("a > 'b'")
    with pytest.raises(
        TypeError, match="`\\(not a\\)` must be a condition over booleans; got int64"
    ):
        value("not a")
    with pytest.raises(TypeError, match="is a decimal number in Spark"):
        value("a * 0.1")
    with pytest.raises(TypeError, match=r"contains 0.1, which is a decimal .* write 0.1e0"):
        value("if(a > 7, a, -0.1)")
    with pytest.raises(TypeError, match="have different types, int64 and string: cast them"):
        value("if(a > 7, a, 'x')")
    with pytest.raises(ValueError, match="cannot be computed: divide by zero"):
        value("a / 0")
    assert str(parsed("m.`a b` + 1")) == "(m.`a b` + 1)"
    assert parsed("m.mean") == ColumnRef(("m", "mean"))


def test_missing_names_are_reported_with_the_likely_one():
    reading = window_reading("m.maen")
    with pytest.raises(ValueError, match=r"`m` has no field `maen`.*did you mean `mean`"):
        reading.read(PLAIN)
    reading = window_reading("idd")
    with pytest.raises(ValueError, match=r"no column or attribute `idd`.*did you mean `id`"):
        reading.read(UNCERTAIN)


def test_answers_get_the_names_types_and_metadata_that_users_know():
    struct = pa.StructArray.from_arrays([pa.array([1, None]), pa.array(["x", "y"])], ["c0", "c1"])
    lists = pa.array([[{"prob": 1.0, "value": 2.0}], None])
    answers = pa.table({"row": struct, "result0": lists, "time": pa.array([0, 1])})
    asked = pa.field("asked", pa.int64(), metadata={"a": "b"})
    pairs = pa.list_(pa.struct([("prob", pa.float64()), ("total", pa.float64())]))
    columns = [
        (("row", "c1"), pa.field("name", pa.string())),
        (("row", "c0"), asked),
        (("result0",), pa.field("total", pairs)),
        (("time",), pa.field("at", pa.timestamp("us", "Europe/Berlin"))),
        (("row",), pa.field("row", pa.struct([asked, ("name", pa.string())]))),
    ]
    got = result_table([answers, answers.slice(0, 0)], columns)
    assert got.schema.field("asked").metadata == {b"a": b"b"}
    assert got.schema.types[-1][0].metadata == {b"a": b"b"}
    assert got.slice(1).to_pylist()[0] == {
        "name": "y",
        "asked": None,
        "total": None,
        "at": dt.datetime(1970, 1, 1, 0, 0, 0, 1, dt.UTC),
        "row": {"asked": None, "name": "y"},
    }
    assert got.to_pylist()[0]["total"] == [{"prob": 1.0, "total": 2.0}]
    assert result_table([], columns).schema == got.schema
    assert rename_taken(["a", "Held", "held_1"], ["held"]) == ["a", "Held_2", "held_1"]
