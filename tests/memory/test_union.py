"""`sf.union`: rows of two frames, which are refused later if they contain the same readings."""

import polars as pl
import pyarrow as pa
import pytest

import sfumato as sf
from worlds import aggregate_laws, moments_of

LIBRARIES = {"arrow": lambda t: t, "pandas": lambda t: t.to_pandas(), "polars": pl.from_arrow}
WINDOW = {"window": sf.Range("100 us"), "order": "at"}
CELLS = [[(0.5, 1.0), (0.5, 3.0)], [(0.25, 2.0)], [(0.5, 1.0), (0.25, 4.0)]]


def readings(library, begin=0):
    cells = [[{"prob": p, "x": x} for p, x in row] for row in CELLS]
    kind = pa.list_(pa.struct([("prob", pa.float64()), ("x", pa.float64())]))
    at = pa.array([begin + i for i in range(len(cells))])
    return LIBRARIES[library](pa.table({"at": at, "alternatives": pa.array(cells, kind)}))


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_union_of_two_frames_is_exact(library):
    other = readings(library, 10)
    other = (
        other.select(["alternatives", "at"])
        if library != "pandas"
        else other[["alternatives", "at"]]
    )
    both = sf.union(readings(library), other)
    assert type(both) is type(other)
    found = sf.window_aggregate(both, {"s": "sum(x)"}, **WINDOW)
    total = (found.column("s") if library == "arrow" else found["s"])[0]
    total = total.as_py() if library == "arrow" else total
    (law,) = aggregate_laws([("sum", None)], CELLS + CELLS)
    mean, variance, _ = moments_of(law)
    assert (total["mean"], total["stddev"]) == pytest.approx((float(mean), float(variance) ** 0.5))


PARTS = {
    "a frame twice": lambda a: (a, a),
    "two filters of alternatives": lambda a: (sf.where(a, "x < 2"), sf.where(a, "x >= 2")),
    "a frame and its filter": lambda a: (a, sf.where(a, "x >= 2")),
    "a filter of a filter": lambda a: (sf.where(sf.where(a, "x < 4"), "x > 1"), a),
}


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_parts_of_the_same_readings_are_refused_until_they_are_assumed_independent(library, parts):
    both = sf.union(*parts(readings(library)))
    message = "rows of a union whose parts contain the same readings"
    for refused in (both, sf.union(both, readings(library, 20))):
        with pytest.raises(ValueError, match=message):
            sf.window_aggregate(refused, {"n": "count(*)"}, **WINDOW)
    with pytest.raises(ValueError, match=message):
        sf.self_join(both, on="x", within=1, probability=0.1, window=sf.Rows(3), order="at")
    assumed = sf.assume_independent(both)
    assert len(sf.window_aggregate(assumed, {"n": "count(*)"}, **WINDOW)) == 1


@pytest.mark.parametrize("library", LIBRARIES)
def test_frames_that_do_not_fit_are_refused(library):
    rows = readings(library)
    ordered = sf.reorder(rows, event_time="at", arrival="at", slack=1)
    with pytest.raises(ValueError, match="`other` is in order of event time"):
        sf.union(rows, ordered)
    with pytest.raises(ValueError, match="only `other` has `pruned`"):
        sf.union(rows, sf.prune(rows, top=1))
    fewer = LIBRARIES[library](pa.table({"at": [0.5], "alternatives": [[{"prob": 1.0, "x": 1.0}]]}))
    with pytest.raises(TypeError, match="column `at` must have the same type"):
        sf.union(rows, fewer)
    with pytest.raises(TypeError, match="`other`"):
        sf.union(rows, [1])


def test_lists_whose_elements_have_different_names_fit():
    rows = readings("arrow")
    element = rows.schema.field("alternatives").type.value_type
    field = pa.field("element", element, nullable=False)
    cells = pa.array(rows.column("alternatives").to_pylist(), pa.list_(field))
    other = rows.set_column(1, "alternatives", cells).set_column(0, "at", pa.array([11, 12, 13]))
    found = sf.window_aggregate(sf.union(rows, other), {"n": "count(*)"}, **WINDOW)
    assert found.column("n")[0].as_py()["mean"] == 4.0


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_column_without_values_fits_any_type(library):
    rows = readings(library)
    names = pa.table({"at": [11], "alternatives": pa.nulls(1)})
    for parts in ((rows, LIBRARIES[library](names)), (LIBRARIES[library](names), rows)):
        with pytest.warns(sf.errors.InvalidRowsWarning, match="1 of 4 rows"):
            found = sf.window_aggregate(sf.union(*parts), {"n": "count(*)"}, **WINDOW)
        assert len(found) == 1


def test_certain_rows_of_one_frame_may_be_united():
    rows = pa.table({"at": [1, 2], "x": [1.0, 2.0]})
    found = sf.window_aggregate(sf.union(rows, rows), {"s": "sum(x)"}, **WINDOW)
    assert found.column("s").to_pylist() == [6.0]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_column_of_probabilities_of_rows_in_both_parts_is_refused(library):
    rows = pa.table({"at": [1, 2, 3], "conf": [0.5, 0.25, 0.5]})
    count = {"aggregates": {"n": "count(*)"}, "existence": "conf", **WINDOW}
    for part in (rows, rows.slice(1)):
        both = sf.union(LIBRARIES[library](rows), LIBRARIES[library](part))
        with pytest.raises(ValueError, match="of a union whose parts contain the same rows may"):
            sf.window_aggregate(both, **count)
        assert len(sf.window_aggregate(sf.assume_independent(both), **count)) == 1
    later = LIBRARIES[library](pa.table({"at": [4, 5, 6], "conf": [0.5, 0.25, 0.5]}))
    assert len(sf.window_aggregate(sf.union(LIBRARIES[library](rows), later), **count)) == 1
