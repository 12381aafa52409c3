"""A column that operators only pass through may be added to the state of every operator."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from bucket_worker import Entries
from sfumato.operators.disorder.control import DisorderControl
from sfumato.operators.state.snapshot import SnapshotError
from sfumato.spark.crossing import chunks
from sfumato.spark.state.bucket_state import BucketProcessor
from sfumato.tables.disorder.table_reorder import ReorderTableConfig
from sfumato.tables.reading.chain import ChainConfig, ChainStep, Feed, Place
from sfumato.tables.reading.frame import CONTROLLER_COLUMNS
from sfumato.tables.reading.layout import AddedColumns, InputLayout, LayoutChange
from sfumato.tables.reading.rows import Column, Reading, Ties
from sfumato.tables.reading.ties import ties_of
from table_runs import with_column
from table_subjects import TABLES, fed

KIND = pa.list_(pa.struct([("score", pa.float64())]))
BEFORE = InputLayout((("key", "string"), ("id", "bigint")), ("key", "id"))
NOW = InputLayout(
    (("key", "string"), ("new", "array<struct<score:double>>"), ("id", "bigint")),
    ("key", "new", "id"),
    types={"new": KIND},
)
OPERATORS = [name for name in TABLES if not name.startswith("chain")]


def in_chain(config, layout, sides):
    """Return a chain of one operator whose rows have fixed names, with a layout of its inputs."""
    feeds = tuple(Feed(side, layout=layout) for side in range(sides))
    return ChainConfig((ChainStep(config, feeds),))


def with_new(rows, since=None):
    """Return rows whose `row` has a key, an id and, unless `since` is None, a column that is NULL
    before row number `since`."""
    table = rows["table"]
    names = ["id", "key"]
    cells = dict(zip(names, table.column("row").combine_chunks().flatten(), strict=True))
    fields = [cells["key"], cells["id"]]
    if since is not None:
        new = [None if i < since or i % 5 == 0 else [{"score": i / 2}] for i in range(len(table))]
        fields.insert(1, pa.array(new, KIND))
    row = pa.StructArray.from_arrays(fields, [f"c{i}" for i in range(len(fields))])
    return rows | {"table": with_column(table, "row", row)}


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_continues_as_if_the_column_had_always_been_null(name):
    subject, rng = TABLES[name], np.random.default_rng(3)
    config, feed = subject.make.__self__, subject.feed
    if name.startswith("resample"):
        feed = fed(*(CONTROLLER_COLUMNS if "released" in name else ()), *(
            ("reading0", "reading1") if "means" in name else ()
        ))  # fmt: skip
    rows = subject.rows(rng, 80)
    n = len(rows["key"])
    half, sides = n // 2, 2 if "join" in name and "self join" not in name else 1
    before, now = (in_chain(config, layout, sides) for layout in (BEFORE, NOW))
    whole = now.make()
    feed(whole, with_new(rows, half), np.arange(half))
    narrow = before.make()
    feed(narrow, with_new(rows), np.arange(half))
    data = narrow.snapshot()
    change = now.change_from(before.layout())
    changed = now.restore(data, change)
    assert feed(changed, with_new(rows, half), np.arange(half, half)) == []
    changed = now.restore(changed.snapshot())
    for places in np.split(np.arange(half, n), [half + 5]):
        expected = feed(whole, with_new(rows, half), places)
        assert feed(changed, with_new(rows, half), places) == expected
    rest, expected = ([t.to_pylist() for t in of.flush()] for of in (changed, whole))
    assert rest == expected
    assert changed.counters() == whole.counters()


def test_an_added_column_passes_through_all_steps_of_a_chain():
    """A bucket's snapshot and log have chunks whose columns had different names before."""
    rng = np.random.default_rng(5)
    table = TABLES["reorder"].rows(rng, 90)["table"]
    columns = {"id": "__tie", "key": "key0", "at": "order0", "event": "event"}
    given = {name: table.column(of) for name, of in columns.items()}
    given |= {"alternatives": table.column("alternatives")}
    notes = [None if i < 60 else f"note {i}" for i in range(90)]
    given |= {"note": pa.array(notes)}
    answers = {}
    for name, versions in (("changed", (False, False, True)), ("whole", (True, True, True))):
        entries, answers[name], logged = Entries(), [], 0
        for number, (noted, part) in enumerate(zip(versions, (40, 60, 90), strict=True)):
            start = (0, 40, 60)[number]
            config = released_notes(noted)
            processor = BucketProcessor(config, "the query", None)
            processor.open(None, entries)
            for low in range(start, part, 5):
                chunk = config.steps[0].feeds[0].layout.chunk
                rows = pa.table({of: given[of_user] for of_user, of in chunk.items()})
                data = {"side": 0, "chunk": chunks.to_bytes(rows.slice(low, 5))}
                for row in processor.handleInputRows((3,), iter([data]), None):
                    if row["chunk"] is not None:
                        answers[name] += chunks.from_bytes(row["chunk"]).to_pylist()
            logged = max(logged, len(entries.held) - 1)
        assert logged
    found = [{"c1": None} | row for row in answers["changed"]]
    assert [dict(sorted(row.items())) for row in found] == [
        dict(sorted(row.items())) for row in answers["whole"]
    ]
    assert any(row["c1"] is not None for row in found)


def released_notes(noted):
    """Return a controller and a window whose rows pass a note."""
    later = TABLES["chain of a controller and a window"].make().config.steps[1]
    names, note = ("id", "key", "at", "event", "alternatives"), ("note",) if noted else ()
    passed = ("key", *note, "event", "alternatives", "id")
    every = (*note, *names)
    chunk = {name: f"c{i}_0" for i, name in enumerate(every)}
    reading = Reading(
        passed, ("at",), ("key",), (("event", Column("event")),), tie=Ties(("id", *note))
    )
    types, kinds = {"note": pa.string()}, tuple((name, "some type") for name in every)
    first = Feed(
        0, reading, tuple((name, Place((of,))) for name, of in chunk.items()),
        layout=InputLayout(kinds, passed, chunk, types=types),
    )  # fmt: skip
    marks = {name: Place((name,)) for name in CONTROLLER_COLUMNS}
    read = {name: Place((f"c{i}",)) for i, name in enumerate(passed)} | marks
    (given,) = later.feeds
    row = ("key", *note)
    second = replace(
        given,
        reading=replace(given.reading, passthrough=row, tie=Ties(("id", *note))),
        columns=tuple(read.items()),
        layout=InputLayout(kinds, row, types=types),
    )
    control = ReorderTableConfig(control=DisorderControl(slack=4), keys=1)
    return ChainConfig((ChainStep(control, (first,)), replace(later, feeds=(second,))))


def test_a_checkpoint_belongs_to_the_query_with_the_added_column_from_then_on():
    entries = Entries()

    def begins(noted):
        processor = BucketProcessor(released_notes(noted), "the query", None)
        processor.open(None, entries)
        assert list(processor.handleInputRows((chunks.QUERY,), iter([]), None)) == []

    begins(False)
    begins(True)
    begins(True)
    with pytest.raises(ValueError, match=r"belongs to a different query.*`note` is missing"):
        begins(False)


def test_null_in_an_added_column_keeps_the_order_of_ties():
    columns = {"a": pa.array([1, 2]), "b": pa.array(["x", "y"])}
    expected = ties_of(pa.table(columns))
    for kind in (KIND, pa.string(), pa.float64(), pa.struct([("at", pa.timestamp("us"))])):
        nulls = {"a": columns["a"], "new": pa.nulls(2, kind), "b": columns["b"]}
        assert ties_of(pa.table(nulls)).equals(expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"uses": frozenset({"new"})}, "column `new` is new, but the operator reads it"),
        ({"columns": (("key", "string"), ("id", "int"))}, "column `id` was bigint and is now int"),
        (
            {"columns": (("key", "string"),), "row": ("key",)},
            r"column `id` is missing \(keep it: CAST\(NULL AS bigint\) AS `id`\)",
        ),
        (
            {"columns": (("id", "bigint"), ("key", "string"))},
            "the columns were key, id and are now id, key .select the columns in their",
        ),
        ({"row": ("key", "id", "other")}, "no longer pass on the same columns"),
        ({"row": ("key", "new")}, "no longer pass on the same columns"),
        ({"chunk": {"__tie0": "c0_0"}}, "no longer pass on the same columns"),
    ],
)
def test_any_other_change_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        AddedColumns(BEFORE.as_json(), replace(NOW, **change))


def test_a_column_named_as_one_that_only_state_has_is_refused():
    before = replace(BEFORE, row=("key", "id", "new"))
    with pytest.raises(ValueError, match="already has columns new: rename the new columns"):
        AddedColumns(before.as_json(), NOW)


def test_the_step_and_the_side_of_a_change_are_named():
    wrong = replace(NOW, uses=frozenset({"new"}))
    before = [[BEFORE.as_json()], [BEFORE.as_json()] * 2]
    with pytest.raises(ValueError, match="step 1: the right side: column `new` is new"):
        LayoutChange(before, [[NOW], [NOW, wrong]])


def test_rows_of_an_unknown_side_are_not_converted():
    change = LayoutChange([[BEFORE.as_json()] * 2], [[NOW, NOW]])
    rows = pa.table({"c0": ["a"], "c1": [1]})
    assert change.saved("step0.left.stored", rows).column_names == ["c0", "c1", "c2"]
    assert change.saved("step0.index.known", pa.table({"key0": ["a"]})).column_names == ["key0"]
    with pytest.raises(SnapshotError, match="does not name the side"):
        change.saved("step0.stored", rows)
