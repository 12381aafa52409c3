"""A join warns if both of its sides are known to contain the same uncertain readings."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sfumato as sf

N = 40
ROWS = pa.table(
    {
        "made": np.arange(N) * 1_000_000,
        "room": ["hall", "kitchen"] * (N // 2),
        "existence": np.full(N, 0.5),
        "x": np.arange(N) * 1.0,
    }
)
KINDS = {"arrow": lambda table: table, "pandas": pa.Table.to_pandas, "polars": pl.from_arrow}
SHARED = "both frames contain the same uncertain readings"


def select(frame, room):
    if isinstance(frame, pa.Table):
        return frame.filter(pc.equal(frame["room"], room))
    if isinstance(frame, pd.DataFrame):
        return frame[frame["room"] == room]
    return frame.filter(pl.col("room") == room)


def reorder(rows):
    return sf.reorder(rows, event_time="made", arrival="made", slack=0)


def sums(rows, attribute="x", **key):
    """Return sums of windows as uncertain rows."""
    found = sf.window_aggregate(
        rows,
        {"s": f"sum({attribute})"},
        window=sf.Range("10 s"),
        order="made",
        distribution=50,
        **key,
    )
    in_arrow = isinstance(found, pa.Table)
    results = found["s"].to_pylist() if in_arrow else found["s"]
    alternatives = [
        [{"prob": one["prob"], "v": one["value"]} for one in result["distribution"]]
        for result in results
    ]
    if in_arrow:
        return found.append_column("alternatives", pa.array(alternatives))
    return found.assign(alternatives=alternatives)


def join_sums(one, other):
    return sf.extent_join(one, other, on="v", within=1.0, probability=0.01)


def warned(call):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in found if SHARED in str(one.message)]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_both_sides_are_compared(kind):
    rows = KINDS[kind](ROWS)
    hall, kitchen, ordered = select(rows, "hall"), select(rows, "kitchen"), reorder(rows)
    for one, other in (
        (rows, rows),
        (rows, hall),
        (hall, rows),
        (ordered, kitchen),
        (rows, ordered),
    ):
        assert warned(lambda a=one, b=other: sf.asof_join(a, b, order="made")), (one, other)
    assert not warned(lambda: sf.asof_join(hall, kitchen, order="made"))
    x = ROWS["x"].to_numpy()
    by_chance = ROWS.set_column(3, "x", pa.array(np.where(x < N / 4, x, -x)))  # a few equal rows
    assert not warned(lambda: sf.asof_join(rows, KINDS[kind](by_chance), order="made"))
    certain = KINDS[kind](ROWS.drop(["existence"]))
    assert not warned(lambda: sf.asof_join(certain, certain, order="made"))


@pytest.mark.parametrize("text", ["no json", "[]", '{"a": 1}', '{"combined_by": "", "sources": 3}'])
def test_damaged_names_of_sources_are_refused(text):
    fields = [field.with_metadata({"sfumato.origins": text}) for field in ROWS.schema]
    rows = pa.table(ROWS.columns, schema=pa.schema(fields))
    with pytest.raises(ValueError, match="of a column must name the sources of its rows"):
        reorder(rows)


@pytest.mark.parametrize("kind", ["arrow", "pandas"])
def test_answers_know_the_rows_that_they_combine(kind):
    rows = KINDS[kind](ROWS)
    ordered = reorder(rows)
    hall, kitchen = select(ordered, "hall"), select(ordered, "kitchen")
    by_room = sums(ordered, key="room")
    shared = {
        "windows of one source": (sums(rows), sums(rows)),
        "one of them reordered": (sums(ordered), sums(rows)),
        "one of them filtered": (sums(hall), sums(ordered)),
        "one of them by key": (select(by_room, "hall"), sums(ordered)),
    }
    for name, sides in shared.items():
        assert warned(lambda sides=sides: join_sums(*sides)), name
    disjoint = {
        "filtered before the window": (sums(hall), sums(kitchen)),
        "filtered after the window": (select(by_room, "hall"), select(by_room, "kitchen")),
        "two sources": (sums(rows), sums(KINDS[kind](ROWS.slice(0, 20)))),
    }
    for name, sides in disjoint.items():
        assert not warned(lambda sides=sides: join_sums(*sides)), name
    assumed = sf.assume_independent(sums(rows))
    assert not warned(lambda: join_sums(assumed, sums(rows)))


@pytest.mark.parametrize("kind", KINDS)
def test_filters_of_alternatives_are_parts_of_one_source(kind):
    lists = sf.alternatives([[1.0, 2.0]] * N, [[0.5, 0.5]] * N, "y")
    rows = KINDS[kind](ROWS.drop_columns(["existence"]).append_column("alternatives", lists))
    low, high = sf.where(rows, "y < 2"), sf.where(rows, "y >= 2")
    near = {"on": "y", "within": 5, "probability": 0.01, "window": sf.Rows(5), "order": "made"}
    for one, other in ((low, high), (rows, high), (rows, sf.prune(rows, top=1))):
        assert warned(lambda a=one, b=other: sf.similarity_join(a, b, **near)), (one, other)
        assert warned(lambda a=one, b=other: sf.neighbours(
            a, other=b, on="y", within=5, window=sf.Rows(5), order="made"))  # fmt: skip
    hall, kitchen = select(low, "hall"), select(high, "kitchen")
    assert not warned(lambda: sf.similarity_join(hall, kitchen, **near))
    assert not warned(lambda: sf.similarity_join(sf.assume_independent(low), high, **near))
    if kind == "polars":
        return
    assert warned(lambda: join_sums(values(rows), values(high)))
    assert warned(lambda: join_sums(values(low), values(low)))
    assert warned(lambda: join_sums(values(hall), values(hall)))
    assert not warned(lambda: join_sums(values(hall), values(kitchen)))


def values(rows):
    """Return sums of the attribute `y` in windows as uncertain rows."""
    return sums(rows, attribute="y")


def with_end(answers):
    """Return answers of windows with the end of the window as `made`."""
    ends = [window["end"] for window in pa.table(answers)["window"].to_pylist()]
    if isinstance(answers, pa.Table):
        return answers.append_column("made", pa.array(ends))
    return answers.assign(made=ends)


@pytest.mark.parametrize("kind", ["arrow", "pandas"])
def test_readings_that_are_drawn_separately_are_recognised(kind):
    rows = KINDS[kind](ROWS)

    def drawn(given, source="rows", id="made"):
        return sf.draw_worlds(given, 10, source=source, id=id)

    def separate(one, other):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            sf.asof_join(one, other, order="made", key="world")
        return any("but drawn separately" in str(each.message) for each in found)

    by_room = drawn(with_end(sums(rows, key="room")), "by room", ["made", "room"])
    assert separate(drawn(with_end(sums(rows)), "sums"), by_room)
    assert separate(by_room, drawn(rows))
    assert separate(drawn(rows), drawn(rows, source="other"))
    assert separate(drawn(rows), drawn(reorder(rows), id=["made", "room"]))
    once = drawn(rows)
    assert not separate(once, once)
    assert not separate(once, drawn(reorder(rows)))
    assert not separate(select(once, "hall"), select(once, "kitchen"))
    assert not separate(drawn(select(rows, "hall")), drawn(select(rows, "kitchen"), source="other"))
    with pytest.warns(UserWarning, match="union: both frames contain .* but drawn separately"):
        both = sf.union(once, drawn(rows, source="other"))
    assert separate(both, drawn(rows, source="third"))


@pytest.mark.parametrize("kind", ["arrow", "pandas"])
def test_imputed_rows_have_the_incomplete_rows_as_their_source(kind):
    values = [None if i % 4 == 0 else float(i) for i in range(N)]
    gaps = ROWS.drop_columns(["existence"]).set_column(2, "x", pa.array(values))
    rows, rule = KINDS[kind](gaps), "made -> x : 0.1 -> 0.2"
    imputation = {"repository": ROWS, "attributes": "x", "dependencies": rule}
    one, other = sf.impute(rows, **imputation), sf.impute(rows, **imputation)
    assert warned(lambda: join_sums(sums(one), sums(other)))
    hall, kitchen = select(one, "hall"), select(other, "kitchen")
    assert not warned(lambda: join_sums(sums(hall), sums(kitchen)))
    near = {"on": "x", "within": 1, "probability": 0.1, "window": sf.Rows(5), "order": "made"}
    assert warned(lambda: sf.similarity_join(rows, rows, impute=imputation, **near))
    hall, kitchen = select(rows, "hall"), select(rows, "kitchen")
    assert warned(lambda: sf.similarity_join(rows, hall, impute=imputation, **near))
    assert not warned(lambda: sf.similarity_join(hall, kitchen, impute=imputation, **near))


@pytest.mark.parametrize("kind", ["arrow", "pandas"])
def test_two_results_of_one_window_are_the_same_readings(kind):
    found = sf.window_aggregate(
        KINDS[kind](ROWS),
        {"s": "sum(x)", "m": "max(x)"},
        window=sf.Range("10 s"),
        order="made",
        key="room",
        distribution=50,
    )

    def of(result, answers):
        if kind == "pandas":
            lists = sf.alternatives(answers[result].str["distribution"]).to_pandas()
            return answers.assign(alternatives=lists.to_numpy())
        lists = pc.struct_field(answers[result].combine_chunks(), "distribution")
        return answers.append_column("alternatives", sf.alternatives(lists))

    def join(one, other):
        window = {"window": sf.Range("1 s"), "order": "made"}
        sides = with_end(one), with_end(other)
        return sf.similarity_join(*sides, on="value", within=1, probability=0.1, **window)

    assert warned(lambda: join(of("s", found), of("m", found)))
    hall, kitchen = of("s", select(found, "hall")), of("m", select(found, "kitchen"))
    assert not warned(lambda: join(hall, kitchen))
    both, apart = (with_end(sf.union(*parts)) for parts in (
        (of("s", found), of("m", found)), (hall, kitchen)))  # fmt: skip
    count = {"aggregates": {"n": "count(*)"}, "window": "1 minute", "order": "made"}
    with pytest.raises(ValueError, match="of a union whose parts contain the same readings"):
        sf.window_aggregate(both, **count)
    assert len(sf.window_aggregate(apart, **count))
