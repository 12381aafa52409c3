"""Tables in memory: no Spark, any kind of table, brute force, errors, counters."""

import subprocess
import sys
import warnings
from datetime import datetime
from io import BytesIO
from itertools import product
from uuid import uuid4

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sfumato as sf
from local_readings import RANGE, READINGS, READINGS_TABLE
from sfumato.memory.frame import frame_of
from sfumato.tables.reading.job import ORIGINS_KEY
from worlds import at_least


@pytest.mark.nightly
def test_tables_in_memory_do_not_import_spark():
    program = """
import sys, pyarrow as pa, sfumato as sf
t = sf.reorder(pa.table({"a": [2, 1], "b": [1, 2]}), event_time="a", arrival="b", slack=1)
t = sf.window_aggregate(t, {"n": "sum(a)"}, window=sf.Rows(2), order="a")
sf.top_k(t, 1, by="n", window=sf.Range("5 us"), order="a")
sf.similarity_join(t, t, on="a", within=1.0, probability=0.5, window=sf.Rows(2), order="a")
assert "pyspark" not in sys.modules and "sfumato.spark" not in sys.modules
"""
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def tables(columns: dict) -> list:
    """Return the columns as every kind of table."""
    arrow = pa.table(columns)

    class Streamed:
        __slots__ = ()  # without weak references, like relations of DuckDB

        def __arrow_c_stream__(self, requested_schema=None):
            return arrow.__arrow_c_stream__(requested_schema)

    found = [arrow, pd.DataFrame(columns), Streamed(), arrow.to_batches()[0]]
    try:
        import polars
    except ImportError:
        return found
    return [*found, polars.DataFrame(columns)]


def without_origins(table: pa.Table) -> pa.Table:
    """Remove the names of sources from the metadata of columns and of their fields."""

    def without(field: pa.Field) -> pa.Field:
        kept = {k: v for k, v in (field.metadata or {}).items() if k != ORIGINS_KEY.encode()}
        if pa.types.is_struct(field.type):
            field = field.with_type(pa.struct([without(part) for part in field.type]))
        return field.with_metadata(kept)

    return table.cast(pa.schema(map(without, table.schema), table.schema.metadata))


def test_any_table_is_accepted_and_one_of_its_kind_is_returned():
    answers = [
        sf.window_aggregate(
            sf.reorder(table, event_time="made", arrival="arrival", slack=2),
            {"total": "sum(x)"}, window=RANGE, order="made",
        )
        for table in tables(READINGS)
    ]  # fmt: skip
    kinds = [type(answer) for answer in answers]
    assert kinds[:4] == [pa.Table, pd.DataFrame, pa.Table, pa.Table]
    assert kinds[4:] == [type(table) for table in tables(READINGS)[4:]]
    assert all(len(answer) == 2 for answer in answers)
    for answer in answers:  # other functions accept it, with its metadata
        again = sf.window_aggregate(answer, {"n": "count(*)"}, window=sf.Rows(1), order="held")
        assert "sfumato_window_2" in sf.ops.counters(again)
    plain = [without_origins(frame_of(answer).table) for answer in answers]
    assert all(table.equals(plain[0], check_metadata=True) for table in plain)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_metadata_of_a_reorder_is_kept_or_reported_as_lost(library):
    frames = pytest.importorskip(library)
    given = {**READINGS, "nothing": [None, 2**60 + 1, 3, 4, 5, 6]}
    arrow = sf.reorder(pa.table(given), event_time="made", arrival="arrival", slack=1, key=None)
    ordered = sf.reorder(frames.DataFrame(READINGS), event_time="made", arrival="arrival", slack=1)
    asked = {"aggregates": {"n": "count(*)"}, "window": sf.Rows(2, 1.0), "order": "made"}
    expected = sf.window_aggregate(arrow, **asked).column("id").to_pylist()
    assert len(expected) < arrow.num_rows  # late rows enter no window
    assert list(sf.window_aggregate(ordered, **asked)["id"]) == expected
    filtered = sf.where(ordered, "id <> 2")
    assert list(sf.window_aggregate(filtered, **asked)["id"]) == [i for i in expected if i != 2]
    on_time, late = sf.split_late(ordered)
    assert sorted([*on_time["id"], *late["id"]]) == READINGS["id"]
    if library == "pandas":
        assert list(sf.window_aggregate(ordered[ordered.id != 2], **asked)["id"]) == [
            i for i in expected if i != 2
        ]
        lost = pd.DataFrame(ordered.to_dict("list"))
    else:
        lost = ordered.filter(frames.col("id") != 2)
    for call in (
        lambda: sf.window_aggregate(lost, **asked),
        lambda: sf.top_k(lost, 1, by="x", window=RANGE, order="made"),
        lambda: sf.similarity_join(
            lost, lost, on="x", within=1, probability=0.5, window=sf.Rows(2), order="made"
        ),
    ):
        with pytest.raises(ValueError, match=f"(?i){library} dropped the metadata"):
            call()


def test_whole_numbers_with_nulls_keep_their_digits_in_pandas():
    given = pd.DataFrame({"k": pd.array([1, None, 3], "Int64"), "t": [1, 2, 3], "x": [1.0, 2, 3]})
    given.loc[0, "k"] = 2**60 + 1
    found = sf.window_aggregate(given, {"s": "sum(x)"}, window=sf.Rows(1, 1.0), order="t")
    assert found["k"].tolist() == [2**60 + 1, pd.NA, 3]
    found.to_parquet(io := BytesIO())  # the contents of attrs can be written
    assert pd.read_parquet(BytesIO(io.getvalue())).attrs == found.attrs
    pairs = sf.asof_join(given, given[1:], order="t")
    assert pairs["left"][0]["k"] == 2**60 + 1  # even in a struct
    assert [pair and pair["t"] for pair in pairs["right"]] == [None, 2, 3]
    assert all(type(pair["t"]) is int for pair in pairs["right"][1:])


def test_types_are_taken_as_spark_has_them():
    given = pd.DataFrame(
        {
            "at": pd.to_datetime(["2026-01-01", "2026-01-02"]),
            "n": np.array([1, 2], np.uint8),
            "kind": pd.Categorical(["a", "b"]),
            "x": [1.0, None],
        },
        index=["p", "q"],
    )
    table = sf.reorder(given, event_time="at", arrival="at", key="kind", estimator="max")
    table = frame_of(table).table
    assert table.schema.types[:4] == [pa.timestamp("us"), pa.int16(), pa.string(), pa.float64()]
    assert table.column_names == ["at", "n", "kind", "x", "late", "punctuation"]
    assert table.column("x").null_count == 1


def test_categories_and_lists_of_any_layout_become_those_of_spark():
    words = pa.DictionaryArray.from_arrays(
        pa.array([1, 0, None], pa.uint32()), pa.array(["a", "b"], pa.string_view())
    )
    struct = pa.struct([("prob", pa.float32()), ("x", pa.uint16()), ("t", pa.timestamp("ns"))])
    cells = [[{"prob": 1.0, "x": 1, "t": 1001}], None, []]
    table = pa.table(
        {
            "word": words,
            "alternatives": pa.array(cells, pa.large_list(struct)),
            "place": pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float64(), 2)),
        }
    )
    found = sf.split_invalid(table)[0]
    assert found.column("word").to_pylist() == ["b"]
    kinds = pa.struct([("prob", pa.float32()), ("x", pa.int32()), ("t", pa.timestamp("us"))])
    assert found.schema.types == [pa.string(), pa.list_(kinds), pa.list_(pa.float64())]
    assert found.column("alternatives")[0][0].as_py()["t"].microsecond == 1
    assert sf.split_invalid(table)[1].column("place").to_pylist() == [None, [3.0, 4.0]]
    runs = pa.RunEndEncodedArray.from_arrays([2, 3], pa.array([7, 8], pa.uint16()))
    found = sf.where(pa.table({"x": runs}), "x < 8").column("x")
    assert (found.type, found.to_pylist()) == (pa.int32(), [7, 7])
    either = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    with pytest.raises(TypeError, match="rows cannot have values of type sparse_union"):
        sf.where(pa.table({"x": either}), "x > 1")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pd.Series([1j, 2j]), "complex128"),
        (pd.Series([1, "a"]), "object"),
        (pd.Series([uuid4(), uuid4()]), "uuid|object"),
        (pd.Series(pd.period_range("2026-01", periods=2, freq="M")), "period"),
        (pl.Series([1, 2], dtype=pl.Int128), "Int128"),
        (pl.Series([object(), None], dtype=pl.Object), "Object"),
    ],
)
def test_values_without_a_type_in_arrow_are_refused_by_the_name_of_their_column(values, kind):
    rows = {"fine": [1, 2], "odd": values}
    table = pd.DataFrame(rows) if isinstance(values, pd.Series) else pl.DataFrame(rows)
    with pytest.raises(TypeError, match=f"column `odd` .*({kind}).*: convert or drop the column"):
        sf.window_aggregate(table, {"n": "count(*)"}, window=sf.Rows(2), order="fine")


def test_values_of_any_type_are_counted():
    odd = [[{"a": 1}], None, []], [b"x", None, b""], [datetime(2026, 1, 1), None, None]
    table = pa.table({"t": [0, 1, 2], "list": odd[0], "bytes": odd[1], "time": odd[2]})
    asked = {f"n_{name}": f"count({name})" for name in ("list", "bytes", "time")}
    found = sf.window_aggregate(table, asked, window=sf.Rows(3), order="t").to_pylist()[-1]
    assert [found[name] for name in asked] == [2, 2, 1]


def test_quantiles_are_fields_of_the_result():
    rows = pa.table({"id": [0, 1], "existence": [0.5, 0.5], "v": [1.0, 2.0]})
    total, asked = {"total": "sum(v)"}, {"window": sf.Rows(2), "order": "id"}
    found = sf.window_aggregate(rows, total, quantiles=(0.1, 0.5, 0.995), **asked)
    assert found["total"][1].as_py() == {
        "mean": 1.5, "stddev": pytest.approx(1.25**0.5), "existence": 1.0,
        "q10": 0.0, "q50": 1.0, "q99_5": 3.0, "error": None,
    }  # fmt: skip


def test_operators_chain_and_their_counters_with_them():
    rows = sf.reorder(READINGS_TABLE, event_time="made", arrival="arrival", slack=1)
    windows = sf.window_aggregate(rows, {"s": "sum(x)"}, window=sf.Rows(2), order="made")
    best = sf.top_k(windows, [sf.Top(1, every="5 us")], by="s.mean", window=RANGE, order="made")
    assert best.column_names == [
        "query", "k", "time", "rank", "score", "probability", "row", "answered",
    ]  # fmt: skip
    counted = sf.ops.counters(best)
    assert list(counted) == [
        "sfumato_reorder_1", "sfumato_window_1_input", "sfumato_window_1",
        "sfumato_top_k_1_input", "sfumato_top_k_1",
    ]  # fmt: skip
    late = sf.split_late(rows)[1].num_rows
    assert counted["sfumato_reorder_1"]["late"] == late == 1
    assert counted["sfumato_window_1"]["late"] == late
    assert sf.ops.counters(best.filter(pa.array([True] * best.num_rows))) == counted
    assert sf.ops.counters(pa.table({})) == {}
    twice = sf.window_aggregate(windows, {"m": "max(x)"}, window=sf.Rows(3), order="made")
    assert list(sf.ops.counters(twice))[-1] == "sfumato_window_2"


def test_invalid_rows_are_reported_and_counted_with_their_reasons():
    existence = [0.5, 0.0, 2.0, None, 1.0, 1.0]
    table = READINGS_TABLE.set_column(4, "existence", pa.array(existence))
    said = r"window_aggregate: 2 of 6 rows \(33.3%\) were left out as invalid: existence is not a"
    with pytest.warns(sf.errors.InvalidRowsWarning, match=said) as told:
        found = sf.window_aggregate(table, {"n": "count(*)"}, window=sf.Rows(2), order="made")
    assert told[0].filename == __file__
    reasons = {"existence is not a number in [0, 1]": 2}
    counted = sf.ops.counters(found)["sfumato_window_1_input"]
    assert counted == {"rows": 6, "invalid": 2, "reasons": reasons}
    assert sorted(found.column("id").to_pylist()) == [1, 5, 6]
    assert sf.split_invalid(table)[1].column("id").to_pylist() == [3, 4]
    assert sf.split_invalid(table)[0].column("id").to_pylist() == [1, 2, 5, 6]
    with pytest.raises(ValueError, match="invalid row: existence is not"):
        sf.split_invalid(table, strict=True)


def test_an_empty_table_gives_an_empty_table_of_the_same_columns():
    empty = READINGS_TABLE.slice(0, 0)
    rows = sf.reorder(empty, event_time="made", arrival="arrival", slack=1)
    assert rows.num_rows == 0
    full = sf.reorder(READINGS_TABLE, event_time="made", arrival="arrival", slack=1)
    assert rows.schema == full.schema
    assert sf.ops.counters(rows)["sfumato_reorder_1"]["rows"] == 0
    imputed = sf.impute(
        pa.table({"a": pa.array([], pa.float64()), "b": pa.array([], pa.float64())}),
        repository=pa.table({"a": [1.0], "b": [2.0]}),
        dependencies="a -> b : 0.1 -> 0.1",
        attributes="b",
    )
    assert imputed.column_names == ["a", "b", "alternatives", "imputed_by"]


@pytest.mark.parametrize(("size", "says"), [(1, "has 1 complete row, "), (18, "at most 89%")])
def test_a_repository_of_too_few_rows_warns_and_counts_the_rows_imputed(size, says):
    past = pa.table({"a": [*map(float, range(size)), None], "b": [2.0] * (size + 1)})
    rows = pa.table({"a": [2.0, 9.0, 3.0], "b": [None, None, 1.0]})
    how = {"dependencies": "a -> b : 0.5 -> 0.5", "attributes": "b"}
    with pytest.warns(sf.errors.FewRowsWarning, match=says) as warned:
        found = sf.impute(rows, repository=past, **how)
    assert warned[0].filename == __file__
    assert sf.ops.counters(found)["sfumato_impute_1"]["few_rows"] == 2
    enough = pa.concat_tables([past] * 19)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = sf.impute(rows, repository=enough, **how)
        sf.impute(rows, repository=past, method="plain", **how)
    assert sf.ops.counters(found)["sfumato_impute_1"]["few_rows"] == 0


def test_a_repository_may_be_a_parquet_file(tmp_path):
    from pyarrow import parquet

    repository = pa.table({"a": [1.0, 2.0, 3.0], "b": [10.0, 20.0, 30.0]})
    parquet.write_table(repository, tmp_path / "r.parquet")
    rows = pa.table({"a": [2.0, 9.0], "b": pa.array([None, None], pa.float64())})
    how = {
        "dependencies": "a -> b : 0.01 -> 0.1",
        "attributes": "b",
        "fallback": "reject",
        "method": "plain",
    }
    with pytest.warns(sf.errors.InvalidRowsWarning, match=r"impute: 1 of 2 rows \(50.0%\)"):
        found = sf.impute(rows, repository=tmp_path / "r.parquet", **how)
    assert found.column("alternatives").to_pylist() == [[{"prob": 1.0, "b": 20.0}], None]
    assert sf.ops.counters(found)["sfumato_impute_1"]["unimputable"] == 1
    with pytest.warns(sf.errors.InvalidRowsWarning):
        assert sf.impute(rows, repository=repository, **how).equals(found)


@pytest.mark.parametrize("window", [sf.Rows(3, 0.9), sf.Range("9 us")])
def test_a_stream_joined_with_itself_has_every_pair_once(window):
    random = np.random.default_rng(5)
    rows = [
        {
            "i": i,
            "t": int(i // 2 * 3),
            "alternatives": [
                {"prob": p, "x": float(x)}
                for p, x in zip([0.5, 0.25], random.integers(0, 6, 2), strict=True)
            ][: random.integers(1, 3)],
        }
        for i in range(40)
    ]
    exists = [sum(a["prob"] for a in row["alternatives"]) for row in rows]
    held = sf.engine_free.UncertainWindow(3, 0.9, probability=0.2)
    expected = {}
    for i, row in enumerate(rows):
        starts = held.extend([exists[i - 1]]) if i and isinstance(window, sf.Rows) else [0]
        for j in range(i):
            inside = 1.0 if row["t"] - rows[j]["t"] < 9 else 0.0
            if isinstance(window, sf.Rows):
                newer = exists[j + 1 : i]
                inside = 1.0 - float(at_least(newer, 3)) if j >= starts[0] else 0.0
            match = inside * sum(
                a["prob"] * b["prob"]
                for a, b in product(row["alternatives"], rows[j]["alternatives"])
                if abs(a["x"] - b["x"]) <= 1
            )
            if match >= 0.2:
                expected[i, j] = match
    found = sf.self_join(
        pa.Table.from_pylist(rows), on="x", within=1.0, probability=0.2, window=window,
        order=["t", "i"] if isinstance(window, sf.Rows) else "t",
    ).to_pylist()  # fmt: skip
    got = {(row["left"]["i"], row["right"]["i"]): row["probability"] for row in found}
    assert len(found) == len(got)
    if isinstance(window, sf.Range):  # simultaneous rows are ordered by their hash
        got = {(max(pair), min(pair)): p for pair, p in got.items()}
    assert got == pytest.approx(expected, abs=1e-12)
    assert len(got) > 5


def test_dependencies_are_discovered_among_the_numeric_columns_of_a_table():
    random = np.random.default_rng(2)
    x = random.random(300)
    table = pd.DataFrame({"x": x, "y": 2 * x + random.normal(0, 0.01, 300), "note": "-"})
    best = sf.discover_dependencies(table)
    assert {(d.dependent, d.determinants[0][0]) for d in best} >= {("y", "x"), ("x", "y")}


def test_alternatives_of_a_models_matrices_and_of_structs():
    values, prob = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0.25, 0.75]] * 2, np.float32)
    found = sf.alternatives(values, prob, "x").to_pylist()
    assert found[1] == [{"prob": 0.25, "x": 3.0}, {"prob": 0.75, "x": 4.0}]
    structs = [[{"x": 1, "score": 0.5, "y": 2}]]
    assert sf.alternatives(structs, "score").to_pylist() == [[{"x": 1, "y": 2, "prob": 0.5}]]
    assert sf.alternatives(structs, "score", "y").to_pylist() == [[{"prob": 0.5, "y": 2}]]


def test_split_invalid_returns_all_rows_that_a_join_skips():
    table = pa.table(
        {
            "ts": pa.array([1, 2, 3, 4, None], pa.timestamp("s")),
            "k": ["a", None, "b", "b", "b"],
            "x": [1.0, 2.0, float("nan"), None, 5.0],
        }
    )
    with pytest.warns(sf.errors.InvalidRowsWarning) as caught:
        joined = sf.similarity_join(
            table,
            table,
            on="x",
            within=1.0,
            probability=0.5,
            window=sf.Rows(5),
            order="ts",
            key="k",
        )
    assert not any("rejected" in str(each.message) for each in caught)
    found = sf.split_invalid(table, "x", key="k", order="ts")[1]
    assert found.num_rows == sf.ops.counters(joined)["sfumato_join_1_left"]["invalid"] == 4
    assert found.column("reason").to_pylist() == [
        "key is NULL", "x is missing or not finite", "x is missing or not finite", "order is NULL",
    ]  # fmt: skip
    assert sf.split_invalid(table, "x", key="k", order="ts")[0].num_rows == 1
    with pytest.raises(ValueError, match="`key` names a column `q`"):
        sf.split_invalid(table, key="q")


def test_reorder_counts_the_rows_that_it_marks_as_late():
    times = {
        "t": pa.array([0, None, 2, 9, 1], pa.timestamp("s")),
        "a": pa.array([1, 2, 3, 4, 5], pa.timestamp("s")),
    }
    ordered = sf.reorder(pa.table(times), event_time="t", arrival="a", slack=1, name="in")
    counts = sf.ops.counters(ordered)["sfumato_reorder_in"]
    on_time, late = sf.split_late(ordered)
    assert late.column("t").to_pylist() == [None, datetime(1970, 1, 1, 0, 0, 1)]
    assert late.column("punctuation").null_count == 1
    assert (counts["late"], counts["invalid"], counts["held"]) == (late.num_rows, 1, 0)
    assert counts["rows"] == on_time.num_rows + late.num_rows
    found = sf.split_invalid(ordered, order="t")[1]
    assert found.column("reason").to_pylist() == ["order is NULL"]


def test_columns_named_like_those_of_extents_get_a_number_and_stay():
    rows = pa.table({"held": ["a", "b"], "late": [7, 8], "window": [1, 2], "at": [0, 9]})
    by = {"window": sf.Range("5 us"), "order": "at", "key": "held"}
    found = sf.window_aggregate(rows, {"n": "count(*)"}, **by, with_rows=True)
    assert found.column("held_1").to_pylist() == ["a", "b"]
    assert found.column("late_1").to_pylist() == [7, 8]
    assert found.column("window_1").to_pylist() == [1, 2]
    assert sf.extent_join(found, found, key="held_1").num_rows == 2
    with pytest.raises(ValueError, match="complete only per held_1: add held_1 to `key`"):
        sf.extent_join(found, found, key="held")  # the number of tuples
    again = sf.window_aggregate(found, {"m": "count(*)"}, **by | {"key": "at"}, with_rows=True)
    assert again.column_names.count("held") == again.column_names.count("window") == 1


def test_rows_between_extents_are_outside_and_those_without_a_partner_unmatched():
    ts = pa.array([0, 30, 90, 130, 250], pa.timestamp("s", "UTC"))
    gaps = sf.Range("1 minute", slide="2 minutes")
    windows = sf.window_aggregate(pa.table({"ts": ts}), {"n": "count(*)"}, window=gaps, order="ts")
    counts = sf.ops.counters(windows)["sfumato_window_1"]
    held = sum(windows.column("held").to_pylist())
    assert (counts["rows"], counts["outside"], counts["late"]) == (5, 5 - held, 0)

    def counted(*seconds):
        table = pa.table({"ts": pa.array(seconds, pa.timestamp("s", "UTC"))})
        return sf.window_aggregate(
            table, {"n": "count(*)"}, window=sf.Range("1 minute"), order="ts"
        )

    joined = sf.extent_join(counted(0, 70), counted(0, 130, 200))
    counts = {"rows": 5, "late": 0, "pairs": 1, "unmatched": 3}
    assert sf.ops.counters(joined)["sfumato_extents_1"] == counts


def test_the_window_of_a_join_is_given_by_count_by_time_or_by_both():
    table = pa.table({"t": [0, 40, 60, 70], "x": [1.0, 1.0, 1.0, 1.0]})

    def pairs(window):
        how = {"on": "x", "within": 0.5, "probability": 0.5, "order": "t"}
        found = sf.self_join(table, window=window, **how)
        return [(p["left"]["t"], p["right"]["t"]) for p in found.to_pylist()]

    by_time = [(40, 0), (60, 40), (70, 40), (70, 60)]  # pairs within 50 us
    assert pairs("50 us") == pairs(sf.Range("50 us")) == by_time
    assert pairs(sf.Rows(9, within="50 us")) == by_time
    assert pairs(sf.Rows(1, within="50 us")) == [(40, 0), (60, 40), (70, 60)]
