"""Operators refuse rows that may share readings, unless they are declared independent."""

import warnings

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sfumato as sf
from handed_on import handed_on
from memory_tables import tuples_of

ROWS = 6
READINGS = pa.table(
    {
        "at": pa.array(range(ROWS), pa.timestamp("s")),
        "x": [0.0, 1.0, 0.2, 1.1, 0.1, 0.9],
        "existence": [0.5] * ROWS,
    }
)
NEAR = {"on": "x", "within": 0.5, "probability": 0.1, "window": sf.Rows(5), "order": "at"}
COUNT = {"aggregates": {"n": "count(*)"}, "window": sf.Rows(3), "order": "at"}


def pairs(readings=READINGS):
    found = sf.similarity_join(readings, readings, **NEAR)
    times = pa.array(range(found.num_rows), pa.timestamp("s"))
    return found.select(["probability", "alternatives"]).append_column("at", times)


def windows(window, readings=READINGS, attribute="x"):
    found = sf.window_aggregate(
        readings, {"total": f"sum({attribute})"}, window=window, order="at", distribution=4
    )
    found = handed_on(found, "total")
    if "at" in found.column_names:
        return found
    ends = found.column("window").combine_chunks().field("end")
    return found.append_column("at", ends)


def averaged_over_time():
    found = sf.window_aggregate(READINGS, {"mean": "time_avg(x)"}, window="2 s", order="at")
    for column, struct, part in (("existence", "mean", "existence"), ("at", "window", "end")):
        cells = found.column(struct).combine_chunks()
        marked = cells.type.field(part).with_name(column)
        found = found.append_column(marked, cells.field(part))
    return found


def of_uncertain_times():
    times = tuples_of([[(0.5, 1_000_000), (0.5, 3_000_000)]], t=pa.timestamp("us", "UTC"))
    rows = pa.table({"id": [1], "alternatives": times})
    found = sf.window_aggregate(rows, {"n": "count(*)"}, window="2 s", order="t", distribution=2)
    assert [row["n"]["mean"] for row in found.to_pylist()] == [0.5, 0.5]
    ends = found.column("window").combine_chunks().field("end")
    return handed_on(found, "n").append_column("at", ends).drop(["n"])


def with_rows(window):
    """Return the rows of extents, with their existence."""
    there = {"there": "count(*)"}
    return sf.window_aggregate(READINGS, there, window=window, order="at", with_rows=True)


def ranked():
    found = sf.top_k(READINGS, 1, by="x", window=sf.Range("4 s", slide="2 s"), order="at")
    return found.rename_columns(
        ["existence" if n == "probability" else n for n in found.column_names]
    )


SHARING = {
    "pairs of a join": (pairs, "pairs of a join"),
    "pairs of a stream with itself": (
        lambda: sf.self_join(READINGS, **NEAR).append_column(
            "at", pa.array(range(sf.self_join(READINGS, **NEAR).num_rows), pa.timestamp("s"))
        ),
        "pairs of a join",
    ),
    "answers of a ranking": (
        lambda: ranked().append_column("at", ranked().column("time")),
        "answers of a ranking",
    ),
    "windows of rows": (lambda: windows(sf.Rows(3)), "answers of overlapping windows"),
    "windows by change": (
        lambda: windows(sf.Delta(0.5, on="x")),
        "answers of overlapping windows",
    ),
    "extents that overlap": (
        lambda: windows(sf.Range("4 s", slide="2 s")),
        "answers of overlapping windows",
    ),
    "rows of extents that overlap": (
        lambda: with_rows(sf.Range("4 s", slide="2 s")),
        "answers of overlapping windows",
    ),
    "windows over uncertain times": (of_uncertain_times, "answers of windows over uncertain times"),
    "averages over time": (averaged_over_time, "averages over time"),
    "filtered pairs": (lambda: sf.where(pairs(), "left_x > 0.1"), "pairs of a join"),
    "reordered pairs": (
        lambda: sf.reorder(
            pairs().append_column("came", pairs().column("at")),
            event_time="at", arrival="came", slack=1,
        ),
        "pairs of a join",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SHARING)
def test_an_operator_refuses_rows_that_may_share_tuples(name):
    make, said = SHARING[name]
    rows = make()
    message = (
        f"window_aggregate needs independent rows, but {said} may share readings, .* sf.draw_worlds"
    )
    with pytest.raises(ValueError, match=message):
        sf.window_aggregate(rows, **COUNT)
    with pytest.raises(
        ValueError, match=f"draw_worlds needs independent rows, but {said} may share"
    ):
        sf.draw_worlds(rows, 2, source="rows", id="at")
    with pytest.raises(ValueError, match=f"top_k needs independent rows, but {said} may share"):
        sf.top_k(rows, 1, by="1", window=sf.Range("2 s"), order="at")
    if "left_x" in str(rows.schema):
        on = NEAR | {"on": "left_x"}
        for join, sides in (("similarity_join", (rows, rows)), ("self_join", (rows,))):
            with pytest.raises(ValueError, match=f"{join} needs independent rows, but {said} may"):
                getattr(sf, join)(*sides, **on)


def test_rows_declared_independent_are_accepted():
    rows = pairs()
    assumed = sf.assume_independent(rows)
    assert assumed.to_pylist() == rows.to_pylist()
    found = sf.window_aggregate(assumed, **COUNT)
    assert found.column("n").combine_chunks().field("mean")[-1].as_py() > 0
    frame = sf.assume_independent(sf.similarity_join(READINGS.to_pandas(), READINGS, **NEAR))
    assert isinstance(frame, pd.DataFrame)
    with pytest.raises(ValueError, match="neither `alternatives` nor `existence`: leave the call"):
        sf.assume_independent(READINGS.drop(["existence"]))
    extents = windows(sf.Range("2 s"), sf.assume_independent(pairs()), "left_x")
    sf.window_aggregate(extents, **COUNT)


@pytest.mark.parametrize(
    "rows",
    [
        lambda: READINGS,
        lambda: windows(sf.Range("2 s")),
        lambda: windows(sf.Range("2 s", slide="3 s")),
        lambda: with_rows(sf.Range("4 s")),
        lambda: sf.where(READINGS, "x > 0"),
        lambda: pairs().drop_columns(["alternatives"]),
        lambda: pairs(READINGS.drop_columns(["existence"])),
        lambda: sf.window_aggregate(READINGS, {"s": "sum(x)"}, window=sf.Rows(2), order="at"),
    ],
)
def test_independent_rows_are_accepted(rows):
    assert sf.window_aggregate(rows(), **COUNT).num_rows


def extents(**columns):
    found = windows(sf.Range("4 s"), READINGS.append_column("key", pa.array([1] * ROWS)))
    return found.select(["window", "alternatives"])


def test_extent_join_refuses_pairs_and_early_answers():
    first = extents()
    on = {"on": "value", "within": 0.1, "probability": 0.01}
    both = sf.extent_join(first, first, **on)
    with pytest.raises(ValueError, match="extent_join needs independent rows, but pairs of a"):
        sf.extent_join(
            both.select(["window", "alternatives"]),
            first,
            on="left_value",
            within=1,
            probability=0.1,
            how="left",
        )
    overlapping = windows(sf.Range("4 s", slide="2 s")).select(["window", "alternatives"])
    assert sf.extent_join(overlapping, overlapping, **on).num_rows  # only equal extents meet
    early = READINGS.drop_columns(["existence"]).append_column("came", READINGS.column("at"))
    shown = sf.reorder(early, event_time="at", arrival="came", max_delay="1 s", early=True)
    revised = sf.window_aggregate(
        shown, {"n": "count(*)"}, window=sf.Range("4 s"), order="at", early="1 s"
    )
    with pytest.raises(ValueError, match="has early answers: keep the final ones"):
        sf.extent_join(revised, revised)


def of_polars(uncertain=True):
    """Return pairs, and answers of windows with their end, without metadata."""
    frame = pl.from_arrow(READINGS if uncertain else READINGS.drop("existence"))
    pairs = sf.similarity_join(frame, frame, **NEAR)
    window = {"window": sf.Range("4 s", slide="2 s"), "order": "at"}
    answers = sf.window_aggregate(frame, {"n": "count(*)"}, **window)
    return pairs, answers.with_columns(at=pl.col("window").struct.field("end"))


DROPPED = "answers whose metadata was dropped may share readings, .* Arrow tables"
LOST = {
    "pairs": ("pairs of a join may share readings", lambda: of_polars()[0].with_row_index("at")),
    "pairs without alternatives": (
        DROPPED,
        lambda: (
            of_polars()[0]
            .with_row_index("at")
            .drop("alternatives")
            .rename({"probability": "existence"})
        ),
    ),
    **{
        f"windows with their {name}": (
            DROPPED,
            lambda name=name: of_polars()[1].select("at", name, existence=pl.lit(0.5)),
        )
        for name in ("window", "n")
    },
    "a ranking": (DROPPED, lambda: pl.from_arrow(ranked()).drop("row").with_columns(at="time")),
    "neighbours": (
        DROPPED,
        lambda: pl.from_arrow(
            sf.neighbours(
                READINGS, on="x", within=0.5, window=sf.Rows(5), order="at", fewer_than=1
            ).drop("existence")
        ).rename({"probability": "existence"}),
    ),
}


@pytest.mark.parametrize("name", LOST)
def test_answers_are_known_by_their_columns_where_their_metadata_is_lost(name):
    said, make = LOST[name]
    rows, count = make(), COUNT | {"aggregates": {"m": "count(*)"}}
    with pytest.raises(ValueError, match=said):
        sf.window_aggregate(rows, **count)
    assert sf.window_aggregate(sf.assume_independent(rows), **count).height == rows.height


def test_certain_answers_without_metadata_are_accepted():
    for rows, order in zip(of_polars(uncertain=False), ("probability", "at"), strict=True):
        count = {"aggregates": {"m": "count(*)"}, "window": sf.Rows(3), "order": order}
        assert sf.window_aggregate(rows, **count).height == rows.height


def test_earlier_values_of_rows_that_may_be_absent_are_refused():
    with pytest.raises(ValueError, match="the table has a column `existence`"):
        sf.earlier_values(READINGS, "x", order="at")
    worlds = sf.draw_worlds(READINGS, 8, source="x", id="at")
    found = sf.earlier_values(worlds, "x", order="at", key="world")
    assert found.num_rows == worlds.num_rows


def test_rows_without_a_partner_have_possible_alternatives_only():
    values = tuples_of([[(0.5, 0.0), (0.5, 5.0)]], x=pa.float64())
    left = pa.table({"at": [10], "alternatives": values})
    right = pa.table({"at": [5], "x": [5.0]})
    window = {"window": sf.Range("100 us"), "order": "at", "how": "left"}
    found = sf.similarity_join(left, right, on="x", within=0.5, probability=0.05, **window)
    alone = found.filter(found.column("right").is_null())
    assert alone.column("alternatives").to_pylist() == [
        [{"prob": 0.5, "left_x": 0.0, "right_x": None}]
    ]
    kept = sf.where(found, "left_x < 3")
    assert kept.column("probability").to_pylist() == [0.5]


def as_existence(frame):
    return frame.assign(existence=frame.probability)


@pytest.mark.parametrize(
    "changed",
    [
        as_existence,
        lambda found: as_existence(found)[["at", "existence"]],
        lambda found: found[["at", "probability"]].rename(columns={"probability": "existence"}),
        lambda found: as_existence(found).sort_values("at").head(9)[["existence", "at"]],
        lambda found: as_existence(pd.json_normalize(found.to_dict("records"))),
        lambda found: as_existence(found.merge(pd.DataFrame({"at": found["at"]}), on="at")),
    ],
    ids=["added", "selected", "renamed", "sorted", "flattened", "merged"],
)  # fmt: skip
def test_pairs_are_refused_in_pandas_after_their_columns_have_changed(changed):
    given = READINGS.to_pandas()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the same readings on both sides
        found = sf.similarity_join(given, given, **NEAR)
    found["at"] = pd.to_datetime(range(len(found)), unit="s")
    frame = changed(found)
    with pytest.raises(ValueError, match="may share readings"):
        sf.window_aggregate(frame, **COUNT)
    assert len(sf.window_aggregate(sf.assume_independent(frame), **COUNT)) == len(frame)
    ordered = {"event_time": "at", "arrival": "at", "slack": 1}
    with pytest.raises(ValueError, match="may share readings"):
        sf.window_aggregate(sf.reorder(frame, **ordered), **COUNT)
    assumed = sf.reorder(sf.assume_independent(frame), **ordered)
    assert len(sf.window_aggregate(assumed, **COUNT)) == len(frame)


@pytest.mark.parametrize(
    "passing", [lambda f: sf.where(f, "value > -9"), lambda f: sf.prune(f, top=9)]
)
def test_results_in_new_columns_stay_refused_in_pandas_after_a_filter(passing):
    found = sf.window_aggregate(
        READINGS.to_pandas(), {"s": "sum(x)"}, window=sf.Rows(3), order="at", distribution=9
    )
    new = pd.DataFrame({"at": found["at"], "made": found["at"]})
    new["alternatives"] = sf.alternatives(found["s"].str["distribution"]).to_pandas()
    new.attrs = found.attrs  # as pandas keeps them
    with pytest.raises(ValueError, match="answers of overlapping windows may share readings"):
        sf.window_aggregate(passing(new[["made", "alternatives"]]), {"n": "count(*)"}, window="9 s",
                            order="made")  # fmt: skip


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: sf.merge_worlds(
                sf.draw_worlds(READINGS, 9, source="a", id="at"), key="at", columns="x"
            ),
            "answers merged over worlds",
        ),
        (lambda: sf.resample(READINGS, every="1 s", order="at"), "points of a resampling"),
    ],
)
def test_every_column_records_that_answers_share_tuples(make, said):
    found = make()
    new = pa.table({"existence": [0.5] * found.num_rows})["existence"]
    for kept in {*found.column_names} - {"alternatives", "existence", "at"}:
        rows = found.select([kept]).append_column("existence", new)
        rows = rows.append_column("made", pa.array(range(found.num_rows)))
        with pytest.raises(ValueError, match=f"{said} may share readings"):
            sf.window_aggregate(rows, {"n": "count(*)"}, window="9 us", order="made")


@pytest.mark.parametrize(
    "join",
    [
        lambda rows: sf.asof_join(rows, READINGS.drop_columns("existence"), order="at"),
        lambda rows: sf.extent_join(
            rows, sf.window_aggregate(READINGS, {"n": "count(*)"}, window="2 s", order="at")
        ),
    ],
    ids=["asof_join", "extent_join"],
)
def test_rows_that_share_tuples_are_refused_as_a_struct_of_a_pair(join):
    overlapping = windows(sf.Range("4 s", slide="2 s"))
    for rows, refused in ((overlapping, True), (windows(sf.Range("2 s")), False)):
        found = join(rows)
        alternatives = pa.array([left["alternatives"] for left in found["left"].to_pylist()])
        new = found.select(["left"]).append_column("alternatives", alternatives)
        new = new.append_column("made", pa.array(range(len(new))))
        count = {"aggregates": {"n": "count(*)"}, "window": "9 us", "order": "made"}
        if refused:
            with pytest.raises(
                ValueError, match="answers of overlapping windows may share readings"
            ):
                sf.window_aggregate(new, **count)
            found = join(sf.assume_independent(rows)).select(["left"])
            new = found.append_column("made", new["made"]).append_column(
                "alternatives", alternatives
            )
        assert sf.window_aggregate(new, **count).num_rows


def test_an_existence_that_replaces_that_of_answers_is_refused():
    near = {"on": "x", "within": 0.5, "window": sf.Range("1 minute"), "order": "at"}
    found = sf.neighbours(READINGS, fewer_than=1, **near)
    assert sf.window_aggregate(found, **COUNT).num_rows  # the existence describes its row alone
    found = sf.neighbours(READINGS.to_pandas(), fewer_than=1, **near)
    lonely = found.assign(existence=found.existence * found.probability)
    with pytest.raises(ValueError, match="may share readings"):
        sf.window_aggregate(lonely, **COUNT)


def test_an_assumption_does_not_hold_for_later_answers():
    overlapping = sf.window_aggregate(
        sf.assume_independent(pairs()), {"n": "count(*)"}, window=sf.Range("4 s", slide="2 s"),
        order="at", distribution=9,
    )  # fmt: skip
    found = handed_on(overlapping, "n").append_column("at", overlapping["held"])
    with pytest.raises(ValueError, match="answers of overlapping windows may share readings"):
        sf.top_k(found, 1, by="value", window=sf.Range("4 us"), order="at")


def test_pairs_without_their_alternatives_are_certain_rows_with_a_warning():
    found = pairs().select(["at", "probability"])
    with pytest.warns(UserWarning, match="pairs of a join have neither `alternatives` nor"):
        sf.window_aggregate(found, {"n": "count(*)"}, window=sf.Rows(3), order="at")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assumed = sf.assume_independent(found)
        sf.window_aggregate(assumed, {"n": "count(*)"}, window=sf.Rows(3), order="at")


def test_an_existence_beside_alternatives_is_ignored_with_a_warning():
    points = sf.samples(READINGS["x"], 0.5, 4, attributes="x")
    both = READINGS.append_column("alternatives", points)
    with pytest.warns(UserWarning, match="the column `existence` is ignored, because"):
        found = sf.window_aggregate(both, **COUNT)
    assert found["n"][-1].as_py()["mean"] == pytest.approx(3)


PASSING = {
    "where": lambda rows: sf.where(rows, "value > -9"),
    "prune": lambda rows: sf.prune(rows, top=8),
    "reorder": lambda rows: sf.reorder(rows, event_time="at", arrival="at", slack=1),
    "split_invalid": lambda rows: sf.split_invalid(rows)[0],
    "earlier_values": lambda rows: sf.earlier_values(
        rows[[n for n in rows.columns if n != "existence"]], "y", order="at"
    ),
}


@pytest.mark.parametrize("passing", PASSING.values(), ids=PASSING)
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_answers_without_metadata_stay_refused_after_functions_that_pass_rows_on(library, passing):
    answers = windows(sf.Rows(3)).append_column("y", pa.array([1.0] * ROWS))
    lost = pl.from_arrow(answers) if library == "polars" else answers.to_pandas()
    with pytest.raises(ValueError, match="answers whose metadata was dropped"):
        sf.window_aggregate(passing(lost), {"n": "sum(value)"}, window="9 s", order="at")


def test_certain_answers_without_metadata_warn_after_they_become_uncertain():
    answers = sf.top_k(
        READINGS.drop("existence"), 1, by="x", window=sf.Range("4 s", slide="2 s"), order="at"
    )
    lost = pl.from_arrow(answers.append_column("y", pa.array([None] * len(answers), pa.float64())))
    repository = pl.DataFrame({"score": [0.0, 1.0] * 20, "y": [1.0, 2.0] * 20})
    imputed = sf.impute(
        lost, repository=repository, attributes="y", dependencies="score -> y : 0.1 -> 0.5"
    )
    with pytest.warns(UserWarning, match="metadata was dropped may repeat an earlier row"):
        sf.window_aggregate(imputed, {"n": "sum(y)"}, window="9 s", order="time")


@pytest.mark.parametrize("library", ["arrow", "pandas"])
def test_answers_of_one_extent_are_refused_if_a_union_contains_it_twice(library):
    answers = windows("3 s")
    other = windows("3 s", READINGS.set_column(1, "x", pa.array([2.0] * ROWS)))
    if library == "pandas":
        answers = sf.window_aggregate(
            READINGS.to_pandas(), {"total": "sum(x)"}, window="3 s", order="at", distribution=4
        )
        answers["alternatives"] = sf.alternatives(answers["total"].str["distribution"]).to_pandas()
        answers["at"] = [window["end"] for window in answers["window"]]
        union = pd.concat([answers, answers])
    else:
        union = pa.concat_tables([answers, other])
    total = {"s": "sum(value)"}
    assert len(sf.window_aggregate(answers, total, window="9 s", order="at"))
    with pytest.raises(ValueError, match="answers with the same window and key"):
        sf.window_aggregate(union, total, window="9 s", order="at")
