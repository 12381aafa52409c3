"""Queries over rows of every kind, whose answers do not depend on the engine that runs them."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import sfumato as sf
from handed_on import handed_on

ROWS = 150
UTC = pa.timestamp("us", "UTC")
AT = {"order": "made", "key": "room"}
REORDERED = {"event_time": "made", "arrival": "arrival"}
TOTALS = {"n": "count(*)", "total": "sum(x)", "most": "max(2 * x - y)", "mid": "quantile(y, 0.5)"}
RULES = ["a -> b : 0.2 -> 0.2", "c -> b : 0.1 -> 0.1"]


def stamps(seconds) -> pa.Array:
    return pa.array((np.asarray(seconds) * 1e6).astype(np.int64)).cast(UTC)


def uncertain(seed: int) -> pa.Table:
    """Return rows with alternatives: many simultaneous, some late, some invalid."""
    random = np.random.default_rng(seed)
    made = np.sort(random.integers(0, 60, ROWS)).astype(float)
    arrival = made + random.choice([0.0, 1.0, 2.0, 9.0], ROWS)
    lists: list = []
    for _ in range(ROWS):
        n = random.integers(1, 4)
        cells = random.integers(0, 8, (n, 2)) / 4
        lists.append([{"prob": 0.9 / n, "x": x, "y": y} for x, y in cells.tolist()])
    lists[3], lists[40] = None, []
    lists[7][0]["prob"], lists[9][0]["x"], lists[11][0]["y"] = 1.5, None, float("inf")
    rooms = random.choice(["hall", "attic", "ü"], ROWS).tolist()
    rooms[20] = None
    kind = pa.list_(pa.struct([(name, pa.float64()) for name in ("prob", "x", "y")]))
    order = np.argsort(arrival, kind="stable")
    table = pa.table(
        {
            "id": pa.array(range(ROWS), pa.int32()),
            "room": rooms,
            "made": stamps(made),
            "arrival": stamps(arrival),
            "m": [{"mean": float(i % 5), "n": i} for i in range(ROWS)],
            "alternatives": pa.array(lists, kind),
        }
    )
    return table.take(pa.array(order))


def plain(seed: int) -> pa.Table:
    """Return rows of plain columns with an existence and integer times, some of them invalid."""
    random = np.random.default_rng(seed)
    existence = random.choice([0.25, 0.5, 1.0], ROWS)
    existence[4], existence[5] = 0.0, 1.5
    x = random.integers(0, 40, ROWS) / 8
    x[6] = np.nan
    reach = random.integers(0, 5, ROWS) / 16
    reach[7], reach[8], reach[9] = -1.0, np.nan, np.inf
    return pa.table(
        {
            "at": np.sort(random.integers(0, 50_000_000, ROWS)),
            "room": random.choice(["hall", "attic"], ROWS),
            "x": pa.array(x, mask=random.random(ROWS) < 0.02),
            "rule": pa.array(random.integers(0, 60, ROWS), mask=random.random(ROWS) < 0.5),
            "team": random.choice(["red", "blue"], ROWS),
            "existence": existence,
            "reach": pa.array(reach, mask=np.arange(ROWS) == 10),
        }
    )


def incomplete(seed: int) -> pa.Table:
    """Return rows with missing values."""
    random = np.random.default_rng(seed)
    kinds = random.choice(["new", "old", "odd"], ROWS, p=[0.6, 0.35, 0.05])
    columns = {"n": np.arange(ROWS), "kind": pa.array(kinds, mask=random.random(ROWS) < 0.05)}
    for name in ("a", "b", "c"):
        cells = random.integers(0, 100, ROWS) / 100
        columns[name] = pa.array(cells, mask=random.random(ROWS) < (0.3 if name == "b" else 0.1))
    return pa.table(columns)


def measured(seed: int) -> pa.Table:
    """Return rows with several measurements of a thing, some of them NULL, empty or invalid."""
    random = np.random.default_rng(seed)
    columns = {"n": pa.array(np.arange(ROWS))}
    kind = pa.list_(pa.struct([(n, pa.float64()) for n in ("prob", "x")] + [("w", pa.string())]))
    for name in ("one", "two", "three"):
        cells: list = []
        for _ in range(ROWS):
            n = random.integers(1, 5)
            prob = random.choice([0.25, 0.5, 1.0]) / n
            values = [{"prob": prob, "x": random.choice([-0.0, 0.0, 1.0, 2.0])} for _ in range(n)]
            cells.append([{**each, "w": random.choice(["u", "ü", None])} for each in values])
        cells[3], cells[int(random.integers(9))] = None, None
        cells[11], cells[13][0]["prob"], cells[14][0] = [], float(random.integers(2, 4)), None
        columns[name] = pa.array(cells, kind)
    return pa.table(columns)


def pairs_selected(frame):
    """Return the window, room and sums of pairs of extents."""
    if not isinstance(frame, pa.Table):
        return frame.selectExpr("window", "left.room", "left.s AS one", "right.s AS other")
    left, right = (frame.column(side).combine_chunks() for side in ("left", "right"))
    columns = {"room": (left, "room"), "one": (left, "s"), "other": (right, "s")}
    frame = frame.select(["window"])
    for name, (struct, field) in columns.items():
        frame = frame.append_column(name, pc.struct_field(struct, field))
    return frame


def without_existence(frame):
    """Return rows without the column `existence`, which therefore all exist."""
    return (
        frame.drop_columns(["existence"])
        if isinstance(frame, pa.Table)
        else frame.drop("existence")
    )


def certain(frame):
    """Return a table or frame without its alternatives."""
    if isinstance(frame, pa.Table):
        return frame.drop_columns(["alternatives"])
    return frame.drop("alternatives")


A, B, P, INCOMPLETE = uncertain(1), uncertain(2), plain(3), incomplete(4)
COMPLETE = incomplete(5).filter(pa.array([True] * 100 + [False] * 50))

CASES = {
    "reorder by key": lambda sf, a, b: sf.reorder(a, **REORDERED, key="room", slack=4),
    "reorder with a share of late rows": lambda sf, a, b: sf.reorder(
        a, **REORDERED, drop_ratio=0.2
    ),
    "reorder sources": lambda sf, a, b: sf.reorder(
        a, **REORDERED, source="room", estimator="max", max_buffer=20
    ),
    "reorder with few rows of all keys": lambda sf, a, b: sf.reorder(
        a, **REORDERED, key="room", drop_ratio=0.1, max_buffer_total=8, unique=["made", "m"]
    ),
    "reorder by sent punctuations": lambda sf, a, b: sf.reorder(
        a, **REORDERED, key="room", punctuation="made"
    ),
    "reorder unique rows": lambda sf, a, b: sf.reorder(
        a, **REORDERED, key="room", slack=4, unique=["made", "m"], max_behind="5 seconds"
    ),
    "extents": lambda sf, a, b: sf.window_aggregate(
        a, TOTALS, window=RANGE, quantiles=[0.25, 0.5], **AT
    ),
    "extents after reorder": lambda sf, a, b: sf.window_aggregate(
        sf.reorder(a, **REORDERED, slack=9), TOTALS, window=RANGE, distribution=4, **AT
    ),
    "days of a zone": lambda sf, a, b: sf.window_aggregate(
        sf.reorder(sf.where(a, "x >= 0"), **REORDERED, slack=9), TOTALS,
        window=sf_.Range("1 week", slide="1 day", zone="Asia/Kolkata", offset="6 h"), **AT,
    ),
    "averages over time": lambda sf, a, b: sf.window_aggregate(
        sf.reorder(a, **REORDERED, slack=9), {"mean": "time_avg(x)", "sum": "integral(x)"},
        window=RANGE, **AT,
    ),
    "sessions": lambda sf, a, b: sf.window_aggregate(
        a, {**TOTALS, "n": "first(x)"}, window=sf_.Session("2 seconds"), quantiles=[0.5],
        with_rows=True, **AT,
    ),
    "aggregates of some rows": lambda sf, a, b: sf.window_aggregate(
        sf.reorder(a, **REORDERED, slack=9),
        {
            "warm": "count_if(x > 1)", "hall": "avg(y) FILTER (WHERE room = 'hall')",
            "both": "max(coalesce(x, 0)) FILTER (WHERE room <> 'hall' AND x < y)",
        },
        window=RANGE, distribution=4, **AT,
    ),
    "sessions after reorder": lambda sf, a, b: sf.window_aggregate(
        sf.reorder(a, **REORDERED, slack=4), TOTALS, distribution=4, missed=True,
        window=sf_.Session("1 second", max_length="5 seconds"), **AT,
    ),
    "strings of extents": lambda sf, a, b: sf.window_aggregate(
        sf.reorder(certain(a), **REORDERED, slack=4),
        {"most": "max(room)", "last": "last(room) FILTER (WHERE id < 30)", "n": "sum(id)"},
        window=RANGE, **AT,
    ),
    "early answers": lambda sf, a, b: sf.window_aggregate(
        sf.reorder(certain(a), **REORDERED, slack=9, early=True),
        {"n": "count(*)", "s": "sum(m.mean) FILTER (WHERE id > 9)", "most": "max(id)"},
        window=RANGE, early="1 second", level=0.5, **AT,
    ),
    "early answers of uncertain rows": lambda sf, a, b: sf.window_aggregate(
        sf.reorder(a, **REORDERED, slack=9, early=True),
        {"n": "count(*)", "m": "avg(x)", "h": "max(x)"}, window=RANGE, early="1 second", level=0.5,
        **AT,
    ),
    "extents of unique rows": lambda sf, a, b: sf.window_aggregate(
        sf.reorder(a, **REORDERED, slack=9, unique="made"), TOTALS, window=RANGE, **AT
    ),
    "extents of corrected rows": lambda sf, a, b: sf.window_aggregate(
        sf.reorder(a, **REORDERED, slack=4), TOTALS, window=RANGE, order="made",
        unique="room", version="id",
    ),
    "extents with shared errors": lambda sf, a, b: sf.window_aggregate(
        sf.reorder(a, **REORDERED, slack=4), TOTALS, window=RANGE, order="made", shared="arrival",
        quantiles=[0.5],
    ),
    "members of extents": lambda sf, a, b: sf.window_aggregate(
        a, {"n": "count(*)"}, window=RANGE, with_rows=True, order="made"
    ),
    "missed by extents": lambda sf, a, b: sf.split_missed(
        sf.window_aggregate(
            sf.reorder(a, **REORDERED, slack=2), TOTALS, missed=True, quantiles=[0.5],
            window=sf_.Range("3 seconds", slide="4 seconds"), **AT,
        )
    )[1],
    "extents and rows missed": lambda sf, a, b: sf.window_aggregate(
        a, TOTALS, window=sf_.Range("3 seconds", slide="4 seconds"), missed=True, distribution=3,
        **AT,
    ),
    "count windows": lambda sf, a, b: sf.window_aggregate(
        a, {**TOTALS, "far": "avg(m.mean + x)"}, window=sf_.Rows(5, 0.9), distribution=3, **AT
    ),
    "count windows after reorder": lambda sf, a, b: sf.window_aggregate(
        sf.reorder(a, **REORDERED, key="room", slack=4), TOTALS, window=sf_.Rows(5), **AT
    ),
    "count windows with a slide": lambda sf, a, b: sf.window_aggregate(
        sf.reorder(a, **REORDERED, key="room", slack=4), TOTALS, window=sf_.Rows(5, slide=3), **AT
    ),
    "delta windows": lambda sf, a, b: sf.window_aggregate(
        a, {"n": "count(*)", "s": "sum(y)"}, window=sf_.Delta(0.5, on="x"), order=["made", "id"]
    ),
    "keys are forgotten": lambda sf, a, b: sf.window_aggregate(
        a, {"n": "count(*)"}, window=sf_.Rows(5), forget_after="3 seconds", **AT
    ),
    "uncertain times": lambda sf, a, b: sf.window_aggregate(
        a, {"n": "count(*)", "s": "sum(y)"}, window=sf_.Range("2 us", slide="1 us"), order="t"
    ),
    "top-k": lambda sf, a, b: sf.top_k(
        a, [sf_.Top(1, name="first"), sf_.Top(3, every="7 seconds")], by="x + m.n desc",
        window=RANGE, **AT,
    ),
    "top-k after reorder": lambda sf, a, b: sf.top_k(
        sf.reorder(a, **REORDERED, slack=9), 2, by="y asc", window=RANGE, semantics="u_topk", **AT
    ),
    "joined": lambda sf, a, b: sf.similarity_join(
        a, b, on=["x", "y"], within=0.5, probability=0.2, window=sf_.Rows(6, 0.9), **AT
    ),
    "joined after reorder": lambda sf, a, b: sf.similarity_join(
        sf.reorder(a, **REORDERED, slack=5), sf.reorder(b, **REORDERED, slack=2), on="x",
        within={"x": 0.3}, probability=0.1, window=sf_.Range("5 seconds"), output="changes", **AT,
    ),
    "joined in lockstep": lambda sf, a, b: sf.similarity_join(
        sf.reorder(a, **REORDERED, slack=5), sf.reorder(b, **REORDERED, slack=2), on="x",
        within=0.3, probability=0.1, window=sf_.Rows(2, lockstep=True), **AT,
    ),
    "joined in delta windows": lambda sf, a, b: sf.similarity_join(
        a, b, on=["x", "y"], within=0.5, probability=0.2,
        window=(sf_.Delta(0.6, on="y"), sf_.Delta(0.4, on="x", threshold=0.9)), **AT,
    ),
    "left joined": lambda sf, a, b: sf.similarity_join(
        a, b, on=["x", "y"], within=0.4, probability=0.1, how="left", alternatives=False,
        window=("2 seconds", "5 seconds"), **AT,
    ),
    "full joined after reorder": lambda sf, a, b: sf.similarity_join(
        sf.reorder(a, **REORDERED, slack=5), sf.reorder(b, **REORDERED, slack=2), on="x",
        within=0.3, probability=0.1, window="3 seconds", how="full", **AT,
    ),
    "joined with itself": lambda sf, a, b: sf.self_join(
        a, on=["x", "y"], within=0.4, probability=0.2, window=sf_.Rows(6, 0.9), **AT
    ),
    "joined with itself after reorder": lambda sf, a, b: sf.self_join(
        sf.reorder(a, **REORDERED, slack=2), on="x", within=0.3, probability=0.1,
        window=sf_.Range("5 seconds"), output="changes", tasks=2, alternatives=False, **AT,
    ),
    "neighbours": lambda sf, a, b: sf.neighbours(
        a, on=["x", "y"], within=0.4, window=sf_.Rows(6), fewer_than=2, **AT
    ),
    "neighbours after reorder": lambda sf, a, b: sf.neighbours(
        sf.reorder(a, **REORDERED, slack=2), on="x", within=0.3, window=sf_.Range("5 seconds"),
        aggregates={"total": "sum(x * y)", "best": "max(x)"}, quantiles=[0.5], **AT,
    ),
    "neighbours in another frame": lambda sf, a, b: sf.neighbours(
        a, other=b, on=["x", "y"], within=0.4, window=sf_.Rows(6), fewer_than=2, **AT
    ),
    "neighbours in another frame after reorder": lambda sf, a, b: sf.neighbours(
        sf.reorder(a, **REORDERED, slack=2), other=sf.reorder(b, **REORDERED, slack=5), on="x",
        within=0.3, window=sf_.Range("5 seconds"), aggregates={"n": "count(*)", "middle": "avg(y)"},
        distribution=5, **AT,
    ),
    "as of": lambda sf, a, b: sf.asof_join(a, b, within="3 seconds", **AT),
    "as of, after reorder": lambda sf, a, b: sf.asof_join(
        sf.reorder(a, **REORDERED, slack=5), sf.where(sf.reorder(b, **REORDERED, slack=2), "x < 1"),
        probability=0.01, **AT,
    ),
    "several joined": lambda sf, a, b: sf.join_streams(
        {"one": a, "two": b, "three": a}, on="x", within=0.2, probability=0.3,
        window=sf_.Rows(5, 0.9), **AT,
    ),
    "extents joined": lambda sf, a, b: sf.extent_join(
        *(
            handed_on(
                sf.window_aggregate(
                    sf.reorder(one, **REORDERED, slack=5), {"s": "sum(x)"}, window=RANGE,
                    distribution=3, **AT,
                ),
                "s",
            )
            for one in (a, b)
        ),
        key="room", on="value", within=1.0, probability=0.2,
    ),
    "three joined": lambda sf, a, b: sf.extent_join(
        pairs_selected(
            sf.extent_join(
                *(
                    sf.window_aggregate(
                        sf.reorder(one, **REORDERED, slack=5, key=key), {"s": "sum(x)"},
                        window=RANGE, **AT,
                    )
                    for one, key in ((a, None), (b, "room"))
                ),
                key="room",
            )
        ),
        sf.window_aggregate(
            sf.reorder(a, **REORDERED, slack=3), {"n": "count(*)"}, window=RANGE, **AT
        ),
        key="room",
    ),
    "extents joined one to one": lambda sf, a, b: sf.extent_join(
        *(
            handed_on(
                sf.window_aggregate(one, {"s": "sum(x)"}, window=RANGE, distribution=3, **AT), "s"
            )
            for one in (a, b)
        ),
        key="room", on="value", within=2.0, probability=0.1, one_to_one=True,
    ),
    "extents full joined": lambda sf, a, b: sf.extent_join(
        sf.window_aggregate(a, {"s": "sum(x)"}, window=sf_.Range("2 seconds"), **AT),
        sf.window_aggregate(
            sf.where(b, "x >= 1.5"), {"n": "count(*)"}, window=sf_.Range("2 seconds"), **AT
        ),
        key="room", how="full",
    ),
    "a chain of three": lambda sf, a, b: sf.top_k(
        sf.window_aggregate(
            sf.reorder(a, **REORDERED, slack=5), {"level": "avg(x)"}, window=sf_.Rows(4), **AT
        ),
        2, by="level.mean", window=RANGE, existence=None, **AT,
    ),
    "windows over windows": lambda sf, a, b: sf.window_aggregate(
        sf.assume_independent(
            handed_on(
                sf.window_aggregate(a, {"t": "sum(x)"}, window=sf_.Rows(3), distribution=3, **AT),
                "t",
            )
        ),
        {"s": "sum(value)", "h": "max(held)"}, window=sf_.Rows(4), distribution=3, **AT,
    ),
    "a union": lambda sf, a, b: sf.window_aggregate(
        sf.reorder(
            sf.union(sf.where(a, "room = 'attic'"), sf.where(a, "room <> 'attic'")),
            **REORDERED, slack=5,
        ),
        TOTALS, window=RANGE, **AT,
    ),
    "resampled": lambda sf, a, b: sf.resample(
        sf.reorder(a, **REORDERED, key="room", slack=4), every="2 seconds", limit="5 s", **AT
    ),
    "worlds of reordered rows": lambda sf, a, b: sf.window_aggregate(
        sf.draw_worlds(sf.reorder(a, **REORDERED, slack=4), 7, source="a", id="id"),
        {"n": "count(*)", "total": "sum(x)"}, window=RANGE, order="made", key=["room", "world"],
    ),
    "joined in worlds": lambda sf, a, b: sf.similarity_join(
        *(sf.draw_worlds(of, 5, source=name, id="id") for of, name in ((a, "a"), (b, "b"))),
        on=["x", "y"], within=0.4, probability=1, window=sf_.Rows(6), order="made",
        key=["room", "world"],
    ),
    "left joined in worlds": lambda sf, a, b: sf.similarity_join(
        *(sf.draw_worlds(of, 5, source=name, id="id") for of, name in ((a, "a"), (b, "b"))),
        on=["x", "y"], within=0.4, probability=1, window="3 seconds", how="left", order="made",
        key=["room", "world"],
    ),
    "reordered in worlds": lambda sf, a, b: sf.asof_join(
        *(
            sf.reorder(
                sf.draw_worlds(of, 5, source=name, id="id"), **REORDERED, slack=4, key="world"
            )
            for of, name in ((a, "a"), (b, "b"))
        ),
        order="made", key=["room", "world"], within="9 seconds",
    ),
    "merged over worlds": lambda sf, a, b: sf.merge_worlds(
        sf.top_k(
            sf.draw_worlds(a, 9, source="a", id="id"), sf_.Top(2, every="20 seconds"),
            by="x + id / 1000", window=sf_.Range("10 seconds"), order="made", key=["room", "world"],
        ),
        key=["room", "time", "rank"], columns=["score"],
    ),
    "pruned": lambda sf, a, b: sf.prune(a, min_prob=0.4, top=2),
    "pruned, as likely as before": lambda sf, a, b: sf.prune(a, top=1, normalize=True),
    "pruned and joined": lambda sf, a, b: sf.similarity_join(
        sf.prune(a, top=2), b, on="x", within=0.5, probability=0.2, window=sf_.Rows(6), **AT
    ),
    "valid": lambda sf, a, b: sf.split_invalid(a)[0],
    "invalid": lambda sf, a, b: sf.split_invalid(a)[1],
    "late": lambda sf, a, b: sf.split_late(sf.reorder(a, **REORDERED, slack=3))[1],
}  # fmt: skip
PLAIN_CASES = {
    "plain rows": lambda sf, p, q: sf.window_aggregate(
        p, {"s": "sum(x)", "n": "count(*)"}, window=sf_.Range("5 seconds"), order="at", key="room"
    ),
    "rules and streams": lambda sf, p, q: sf.top_k(
        p, [2, sf_.Top(4)], by="x", window=sf_.Range("9 seconds", slide="3 seconds"), order="at",
        exclusive="rule", group="team",
    ),
    "rules": lambda sf, p, q: sf.top_k(
        p, sf_.Top(2, every="5 s"), by="-x", window=sf_.Rows(4, 0.8), order="at", key="room",
        exclusive="RULE", semantics="pt_k", probability=0.3, existence="existence",
    ),
    "earlier values": lambda sf, p, q: sf.earlier_values(
        without_existence(p), "x", order="at", key="room"
    ),
    "plain rows joined": lambda sf, p, q: sf.similarity_join(
        p, q, on="x", within=0.25, probability=0.4, window=sf_.Rows(9, within="4 seconds"),
        order="at", strategy="sort",
    ),
    "distinct strings": lambda sf, p, q: sf.window_aggregate(
        p, {"teams": "count(distinct team)", "n": "count(team)"},
        window=sf_.Range("9 seconds", slide="3 seconds"), order="at", key="room",
    ),
    "joined by text": lambda sf, p, q: sf.similarity_join(
        p, q, on=["team", "x"], within={"x": 0.25}, probability=0.3, window=sf_.Rows(6),
        order="at", key="room",
    ),
    "joined by radii": lambda sf, p, q: sf.similarity_join(
        p, q, on="x", within="reach", probability=0.3, window=sf_.Rows(6), order="at", key="room",
    ),
    "neighbours within radii": lambda sf, p, q: sf.neighbours(
        p, on=["x", "rule"], metric="haversine", within="reach", window=sf_.Rows(6), order="at",
    ),
    "rows without radius": lambda sf, p, q: sf.split_invalid(p, "x", within="reach")[1],
    "invalid plain rows": lambda sf, p, q: sf.split_invalid(p, "x")[1],
    "rows without key": lambda sf, p, q: sf.split_invalid(p, key="room", order="at")[1],
    "rows beyond their rules": lambda sf, p, q: sf.split_invalid(
        p, exclusive="rule", order="at", key="room"
    )[1],
    "scaled rules": lambda sf, p, q: sf.top_k(
        p, 3, by="x", window=sf_.Range("20 seconds"), order="at", exclusive="rule", rescale=True
    ),
    "as of rows that may exist": lambda sf, p, q: sf.asof_join(
        p, q, order="at", key="room", how="inner", forget_after="2 seconds"
    ),
    "places": lambda sf, p, q: sf.self_join(
        p, on=["x", "rule"], metric="haversine", within=3e5, probability=0.3, window=sf_.Rows(9),
        order="at",
    ),
    "no places": lambda sf, p, q: sf.split_invalid(p, ["x", "at"], metric="haversine")[1],
}  # fmt: skip
VALUES = {
    "n": "count(*)", "kinds": "count_distinct(rule)", "s": "sum(rule)", "least": "min(rule)",
    "large": "sum(rule + 9007199254740993)", "largest": "max(rule + 9007199254740993)",
    "most": "max(x)", "newest": "last(rule)", "oldest": "first(x)", "mid": "quantile(x, 0.5)",
    "time": "max(seen)", "any": "max(up)", "words": "count(team)",
}  # fmt: skip
CERTAIN_CASES = {
    "extents of certain rows": lambda sf, p: sf.window_aggregate(
        p, VALUES, window="9 seconds", order="at", key="room"
    ),
    "averages over time of certain rows": lambda sf, p: sf.window_aggregate(
        p,
        {"mean": "time_avg(x)", "rules": "sum(rule)", "area": "integral(x + rule)"},
        window=sf_.Range("9 seconds", slide="3 seconds", empty=True),
        order="at",
        key="room",
    ),
    "resampled linearly": lambda sf, p: sf.resample(
        p, every="2 seconds", order="at", key="room", columns=["x", "rule"], fill="linear"
    ),
    "windows over means": lambda sf, p: sf.window_aggregate(
        sf.resample(
            p, every="2 seconds", order="at", key="room", columns="x", fill="mean", limit="5 s"
        ),
        {"most": "max(x)"},
        window="9 seconds",
        order="at",
        key="room",
    ),
    "windows of certain rows": lambda sf, p: sf.window_aggregate(
        p, VALUES, window=sf_.Rows(4), order="at", key="room"
    ),
}
IMPUTED = {
    "imputed": lambda sf, i, r: sf.impute(i, repository=r, dependencies=RULES, attributes="b"),
    "imputed or rejected": lambda sf, i, r: sf.impute(
        i, repository=r, dependencies=RULES, attributes=["b"], fallback="reject", least_donors=4,
        max_alternatives=3,
    ),
    "imputed by key": lambda sf, i, r: sf.impute(
        i, repository=r, dependencies=RULES, attributes="b", key="kind", least_rows=25,
    ),
    "imputed texts": lambda sf, i, r: sf.impute(
        i, repository=r, attributes=["b", "kind"],
        dependencies=["kind, a -> b : 0, 0.3 -> 0.2", "a, b -> kind : 0.2, 0.2 -> 0"],
    ),
    "imputed by changes": lambda sf, i, r: sf.impute(
        i, repository=r, attributes=["a", "b"], order="n", key="kind", max_alternatives=20,
    ),
    "imputed gaps": lambda sf, i, r: sf.impute(
        i, repository=r, attributes=["a", "b"], order="n", key="kind", gap_values=7,
    ),
    "incomplete rows joined": lambda sf, i, r: sf.similarity_join(
        i, i, on="b", within=0.02, probability=0.5, window=sf_.Rows(5), order="n",
        impute={"repository": r, "dependencies": RULES, "attributes": "b"},
    ),
    "incomplete streams joined": lambda sf, i, r: sf.join_streams(
        {"one": i, "two": i}, on="b", within=0.02, probability=0.5, window=sf_.Rows(5), order="n",
        impute={"repository": r, "dependencies": RULES, "attributes": "b"},
    ),
    "incomplete rows joined by distances": lambda sf, i, r: sf.similarity_join(
        i, i, on=["a", "b"], within={"b": 0.1, "a": 0.2}, probability=0.3, window=sf_.Rows(9),
        order="n", impute={
            "repository": r, "dependencies": [*RULES, "b -> a : 0.2 -> 0.2"],
            "attributes": ["a", "b"],
        },
    ),
}  # fmt: skip
MEASURED = {
    "two fused": lambda sf, m: sf.fuse(m, ["one", "two"]),
    "three fused": lambda sf, m: sf.fuse(m, ["three", "one", "two"]),
    "fused and joined": lambda sf, m: sf.similarity_join(
        sf.fuse(m, ["one", "two"]),
        sf.fuse(m, ["one", "three"]),
        on=["w", "x"],
        within=0.5,
        probability=0.2,
        window=sf_.Rows(4),
        order="n",
    ),
    "fused and counted": lambda sf, m: sf.window_aggregate(
        sf.fuse(m, ["one", "two"]),
        {"many": "count(*)", "s": "sum(x)", "words": "count(w)", "kinds": "count(distinct w)"},
        window=sf_.Rows(4),
        order="n",
    ),
}
sf_ = sf
RANGE = sf.Range("10 seconds", slide="5 seconds")


def with_times(table: pa.Table, after: str | None = None) -> pa.Table:
    """Return the rows with an uncertain event time instead of x, from 1970 or column `after`."""
    column = table.column("alternatives").combine_chunks()
    begin = table.column(after).cast(pa.int64()).to_pylist() if after else [0] * len(table)
    unit = 1_000_000 if after else 1
    cells = [
        None if row is None else [
            {"prob": a["prob"], "t": a["x"] and first + int(a["x"] * 4) * unit, "y": a["y"]}
            for a in row
        ]
        for first, row in zip(begin, column.to_pylist(), strict=True)
    ]  # fmt: skip
    time = table.schema.field(after).type if after else pa.int64()
    kind = pa.list_(pa.struct([("prob", pa.float64()), ("t", time), ("y", pa.float64())]))
    place = table.column_names.index("alternatives")
    return table.set_column(place, "alternatives", pa.array(cells, kind))


def shown(value):
    """Return a value that can be compared and sorted, with moments in UTC."""
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).isoformat()
    if isinstance(value, dict):
        return {name: shown(of) for name, of in value.items()}
    return [shown(of) for of in value] if isinstance(value, list) else value


def rows_of(table: pa.Table) -> list[str]:
    return sorted(repr(shown(row)) for row in table.to_pylist())
