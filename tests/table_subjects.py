"""Every operator over tables, with valid rows: subjects of the laws of operators."""

import marshal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operator_laws import Subject
from sfumato.operators.disorder.control import DisorderControl
from sfumato.operators.distributions.discrete_distributions import DistributionOptions
from sfumato.operators.imputation.dependency import Dependency
from sfumato.operators.imputation.imputer import Imputer
from sfumato.operators.ranking.semantics import Semantics
from sfumato.tables.disorder.released import release_order
from sfumato.tables.disorder.table_reorder import ReorderTableConfig
from sfumato.tables.imputation.repositories import ImputationSettings, RepositoryImputer
from sfumato.tables.imputation.table_earlier_values import EarlierValuesTableConfig
from sfumato.tables.imputation.table_imputation import StreamImputationTableConfig
from sfumato.tables.joins.table_asof_join import AsofTableConfig
from sfumato.tables.joins.table_extent_join import ExtentJoinTableConfig
from sfumato.tables.joins.table_incomplete_join import IncompleteJoinTableConfig
from sfumato.tables.joins.table_neighbours import (
    NeighboursTableConfig,
    OtherNeighboursTableConfig,
)
from sfumato.tables.joins.table_similarity_join import (
    LockstepJoinTableConfig,
    OuterJoinTableConfig,
    SelfJoinTableConfig,
    SimilarityJoinTableConfig,
)
from sfumato.tables.ranking.table_top_k import TopKTableConfig
from sfumato.tables.reading.chain import ChainConfig, ChainStep, Condition, Feed, Place
from sfumato.tables.reading.exact import ExactNumber
from sfumato.tables.reading.expressions import ColumnRef
from sfumato.tables.reading.frame import CONTROLLER_COLUMNS
from sfumato.tables.reading.rows import (
    Column,
    Probabilities,
    Reading,
    Rule,
    Ties,
    Values,
    controller_readers,
)
from sfumato.tables.windows.table_early import EarlyTableConfig
from sfumato.tables.windows.table_extents import ExtentTableConfig
from sfumato.tables.windows.table_identified import SharedTableConfig, VersionedTableConfig
from sfumato.tables.windows.table_resample import ResampleTableConfig
from sfumato.tables.windows.table_windows import RowWindowTableConfig
from sfumato.windows import Delta, JoinWindow, Range, Rows, Session
from table_runs import with_column

KEYS = ("a", "b", "c")
RESULTS = {
    "results": (("total", "sum", 0, None), ("most", "max", 0, None)),
    "attributes": 1,
}
PLAIN = {"kinds": ("number", "number")}
OVER_TIME = (("mean", "time_avg", 0, None), ("area", "integral", 0, None))
REPOSITORY = np.random.default_rng(0).random((60, 1)) + np.random.default_rng(1).random((60, 2))
OF_A_STREAM = ImputationSettings(
    names=("x", "y"), attributes=("x", "y"), dependencies=(), joint=False, max_alternatives=20,
    fallback="reject", scaling=(), method="calibrated", least_donors=4, order="at",
)  # fmt: skip
HISTORY = pa.table([*REPOSITORY.T, np.arange(60)], names=["x", "y", "at"])
PAST = OF_A_STREAM.make(HISTORY).to_bytes()
CHOSEN = ("age_x, earlier_x, value_y -> x : 0.5, 0.2, 0.1 -> 1", "change_x -> y : 0.1 -> 1")
PAST_BY_CHOSEN = replace(OF_A_STREAM, dependencies=tuple(map(Dependency.parse, CHOSEN)))
PAIRS = {"within": 0.5, "probability": 0.05, "windows": (JoinWindow(4, 0.9),) * 2, "keys": 1}
LOCKSTEP = {"windows": (JoinWindow(2, 0.9, lockstep=True),) * 2}
RADII = PAIRS | {"within": None}
SPANS = {"windows": (JoinWindow(span="20 us"), JoinWindow(span="12 us"))}
LACKS_KEYS = {"keys_in_any_order": "order is shared by all keys"}
APART = {
    f"{window} and rows missed": {"keys_in_any_order": "rows missed have places of their own"}
    for window in ("extents", "sessions")
}


def rows(rng, n):
    """Return ordered rows with alternatives, readings with gaps, rules, sides and punctuations."""
    key, time = rng.integers(0, len(KEYS), n), np.cumsum(rng.integers(1, 9, n))
    sizes = rng.integers(1, 4, n)
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
    prob = np.repeat(rng.choice([0.4, 0.9, 1.0], n) / sizes / 2, sizes)
    x = rng.normal(0, 1, prob.size)
    readings = np.round(rng.random((n, 1)) + rng.random((n, 2)), 2)
    readings[np.arange(n), rng.integers(0, 2, n)] = np.nan
    readings[5::11], readings[7::13] = [0.8, 0.9], np.nan  # complete, and without any value
    names = pa.array([KEYS[k] for k in key])
    lists = {"prob": pa.ListArray.from_arrays(offsets, pa.array(prob)),
             "value0": pa.ListArray.from_arrays(offsets, pa.array(x))}  # fmt: skip
    pairs = pa.StructArray.from_arrays([pa.array(prob), pa.array(x)], ["prob", "x"])
    event = time - rng.integers(0, 30, n)
    table = pa.table(
        {
            "row": pa.StructArray.from_arrays([pa.array(np.arange(n)), names], ["id", "key"]),
            "key0": names,
            "order0": pa.array(time),
            "event": pa.array(event),
            "promised": pa.array([t - 20 if t % 3 == 0 else None for t in event.tolist()]),
            "__tie": pa.array(np.arange(n)),
            "radius": pa.array(np.arange(n) % 5 / 8),
            **lists,
            "alternatives": pa.ListArray.from_arrays(offsets, pairs),
            "reading0": pa.array(readings[:, 0], from_pandas=True),
            "reading1": pa.array(readings[:, 1], from_pandas=True),
            "id0": pa.array(
                [None if i % 9 == 0 else i // 2 for i in rng.spawn(1)[0].integers(0, n, n).tolist()]
            ),
            "rule": pa.array([None if i % 2 else f"r{i // 4}" for i in range(n)], pa.string()),
            "window": pa.StructArray.from_arrays(
                [pa.array(time // 40), pa.array(time // 40 + 1)], ["start", "end"]
            ),
        }
    )
    side = rng.integers(0, 2, n)
    sources = pa.array([f"s{i}" for i in rng.integers(0, 3, n)])
    return {"table": table.append_column("source0", sources), "key": key, "side": side}


def simultaneous(rng, n):
    """Return `rows` of which several have equal times."""
    found = rows(rng, n)
    table = found["table"]
    time = table.column("order0").to_numpy()
    return found | {"table": with_column(table, "order0", time // 10 * 10)}


def certain_rows(rng, n):
    """Return `rows` with one alternative each, of probability 1."""
    found = rows(rng, n)
    table = found["table"]
    columns = {"prob": np.ones(n), "value0": rng.normal(0, 3, n).round(2)}
    for name, column in columns.items():
        lists = pa.ListArray.from_arrays(np.arange(n + 1, dtype=np.int32), pa.array(column))
        table = with_column(table, name, lists)
    return found | {"table": table}


CONTROLS = {
    "by key": DisorderControl(slack=3, guard=False),
    "by source": DisorderControl(slack=2, guard=False),
}


def released(by, rng, n, sides=False, early=False, unsure=False):
    """Return `rows` as a controller releases them, with their lateness, punctuation and arrival.

    by : "by key" or "by source"    sides : each of two sides has a controller, which releases one
        row at a time, because rows released together come in one micro-batch for any cuts
    early : also as they arrive    unsure : with `early`, keep alternatives, not one certain value
    """
    most = n + 40 if sides else n
    found = rows(rng, most)
    table, side = found["table"], found["side"]
    event = distinct(
        table.column("order0").to_numpy() - rng.choice([0, 20, 120], most, p=[0.6, 0.2, 0.2])
    )
    event = event * most + np.arange(most) if sides else event
    table = with_column(table, "event", event)
    sources = by == "by source"
    config = ReorderTableConfig(control=CONTROLS[by], keys=1, sources=int(sources), early=early)
    out = []
    for number in (0, 1) if sides else (0,):
        given = table.append_column("number", pa.array(np.arange(most)))
        given = given.filter(pa.array(side == number)) if sides else given
        passed = given.select(["number", "key0"]).to_struct_array().combine_chunks()
        names = ["key0", "order0", "event", "__tie", *(["source0"] if sources else [])]
        operator = config.make()
        answers = operator.process([(0, given.select(names).append_column("row", passed))], 0)
        answers += [] if sides else operator.flush()
        out.append(pa.concat_tables(answers).flatten())
    turns = np.concatenate([np.arange(part.num_rows) for part in out])  # side by side
    marked = pa.concat_tables(out)
    if early:  # each row as it arrives, among the released rows
        both = table.take(marked.column("row.number")).select(["event", "order0", "__tie"])
        both = both.rename_columns(["order0", "arrival", "__tie"])
        for name in CONTROLLER_COLUMNS:
            both = both.append_column(name, marked.column(name))
        turns[release_order(both)] = np.arange(marked.num_rows)
    marked = marked.take(pa.array(np.argsort(turns, kind="stable")[:n]))
    places = marked.column("row.number").to_numpy()
    table = mark_released(table.take(pa.array(places)), marked)
    if early:
        table = table if unsure else certain(table)
        table = table.append_column("early", marked.column("early"))
    return {"table": table, "key": found["key"][places], "side": side[places]}


def mark_released(table, marked):
    """Return rows in order of release with their arrival and a controller's columns `marked`."""
    columns = {"arrival": table.column("order0"), "order0": table.column("event")}
    columns |= {name: marked.column(name) for name in ("late", "punctuation")}
    table = table.drop_columns(["order0"])
    for name, column in columns.items():
        table = table.append_column(name, column)
    return table


def certain(table):
    """Return the rows with one value each."""
    offsets = pa.array(np.arange(table.num_rows + 1), pa.int32())
    values = np.round(table.column("order0").to_numpy() % 7.0)
    for name, cells in (("prob", np.ones(table.num_rows)), ("value0", values)):
        table = with_column(table, name, pa.ListArray.from_arrays(offsets, pa.array(cells)))
    return table


def rows_of_strings(rng, n):
    """Build `certain_rows` that have a string each, some of them NULL."""
    found = certain_rows(rng, n)
    words = pa.array([[w] for w in rng.choice(["a", "bb", "ü", None], n).tolist()])
    return found | {"table": found["table"].append_column("value1", words)}


def exact_rows(rng, n):
    """Return `rows` with one large whole number each."""
    found = certain_rows(rng, n)
    values = [[v] for v in rng.integers(-(2**58), 2**58, n).tolist()]
    return found | {"table": with_column(found["table"], "value0", values)}


def rows_of_hours(rng, n):
    """Return `rows` with an hour in place of each microsecond between them."""
    found = rows(rng, n)
    table = found["table"]
    hours = pc.multiply(table.column("order0"), 3_600_000_000)
    return found | {"table": with_column(table, "order0", hours)}


def rows_of_values(rng, n):
    found = rows(rng, n)
    return found | {"table": certain(found["table"])}


def distinct(times):
    """Return the times, each moved back to a time that no earlier row has, because rows with equal
    times come in one micro-batch for any cuts."""
    taken, found = set(), []
    for time in times.tolist():
        found.append(next(t for t in range(time, -1000 * len(times), -1) if t not in taken))
        taken.add(found[-1])
    return np.array(found)


def fed(*columns, sides=False, values="value"):
    """Return a feed of these columns, from one input or two; readings are named `values`."""
    chosen = ["row", "key0", "order0", "__tie", *columns]

    def feed(operator, rows, places):
        if not len(places):
            return []
        table = rows["table"].take(pa.array(places)).select(chosen)
        names = [name.replace("reading", values) for name in chosen]
        table, side = table.rename_columns(names), rows["side"][places]
        batch = [(0, table)]
        if sides:
            batch = [(s, table.filter(pa.array(side == s))) for s in (0, 1) if (side == s).any()]
        return answers(operator.process(batch, 0))

    return feed


def answers(tables):
    """Return (key, answer) of all rows, in order, as bytes that compare bit for bit with NaN."""
    found = [row for table in tables for row in table.to_pylist()]
    return [(place_of(row), marshal.dumps(row, 2)) for row in found]


def place_of(row):
    """Return the number of a row's key. Rows without an extent, and rows of a side without a
    partner, have separate numbers: they come before or after the other answers."""
    place = KEYS.index(key_of(row)[0])  # a key may be numbered
    if "left" in row and None in (row["left"], row["right"]):
        return place + (1 + (row["left"] is None)) * len(KEYS)
    return place + (row.get("missed") is not None) * len(KEYS)


def key_of(row):
    for name in ("row", "left", "right"):
        if isinstance(row.get(name), dict):
            row = row[name]
            break
    return next(row[name] for name in ("key0", "key", "c0") if name in row)


def resampled(*columns):
    """Return a feed for resampling, where the key is the first field of `row`."""

    def feed(operator, rows, places):
        table = rows["table"]
        cells = [table.column("key0"), table.column("order0")]
        row = pa.StructArray.from_arrays([c.combine_chunks() for c in cells], ["c0", "c1"])
        table = with_column(table, "row", row)
        return fed(*columns)(operator, rows | {"table": table}, places)

    return feed


def subject(config, feed, rows=rows, **more):
    return Subject(
        config.make, rows, feed,
        finish=lambda operator: answers(operator.flush()),
        counts=lambda operator: operator.counters(),
        restore=lambda operator, data: config.restore(data),
        any_key_first=True,
        **more,
    )  # fmt: skip


def riding(operator, rows, places):
    """Feed rows of a user's table, some of them invalid, to a chain that reads them."""
    if not len(places):
        return []
    table = rows["table"].take(pa.array(places))
    wrong = pa.array(table.column("order0").to_numpy() % 7 == 0)
    none = pa.nulls(table.num_rows, table.schema.field("alternatives").type)
    alternatives = pc.if_else(wrong, none, table.column("alternatives"))
    columns = {"id": "__tie", "key": "key0", "at": "order0", "event": "event"}
    given = {name: table.column(of) for name, of in columns.items()}
    return answers(operator.process([(0, pa.table(given | {"alternatives": alternatives}))], 0))


def chain(*later):
    """Return the subject of a controller and steps over its rows: (config, feeds)."""
    control = ReorderTableConfig(control=DisorderControl(slack=4), keys=1)
    passed = ("key", "event", "alternatives", "id")
    event = (("event", Column("event")),)
    reading = Reading(passed, ("at",), ("key",), event, tie=Ties(("id",)))
    names = ("id", "key", "at", "event", "alternatives")
    first = Feed(0, reading, tuple((name, Place((name,))) for name in names))
    steps = [
        ChainStep(control, (first,)),
        *(ChainStep(config, tuple(feeds)) for config, *feeds in later),
    ]
    return subject(ChainConfig(tuple(steps)), riding)


def places(**paths):
    return tuple((name, Place(tuple(path.split(".")))) for name, path in paths.items())


def extents_of(length, slide, **more):
    window = Range(f"{length} us", f"{slide} us")
    return ExtentTableConfig(window=window, keys=1, scope=(0,), time="long", **RESULTS, **more)


def ordered_extents(**more):
    """Return extents of rows in order, without a controller."""
    window = Range("40 us", "20 us")
    return ExtentTableConfig(window=window, keys=1, **RESULTS | more)


def top_k_of(rules=True, **more):
    return TopKTableConfig(
        queries=(("quick", 1, 4), ("wide", 3, 10)), window=Range("30 us"), plan="dp",
        semantics=Semantics("pk_topk"), ascending=False, rules=rules, streams=False, keys=1,
        time="long", **more,
    )  # fmt: skip


def early_of(by_source, unsure=False, **more):
    functions = (("count", None), ("sum", 0), ("avg", 0), ("max", 0))
    return EarlyTableConfig(
        window=Range("40 us", "20 us"), keys=1, time="long", early=10,
        level=0.5, by_source=by_source, attributes=1,
        results=tuple((f"result{i}", *of, None) for i, of in enumerate(functions)),
        kinds=() if unsure else ("whole", "number", "number", "number"), **more,
    )  # fmt: skip


def released_feed(name, columns, sides=False):
    """Return the feed of the operator with a name in RELEASED, downstream of a controller."""
    if "corrected" in name or "shared" in name:
        return identified
    return (
        resampled(*CONTROLLER_COLUMNS)
        if name == "resample"
        else fed(*columns, *CONTROLLER_COLUMNS, sides=sides)
    )


def identified(operator, rows, places):
    """Feed rows of a few ids, some NULL, whose versions mostly rise, to operators with ids."""
    table = rows["table"]
    number = table.column("__tie").to_numpy()
    ids = pa.array(number % 4, mask=number % 7 == 0)
    table = with_column(table, "id0", ids)
    table = table.append_column("version", pa.array(number + number % 3 * 9))
    return fed(*OF_WINDOW, "id0", "version", *CONTROLLER_COLUMNS)(
        operator, rows | {"table": table}, places
    )


def sessions(max_length=None, **more):
    return ExtentTableConfig(
        window=Session("25 us", max_length), keys=1, scope=(0,), time="long",
        **ONE, **RESULTS, **more,
    )  # fmt: skip


OF_RELEASED = Reading(
    ("key",),
    ("event",),
    ("key",),
    (
        ("prob", Probabilities()),
        ("value0", Values(ColumnRef(("x",)))),
        *controller_readers(),
    ),
    Rule(probabilities=True, complete=("order0",), bounded_values=("value0",), unless_late=True),
    Ties(("id",)),
)
MARKED = Feed(
    0,
    OF_RELEASED,
    places(
        key="c0", event="c1", alternatives="c2", id="c3", late="late", punctuation="punctuation"
    ),
    of_step=True,
)
RESULT = Reading(("key", "total"), (), ("key",), (("window", Column("window")),), tie=None)
OF_RESULT = places(key="key0", window="window", total="total.mean")
WINDOW = fed("prob", "value0")
OF_WINDOW = ("prob", "value0")
ONE = {"one_controller": True}  # out-of-order rows that are not late are an error


class EmittedRows(NamedTuple):
    """make : the config for a flag, whether late rows belong to sources    sides : of a join"""

    make: Callable[[bool], Any]
    columns: tuple[str, ...] = OF_WINDOW
    sides: bool = False


def members_of(config, **more):
    """Return the config of extents with ids and members, for a flag (see `Released`)."""
    return lambda by_source: config(
        **vars(extents_of(40, 20, by_source=by_source, members=True, **ONE)), **more
    )


ALIGNED = {"aligned": ((0,), (0,)), **ONE}
READ = ("reading0", "reading1", "arrival")
RELEASED = {
    "rows window": EmittedRows(
        lambda _: RowWindowTableConfig(
            window=Rows(4, 0.9), keys=1, controlled=True, **ONE, **RESULTS
        )
    ),
    "delta window": EmittedRows(
        lambda _: RowWindowTableConfig(
            window=Delta(2.0, "value0"), keys=1, controlled=True, **ONE, **RESULTS
        )
    ),
    "extents": EmittedRows(lambda by_source: extents_of(40, 20, by_source=by_source, **ONE)),
    "extents with members": EmittedRows(members_of(ExtentTableConfig)),
    "corrected extents with members": EmittedRows(members_of(VersionedTableConfig, unique=1)),
    "shared extents with members": EmittedRows(members_of(SharedTableConfig, unique=1)),
    "averages over time": EmittedRows(
        lambda by_source: replace(extents_of(40, 20, by_source=by_source, **ONE), results=OVER_TIME)
    ),
    "sessions with members": EmittedRows(
        lambda by_source: sessions(by_source=by_source, members=True)
    ),
    "sessions and rows missed": EmittedRows(
        lambda by_source: sessions("60 us", by_source=by_source, missed=True)
    ),
    "extents and rows missed": EmittedRows(
        lambda by_source: extents_of(15, 20, by_source=by_source, missed=True, **ONE)
    ),
    "top-k": EmittedRows(lambda _: top_k_of(scope=(0,), **ONE), (*OF_WINDOW, "rule")),
    "earlier values": EmittedRows(
        lambda by_source: EarlierValuesTableConfig(
            keys=1, attributes=2, scope=(0,), by_source=by_source
        ),
        READ,
    ),
    "imputation of streams": EmittedRows(
        lambda by_source: StreamImputationTableConfig(
            keys=1, attributes=2, scope=(0,), by_source=by_source, imputers=PAST
        ),
        READ,
    ),
    "resample": EmittedRows(
        lambda _: ResampleTableConfig(every=7, limit=20, keys=1, scope=(0,), **ONE), ()
    ),
    "similarity join": EmittedRows(
        lambda _: SimilarityJoinTableConfig(output="changes", on=("x",), **ALIGNED, **PAIRS),
        ("alternatives",), True,
    ),
    "join in lockstep": EmittedRows(
        lambda _: LockstepJoinTableConfig(on=("x",), **ALIGNED, **PAIRS | LOCKSTEP),
        ("alternatives",), True,
    ),
    "outer join": EmittedRows(
        lambda _: OuterJoinTableConfig(how="full", on=("x",), **ALIGNED, **PAIRS | SPANS),
        ("alternatives",), True,
    ),
    "as-of join": EmittedRows(
        lambda _: AsofTableConfig(keys=1, least=0.01, uncertain=True, **ALIGNED), ("prob",), True
    ),
    "self join": EmittedRows(
        lambda _: SelfJoinTableConfig(output="changes", on=("x",), marks_late=True, **PAIRS),
        ("alternatives",),
    ),
}  # fmt: skip
TABLES = {
    "rows window": subject(RowWindowTableConfig(window=Rows(4, 0.9), keys=1, **RESULTS), WINDOW),
    "rows window with a slide": subject(
        RowWindowTableConfig(window=Rows(4, 0.9, slide=3), keys=1, **RESULTS), WINDOW
    ),
    "delta window": subject(
        RowWindowTableConfig(window=Delta(2.0, "value0"), keys=1, **RESULTS), WINDOW
    ),
    "rows window of certain rows": subject(
        RowWindowTableConfig(window=Rows(4), keys=1, **RESULTS, **PLAIN), WINDOW, certain_rows
    ),
    "extents of certain rows": subject(
        ordered_extents(**PLAIN), WINDOW, certain_rows, gaps=LACKS_KEYS,
    ),
    "strings of extents with members": subject(
        ordered_extents(
            attributes=2, members=True,
            results=(
                ("total", "sum", 0, None), ("most", "max", 1, None), ("last", "last", 1, None),
            ),
            kinds=("number", "picked", "picked"),
        ),
        fed("prob", "value0", "value1"), rows_of_strings, gaps=LACKS_KEYS,
    ),
    "averages over time": subject(
        ordered_extents(results=OVER_TIME), WINDOW, gaps=LACKS_KEYS
    ),
    "rows window that forgets": subject(
        RowWindowTableConfig(window=Rows(4, 0.9), keys=1, forget_after=20.0, **RESULTS), WINDOW,
        gaps=LACKS_KEYS,
    ),
    "extents": subject(
        ordered_extents(scope=None), WINDOW, gaps=LACKS_KEYS
    ),
    "earlier values": subject(
        EarlierValuesTableConfig(keys=1, attributes=2), fed("reading0", "reading1")
    ),
    "imputation of streams": subject(
        StreamImputationTableConfig(keys=1, attributes=2, imputers=PAST, forget_after=40.0),
        fed("reading0", "reading1"), gaps=LACKS_KEYS,
    ),
    "imputation of gaps": subject(
        StreamImputationTableConfig(keys=1, attributes=2, imputers=PAST, gap_values=5),
        fed("reading0", "reading1"), gaps=LACKS_KEYS,
    ),
    "imputation of streams by dependencies": subject(
        StreamImputationTableConfig(
            keys=1, attributes=2, imputers=PAST_BY_CHOSEN.make(HISTORY).to_bytes()
        ),
        fed("reading0", "reading1"), gaps=LACKS_KEYS,
    ),
    "resample": subject(ResampleTableConfig(every=7, keys=1), resampled()),
    "resample to means": subject(
        ResampleTableConfig(every=7, limit=20, fill="mean", columns=2, keys=1, forget_after=30.0),
        resampled("reading0", "reading1"), gaps=LACKS_KEYS,
    ),
    "reorder": subject(
        ReorderTableConfig(control=DisorderControl(slack=4), keys=1), fed("event")
    ),
    "reorder by drop ratio": subject(
        ReorderTableConfig(control=DisorderControl(0.1, estimator="conformal"), keys=1),
        fed("event"),
    ),
    "reorder of three sources": subject(
        # An unexpected source may start after others have passed it, so that cuts would matter.
        ReorderTableConfig(
            control=DisorderControl(slack=4), keys=1, sources=1, expected_sources=3
        ),
        fed("event", "source0"),
    ),
    "reorder by sent punctuations": subject(
        ReorderTableConfig(
            control=DisorderControl(estimator="sent"), keys=1, sources=1, expected_sources=3
        ),
        fed("event", "source0", "promised"),
    ),
    "reorder of unique rows": subject(
        ReorderTableConfig(
            control=DisorderControl(slack=4, max_behind=28), keys=1, unique=1, forget_after=200.0
        ),
        fed("event", "id0"),
    ),
    "reorder of unique rows of three sources": subject(
        ReorderTableConfig(
            control=DisorderControl(0.1), keys=1, sources=1, expected_sources=3, unique=1,
            remember=60,
        ),
        fed("event", "source0", "id0"),
    ),
    "top-k": subject(
        top_k_of(scope=None),
        fed("prob", "value0", "rule"), gaps=LACKS_KEYS,
    ),
    "similarity join": subject(
        SimilarityJoinTableConfig(output="changes", on=("x",), **PAIRS),
        fed("alternatives", sides=True), gaps=LACKS_KEYS,
    ),
    "similarity join, delta windows": subject(
        SimilarityJoinTableConfig(on=("x",), **PAIRS | {"windows": (JoinWindow(delta=2.0),) * 2}),
        fed("alternatives", sides=True), gaps=LACKS_KEYS,
    ),
    "similarity join in lockstep": subject(
        LockstepJoinTableConfig(output="changes", on=("x",), **PAIRS | LOCKSTEP),
        fed("alternatives", sides=True), simultaneous, gaps=LACKS_KEYS,
    ),
    "similarity join, a task of two": subject(
        SimilarityJoinTableConfig(output="changes", on=("x",), tasks=2, task=1, **PAIRS),
        fed("alternatives", sides=True), gaps=LACKS_KEYS,
    ),
    "similarity join by radii": subject(
        SimilarityJoinTableConfig(output="changes", on=("x",), **RADII),
        fed("alternatives", "radius", sides=True), gaps=LACKS_KEYS,
    ),
    "outer join": subject(
        OuterJoinTableConfig(how="full", on=("x",), **PAIRS | SPANS),
        fed("alternatives", sides=True), gaps=LACKS_KEYS,
    ),
    "left join that forgets": subject(
        OuterJoinTableConfig(
            how="left", on=("x",), forget_after=20.0, alternatives=False, **PAIRS | SPANS
        ),
        fed("alternatives", sides=True), gaps=LACKS_KEYS,
    ),
    "as-of join": subject(
        AsofTableConfig(keys=1, least=0.01, uncertain=True, within=30, forget_after=25.0),
        fed("prob", sides=True), gaps=LACKS_KEYS,
    ),
    "as-of join of certain rows": subject(
        AsofTableConfig(keys=1, least=1.0), fed(sides=True), gaps=LACKS_KEYS
    ),
    "self join": subject(
        SelfJoinTableConfig(output="changes", on=("x",), **PAIRS),
        fed("alternatives"), gaps=LACKS_KEYS,
    ),
    "neighbours": subject(
        NeighboursTableConfig(on=("x",), fewer_than=2, **PAIRS | {"probability": 1e-9}),
        fed("alternatives"), gaps=LACKS_KEYS,
    ),
    "neighbours of two sides": subject(
        OtherNeighboursTableConfig(on=("x",), fewer_than=2, **PAIRS | {"probability": 1e-9}),
        fed("alternatives", sides=True), gaps=LACKS_KEYS,
    ),
    "neighbours with aggregates": subject(
        NeighboursTableConfig(
            on=("x",), aggregated=RowWindowTableConfig(
                window=Rows(1), options=DistributionOptions(distribution=9), **RESULTS
            ),
            **PAIRS | SPANS | {"probability": 1e-9},
        ),
        fed("alternatives", "prob", "value0"), gaps=LACKS_KEYS,
    ),
    "neighbours of two sides with aggregates": subject(
        OtherNeighboursTableConfig(
            on=("x",), aggregated=RowWindowTableConfig(window=Rows(1), **RESULTS),
            **PAIRS | SPANS | {"probability": 1e-9},
        ),
        fed("alternatives", "prob", "value0", sides=True), gaps=LACKS_KEYS,
    ),
    "self join, a task of two": subject(
        SelfJoinTableConfig(output="changes", on=("x",), tasks=2, task=1, **PAIRS),
        fed("alternatives"), gaps=LACKS_KEYS,
    ),
    "incomplete join": subject(
        IncompleteJoinTableConfig(
            imputer=RepositoryImputer(
                Imputer(
                    REPOSITORY, ["x -> y : 0.2 -> 1", "y -> x : 0.2 -> 1"], names=["x", "y"],
                    fallback="reject",
                )
            ).to_bytes(),
            output="changes", on=("x", "y"), **PAIRS,
        ),
        fed("reading0", "reading1", sides=True), gaps=LACKS_KEYS,
    ),
    "extent join": subject(
        ExtentJoinTableConfig(keys=1), fed("window", sides=True),
        gaps=LACKS_KEYS | {"any_split": "a side's extents come whole"},
    ),
    "join of extents, one to one": subject(
        ExtentJoinTableConfig(
            keys=1, one_to_one=True, on=("x",), within=0.5, probability=0.05
        ),
        fed("window", "alternatives", sides=True),
        gaps=LACKS_KEYS | {"any_split": "a side's extents come whole"},
    ),
    "full join of extents": subject(
        ExtentJoinTableConfig(keys=1, how="full", on=("x",), within=0.5, probability=0.05),
        fed("window", "alternatives", sides=True),
        gaps=LACKS_KEYS | {"any_split": "a side's extents come whole"},
    ),
    **{
        f"{name} of rows released {by}": subject(
            make(by == "by source"),
            released_feed(name, columns, sides),
            partial(released, by, sides=sides), released=True,
            gaps=LACKS_KEYS if sides else APART.get(name, {}),
        )
        for by in CONTROLS
        for name, (make, columns, sides) in RELEASED.items()
        if by == "by key" or not sides
    },
    **{
        f"early answers of {rows_of}rows released {by}": subject(
            early_of(by == "by source", rows_of != "", scope=(0,), **ONE),
            fed("prob", "value0", "early", "arrival", *CONTROLLER_COLUMNS),
            partial(released, by, early=True, unsure=rows_of != ""), released=True,
        )
        for by in CONTROLS
        for rows_of in ("", "uncertain ")
        if by == "by key" or not rows_of
    },
    "early answers of rows in order": subject(
        early_of(False, scope=None), WINDOW, rows_of_values, gaps=LACKS_KEYS
    ),
    "chain of a controller and a window": chain(
        (
            RowWindowTableConfig(window=Rows(4, 0.9), keys=1, controlled=True, **ONE, **RESULTS),
            MARKED,
        )
    ),
    "chain of a controller and a top-k": chain(
        (
            top_k_of(rules=False, scope=(0,), **ONE),
            MARKED,
        )
    ),
    "chain of a controller, extents and their join": chain(
        (extents_of(40, 20, **ONE), MARKED),
        (extents_of(20, 20, **ONE), MARKED),
        (
            ExtentJoinTableConfig(keys=1, scope=(0,)),
            Feed(1, RESULT, OF_RESULT, of_step=True),
            Feed(2, RESULT, OF_RESULT, True, (Condition(("total", "mean"), "<", 0.5),)),
        ),
    ),
}  # fmt: skip
SUMS = tuple((of, of, 0, None) for of in ("sum", "min", "max"))
EXACT = {
    "results": SUMS,
    "attributes": 1,
    "kinds": tuple(ExactNumber(64, of != "sum") for of, *_ in SUMS),
    "keys": 1,
}
# Other settings of the same operators, which have the same layouts of state.
OTHER_SETTINGS = {
    "exact sums of rows": subject(
        RowWindowTableConfig(window=Rows(4), **EXACT), WINDOW, exact_rows
    ),
    **{
        f"exact sums of {name}": subject(
            ExtentTableConfig(window=window, **EXACT),
            WINDOW, exact_rows, gaps=LACKS_KEYS,
        )
        for name, window in (
            ("extents", Range("60 us", "20 us", offset="7 us")), ("sessions", Session("9 us")),
        )
    },
    **{
        f"reorder with a bound on all keys, {name}": subject(
            ReorderTableConfig(control=DisorderControl(max_buffer_total=5, **waits), keys=1),
            fed("event"), gaps=LACKS_KEYS,
        )
        for name, waits in (
            ("no wait", {}), ("slack", {"slack": 6}), ("delay", {"max_delay": 60}),
            ("ratio", {"drop_ratio": 0.05}), ("keys", {"max_delay": 200, "max_buffer": 3}),
        )
    },
    "days of a zone": subject(
        ExtentTableConfig(
            window=Range("2 days", "1 day", zone="America/New_York", offset="6 h"), keys=1,
            missed=True, **RESULTS,
        ),
        WINDOW, rows_of_hours, gaps=LACKS_KEYS,
    ),
}  # fmt: skip
