"""Arguments that each function refuses: checks that are the same for every kind of frame.

tests/spark/test_arguments.py has some of these cases over Spark frames.
"""

from datetime import timedelta

import polars as pl
import pyarrow as pa
import pytest

import sfumato as sf

STAMP = pa.timestamp("us", tz="UTC")


def empty(uncertain=(), **columns):
    """Return an empty table; `uncertain` are the attributes of its alternatives."""
    if uncertain:
        fields = [("prob", pa.float64()), *((name, pa.float64()) for name in uncertain)]
        columns["alternatives"] = pa.list_(pa.struct(fields))
    return pa.schema(columns).empty_table()


READINGS = empty(
    device=pa.string(), event=STAMP, arrival=STAMP, value=pa.float64(), tags=pa.list_(pa.string())
)
TUPLES = empty(["x", "y"], id=pa.int64(), site=pa.string(), seen=pa.int64())
PLACES = empty(id=pa.int64(), seen=STAMP, received=STAMP, x=pa.float64(), y=pa.float64())
WINDOWED = empty(["x"], id=pa.int64(), k=pa.int64(), ts=STAMP)
SPEEDS = empty(
    id=pa.string(), ts=STAMP, speed=pa.float64(), confidence=pa.float64(), rule=pa.string()
)
GAPPY = empty(id=pa.int64(), word=pa.string(), a=pa.float64(), b=pa.float64(), c=pa.float64())
DEVICES = empty(
    id=pa.int64(), device=pa.string(), time=STAMP, a=pa.float64(), b=pa.float64(), age_b=STAMP
)
DONORS = pa.table({name: [1.0, 2.0] * 10 for name in "abc"} | {"word": ["w"] * 20})
IMPUTE = {"repository": DONORS, "dependencies": "a -> b : 0.1 -> 1", "attributes": "b"}
PAIRS = {"on": "x", "within": 1.0, "probability": 0.5, "window": sf.Rows(5), "order": "seen"}
MINUTE, BOTH_BOUNDS = sf.Range("1 minute"), sf.Rows(3, within="1 minute")
WITH_ROWS = {"with_rows": True}
ONLY_IN_JOINS = "`within` of sf.Rows is allowed only in joins: write window=sf.Rows"

UNSURE = {"existence": "confidence"}
EACH_NUMBER = "`within` must have a distance for each numeric attribute of `on`"

# name: the call, its right arguments, and the messages for wrong arguments
FUNCTIONS = {
    "Range": (
        sf.Range,
        {"length": "1 hour"},
        [
            ({"length": "1 day", "zone": "America/New_Yrok"}, "did you mean `America/New_York`"),
            ({"length": "1 day", "zone": "../etc/passwd"}, "`zone` must be the name of"),
            ({"length": "1 day", "zone": 5}, "`zone` must be the name of a time zone"),
            ({"zone": "UTC"}, "`length` of a window with calendar units must be"),
            ({"length": "1 month", "slide": "1 day"}, "`slide` must be in months or years"),
            ({"length": "0 months"}, "`length` of a window with calendar units must be"),
            ({"length": "20000 days", "slide": "1 day", "zone": "UTC"}, "10000"),
            ({"length": timedelta(1), "zone": "UTC"}, "`length` of a window with calendar units"),
            ({"length": "99999 years"}, "`length` must be at most 9,999 years"),
            ({"offset": "60 minutes"}, "`offset` must be shorter than `slide`"),
            ({"offset": 5}, "`offset` must have a unit"),
            ({"length": "1 month", "offset": "28 days"}, "`offset` must be shorter than `slide`"),
            ({"length": "2 hours", "slide": "1 hour", "offset": "90 min"}, "slide='1 hour'"),
            ({"length": "1 day", "slide": "1 us"}, "86400000000 extents of `length` 86400000000"),
            ({"length": "10001 us", "slide": "1 us"}, 'of at least "2 us" or a shorter `length`'),
            ({"length": "250 days", "slide": "1 s", "empty": True}, "21600000 extents of `length`"),
        ],
    ),
    "Session": (
        sf.Session,
        {"gap": "1 s"},
        [
            ({"gap": 5}, '`gap` must have a unit: gap="5 seconds"'),
            ({"gap": "0 s"}, "`gap` must be positive"),
            ({"max_length": 3}, "`max_length` must have a unit"),
            ({"slide": "3 s"}, "sf.Session has no argument `slide`"),
        ],
    ),
    "discover_dependencies": (
        lambda **of: sf.discover_dependencies(DONORS.drop(["word"]), **of),
        {},
        [
            ({"scaling": {"a": 2.0}}, r"`scaling` must give \(shift, span\)"),
            ({"epsilons": 0.1}, "`epsilons` must be a list of finite numbers"),
            ({"sample": 2.5}, "`sample` must be an in"),
            ({"dependents": 3}, "`dependents` must be"),
        ],
    ),
    "reorder": (
        lambda **of: sf.reorder(READINGS, **of),
        {"event_time": "event", "arrival": "arrival", "slack": 3},
        [
            ({"drop_ratio": 0.1}, "cannot be combined"),
            ({"slack": None}, "one of `drop_ratio`"),
            ({"slack": None, "drop_ratio": 1.5}, "drop_ratio"),
            ({"event_time": "evnt"}, "did you mean `event`"),
            ({"key": ["device", "devise"]}, "`key` names a column `devise`"),
            ({"arrival": "value"}, "must be a timestamp or whole microseconds; `value` is double"),
            ({"idle_timeout": "5 parsecs"}, "duration like"),
            ({"estimator": "best"}, "must be one of"),
            ({"source": "topik"}, "`source` names a column `topik`"),
            ({"expected_sources": 2}, "`expected_sources` needs `source`"),
            ({"source": "tags"}, "`source` names column `tags`, but rows cannot be sorted by list"),
            ({"seed": 1}, "has no argument `seed`"),
            ({"event_time": "device"}, "`device` is string: convert text with pandas.to_datetime"),
            (
                {"event_time": pl.col("event") + 1},
                r"`event_time` must be a column name \(a string\); got the expression .* Add it to",
            ),
        ],
    ),
    "similarity_join": (
        lambda **of: sf.similarity_join(TUPLES, TUPLES, **of),
        PAIRS,
        [
            ({"on": ["x", "y"], "strategy": "sort"}, "index"),
            ({"within": 0}, "within"),
            ({"within": "far"}, "`within` names a radius column `far` that is not in either"),
            ({"within": "site"}, "must name numeric columns; `site`"),
            ({"within": "x"}, "`within.*` must name a column .*; `x` is an attribute"),
            ({"within": "sen"}, "did you mean `seen`"),
            ({"within": None}, "`within` must be a finite number"),
            ({"within": {"x": "site"}}, "`within` must be a finite number; got 'site'"),
            ({"probability": 0.0}, "probability"),
            ({"on": "w"}, "which are not in the alternatives of the left table"),
            ({"order": "sen"}, "did you mean `seen`"),
            ({"window": 500}, "`window` must be sf.Rows"),
            ({"strategy": "fast"}, "strategy"),
            ({"output": "update"}, "output"),
            ({"tasks": 0}, "`tasks` must be an integer of at least 1; got 0"),
            ({"tasks": "8"}, "`tasks` must be"),
            ({"tasks": 5000}, "`tasks` must be at most 1024"),
            ({"tasks": 8, "window": MINUTE, "how": "left"}, "`tasks` must be 1 with how=\"left\""),
            ({"tasks": 8, "window": sf.Delta(3, on="x")}, "`tasks` must be 1 for windows of sf.De"),
            ({"window": (sf.Rows(1),) * 3}, "a pair of windows for left and right; got 3 windows"),
            ({"order": "site"}, "numbers, times or dates"),
        ],
    ),
    "similarity_join of places": (
        lambda **of: sf.similarity_join(PLACES, PLACES, **of),
        PAIRS | {"on": ["x", "y"]},
        [
            ({"on": "z"}, "names a column `z`"),
            ({"within": {"x": 1.0}}, "a distance for each numeric attribute of `on`"),
            ({"within": {"x": 1.0, "y": 0.0}}, "`within` must be a positive"),
            ({"metric": "manhattan"}, "`metric` must be one of euclidean, haversine"),
            ({"metric": "haversine", "on": "x"}, r"needs `on`=\[longitude, latitude\]"),
            ({"window": sf.Range("1 minute"), "order": "x"}, "`order` must be one column"),
            ({"window": sf.Range("1 minute", slide="1 second")}, "with only a length"),
            ({"window": (sf.Rows(3), 5)}, "or a pair of them"),
            ({"window": sf.Rows(3, slide=3)}, "only for aggregates, because the window"),
            ({"window": sf.Delta(3, on="id")}, "`window.on` must be one of the attributes"),
            (
                {"window": sf.Delta(3, on="x"), "within": {"x": 1.0, "y": 1.0}},
                "must be one distance",
            ),
            ({"window": sf.Delta(3, on="x"), "how": "left"}, "needs time windows"),
            ({"window": sf.Rows(3, lockstep=True), "order": "x"}, "`order` must be one column"),
            ({"window": (sf.Rows(3, lockstep=True), sf.Rows(3))}, "the same for both windows"),
            ({"idle_timeout": "1 minute"}, "put sf.reorder upstream of both"),
        ],
    ),
    "self_join": (
        lambda **of: sf.self_join(PLACES, **of),
        PAIRS,
        [
            (
                {"window": (sf.Rows(2), sf.Rows(3))},
                "must be one window in a join of a stream with itself",
            ),
            ({"window": sf.Range("1 s"), "order": "x"}, "because `window` is a time window"),
            ({"window": 3}, "must be one window in a join of a stream with itself.*; got 3"),
            ({"tasks": 0}, "`tasks` must be an integer"),
            ({"on": []}, "`on` must name at least one"),
            ({"on": "zz"}, "^`on` names a column `zz`"),
            ({"order": "zz"}, "^`order` names a column `zz`"),
            ({"key": "zz"}, "^`key` names a column `zz`"),
            ({"window": sf.Range("1 day", zone="UTC")}, "`window` must have a fixed length here"),
            ({"window": sf.Range("1 s", offset="1 ms")}, "an sf\\.Range with only a length"),
        ],
    ),
    "similarity_join of text": (
        lambda **of: sf.similarity_join(SPEEDS, SPEEDS, **of),
        PAIRS | {"on": ["speed", "id"], "order": "ts"},
        [
            ({"within": {"id": 1.0}}, EACH_NUMBER),
            ({"within": {"z": 1.0}}, EACH_NUMBER),
            ({"within": {}}, EACH_NUMBER),
            ({"within": "confidence"}, "is text, but `within` as a radius column accepts only num"),
            ({"metric": "haversine"}, '`metric`="haversine" accepts only numbers'),
            ({"window": sf.Delta(1.0, on="speed")}, "a window of sf.Delta accepts only numbers"),
        ],
    ),
    "neighbours": (
        lambda **of: sf.neighbours(TUPLES, **of),
        {
            "on": "x", "within": 0.75, "order": "seen", "window": sf.Range("9 us"),
            "aggregates": {"n": "count(*)"},
        },
        [
            ({"window": sf.Rows(3)}, "needs a time window over uncertain rows"),
            ({"aggregates": {"n": "integral(y)"}}, "is not supported for neighbours"),
            ({"aggregates": {"seen": "sum(y)"}}, "already has a column with this name"),
            ({"aggregates": {"neighbours": "sum(y)"}}, "already has a column with this name"),
            ({"aggregates": {"n": "sum(missing)"}}, "missing"),
            ({"aggregates": None, "quantiles": [0.5]}, "describe the results of `aggregates`"),
            ({"aggregates": None, "distribution": 5}, "describe the results of `aggregates`"),
            ({"idle_timeout": "1 minute"}, "`idle_timeout` needs two frames: give `other`"),
            ({"other": 5}, "`other` must be a Spark DataFrame, or a pandas"),
            (
                {"other": TUPLES.drop(["site"]), "key": "site"},
                "`key` names a column `site` .* the right table",
            ),
        ],
    ),
    "similarity_join that imputes": (
        lambda left=GAPPY, right=GAPPY, **of: sf.similarity_join(left, right, **of),
        PAIRS | {"on": ["b"], "order": "id", "impute": IMPUTE},
        [
            ({"left": GAPPY.drop(["a"])}, "`impute` names a column `a` that is not in the left"),
            (
                {"right": GAPPY.append_column("existence", GAPPY["a"])},
                "right table has a column `existence`",
            ),
            (
                {"right": GAPPY.append_column("alternatives", TUPLES["alternatives"])},
                "right table has a column `alternatives`",
            ),
            ({"impute": IMPUTE | {"key": "word"}}, "`impute` of a join must not have a `key`"),
            ({"metric": "haversine"}, '`metric` must be "euclidean" in a join with `impute`'),
            ({"impute": 3}, "sf.Imputation"),
            ({"impute": IMPUTE | {"max_alternatives": "8"}}, "`max_alternatives` must be an"),
            ({"impute": {"attributes": "b"}}, "arguments of sf.Imputation"),
            ({"on": ["b", "c"]}, "same `attributes` as `on`"),
            ({"strategy": "index"}, "`strategy` and `impute` cannot be combined"),
            ({"probability": 2.0}, "probability"),
            ({"within": 0.0}, "within"),
            ({"within": "a"}, "`within` must be a number, or one per"),
            ({"output": "update"}, "output"),
            ({"window": sf.Delta(1.0, on="b")}, "`window` must be sf.Rows"),
            ({"window": sf.Rows(3, lockstep=True)}, "cannot be combined: use sf.impute"),
        ],
    ),
    "window_aggregate": (
        lambda **of: sf.window_aggregate(WINDOWED, **of),
        {"aggregates": {"t": "sum(x)"}, "window": sf.Rows(2), "order": "id"},
        [
            ({"distribution": "few"}, "`distribution` must be an integer"),
            ({"aggregates": {"t": "median(x)"}}, "one of count, sum, avg"),
            ({"aggregates": {"t": "summ(x)"}}, "did you mean `sum`"),
            ({"aggregates": {"t": "count"}}, r"got 'count'\. Write count\(\*\) or count\(x\)$"),
            ({"aggregates": {"t": "quantile"}}, r"Write quantile\(x, 0\.9\)$"),
            ({"aggregates": {"t": "mean"}}, r"got 'mean'\. Write mean\(x\)$"),
            ({"aggregates": {"t": "sum(z)"}}, "or attribute `z`"),
            (
                {"aggregates": {"t": "sum(round(x))"}},
                r"without Spark, `aggregates\['t'\]` can use only columns",
            ),
            (
                {"aggregates": {"k": "count(*)"}, "window": MINUTE, "order": "ts"} | WITH_ROWS,
                "names a result `k`",
            ),
            ({"window": BOTH_BOUNDS}, ONLY_IN_JOINS),
            ({"name": "a b"}, "`name`"),
            ({"aggregates": {"t": "sum(distinct x)"}}, "DISTINCT"),
            ({"aggregates": {"t": "quantile(x, 2)"}}, "share from 0 to 1"),
            ({"aggregates": {"id": "sum(x)"}}, "the answer already has a column with this name"),
            ({"order": "nope"}, "not in the frame"),
            ({"order": 5}, r"`order` must be a column name \(a string\)"),
            ({"order": None}, "`order`"),
            ({"order": ["ts", "id"], "window": sf.Range("1 minute")}, "one event-time column"),
            ({"with_rows": True}, "sf.Range"),
            ({"with_rows": "no"}, "`with_rows` must be True or False; got 'no'"),
            ({"quantiles": 0.5}, "`quantiles` must be a list of numbers, .*; got 0.5"),
            ({"quantiles": "0.5"}, "`quantiles` must be a list of numbers"),
            ({"distribution": 0}, "distribution"),
            ({"existence": "id"}, "with their own"),
            ({"unique": "id"}, "`unique` needs `version`.*sf.reorder"),
            ({"version": "id"}, "`version` needs `unique`"),
            ({"unique": "k", "version": "id"}, "`version` needs a window of fixed length"),
            ({"shared": "k"}, '`shared` needs a window of fixed length.*draw_worlds.*id="k"'),
            ({"shared": "kk"}, "`shared` names a column `kk`"),
            ({"aggregates": {"m": "median(x)"}}, r"got 'median'. Write quantile\(x, 0.5\)"),
        ],
    ),
    "window_aggregate of corrected rows": (
        lambda **of: sf.window_aggregate(SPEEDS, **of),
        {
            "aggregates": {"n": "count(*)"}, "window": sf.Range("1 minute"), "order": "ts",
            "unique": ["id"], "version": "ts",
        },
        [
            ({"unique": "idd"}, "`unique` names a column `idd`"),
            ({"version": "speeed"}, "`version` names a column `speeed`"),
            ({"version": "speed"}, "integers or timestamps; `speed` is double"),
            ({"window": sf.Session("1 minute")}, "fixed length"),
            ({"early": "10 seconds"}, "`early` and `version` cannot be combined"),
            ({"aggregates": {"a": "time_avg(speed)"}}, "time_avg in .* cannot follow corrections"),
        ],
    ),
    "window_aggregate of certain rows": (
        lambda **of: sf.window_aggregate(SPEEDS, **of),
        {"aggregates": {"n": "count(*)"}, "window": sf.Rows(2), "order": "ts"},
        [
            ({"quantiles": [0.5]}, "Leave `q"),
            ({"missed": True}, "needs a time window: write window=sf.Range"),
        ],
    ),
    "window_aggregate over time": (
        lambda **of: sf.window_aggregate(SPEEDS, **of),
        {"aggregates": {"m": "time_avg(speed)"}, "window": MINUTE, "order": "ts"},
        [
            ({"window": sf.Rows(3)}, r"time_avg in `aggregates\['m'\]` needs sf.Range"),
            ({"window": sf.Session("1 s")}, r"time_avg in `aggregates\['m'\]` needs sf.Range"),
            ({"window": sf.Delta(1.0, on="speed")}, r"time_avg in .*\['m'\]` needs sf.Range"),
            ({"window": sf.Range("1 s", slide="2 s")}, "windows without gaps"),
            ({"early": "1 second"}, "`early` allows only count, sum"),
            (UNSURE | {"distribution": 3}, "needs a distribution, but time_avg has only an exact"),
            (UNSURE | {"quantiles": [0.5]}, "sf.draw_worlds"),
        ],
    ),
    "window_aggregate of text": (
        lambda **of: sf.window_aggregate(SPEEDS, **of),
        {"aggregates": {"last": "last(id)"}, "window": MINUTE, "order": "ts"},
        [
            ({"window": sf.Rows(3)}, "last of strings and dates needs certain rows and a time win"),
            (UNSURE, "last of strings and dates needs certain rows and a time window"),
            ({"early": "2 us"}, "needs certain rows and a time window|`early` allows only"),
            ({"missed": True}, "`missed` and last of strings or dates"),
        ],
    ),
    "window_aggregate with early answers": (
        lambda **of: sf.window_aggregate(SPEEDS, **of),
        {
            "aggregates": {"n": "count(*)"}, "window": sf.Range("9 us"), "order": "ts",
            "early": "3 us",
        },
        [
            ({"early": None, "level": 0.8}, "`level` needs `early`"),
            ({"level": 1.0}, "0.5, 0.999"),
            ({"early": "10 us"}, "at most the window's"),
            ({"early": 5}, "`early`"),
            ({"early": 1.5}, "`early`"),
            ({"early": ["3 us"]}, "`early`"),
            ({"aggregates": {"q": "quantile(speed, 0.5)"}}, "is quantile: compute it"),
            ({"missed": True}, "`missed`"),
            (WITH_ROWS, "`with_rows`"),
            ({"window": sf.Session("3 us")}, "fixed length"),
            (UNSURE | {"aggregates": {"v": "var(speed)"}}, r"min, max; `aggregates\['v'\]` is var"),
            (UNSURE | {"distribution": 5}, "`distribution` cannot be"),
            (UNSURE | {"quantiles": [0.5]}, "`quantiles` cannot be"),
        ],
    ),
    "top_k": (
        lambda **of: sf.top_k(SPEEDS, **of),
        {
            "queries": sf.Top(2), "by": "speed", "window": sf.Range("20 minutes"), "order": "ts",
            "exclusive": "rule", "existence": "confidence",
        },
        [
            ({"queries": []}, "`queries` must be one sf.Top"),
            ({"queries": ["3"]}, "`queries` must be one sf.Top"),
            ({"window": sf.Rows(3, slide=3)}, "only for aggregates; a ranking"),
            ({"window": BOTH_BOUNDS, "queries": sf.Top(3, every="1 m")}, ONLY_IN_JOINS),
            ({"exclusives": "r"}, "did you mean `exclusive`?"),
            ({"window": sf.Range("1 s", empty=3)}, "`empty` of sf.Range is allowed only"),
            ({"by": "speed asc", "ascending": False}, "Give the direction once"),
            ({"by": "speed asc, id desc"}, "must be one expression, the score"),
            ({"key": 5}, r"`key` must be a column name \(a string\)"),
            ({"queries": [sf.Top(2), sf.Top(2, every="5 s")]}, "two `queries` are called"),
            ({"window": sf.Rows(5, 1)}, "needs `every`"),
            ({"window": sf.Delta(1, on="speed")}, "sf.Range or sf.Rows"),
            ({"by": " "}, "`by`"),
            ({"order": "nope"}, "not in the frame"),
            ({"order": "id"}, "`order`"),
            ({"exclusive": "ruel"}, "did you mean `rule`"),
            ({"group": "nope"}, "`group`"),
            ({"group": "id", "key": "id"}, "`group` names a column `id`, but the answer already"),
            ({"semantics": "best"}, "`semantics` must be one of"),
            ({"semantics": "pt_k"}, "needs `probability`"),
            ({"probability": 0.5}, "the probability column, write `existence`"),
            ({"alpha": 0.5}, "`alpha`"),
            ({"semantics": "prf", "weights": 1.0}, "`weights` must be a list of finite numbers"),
            ({"plan": "fast"}, "`plan`"),
            ({"semantics": "u_topk", "group": "id"}, "streams can be ranked"),
            ({"existence": "nope"}, "`existence`"),
            ({"exclusive": None, "rescale": True}, "column that identifies rows that exclude"),
            ({"rescale": "yes"}, "`rescale` must be"),
            ({"window": sf.Range("1 day", zone="UTC")}, "`window` must have a fixed length here"),
            ({"window": sf.Session("10 us")}, "`window` must be sf.Range or sf.Rows"),
            (
                {"window": sf.Range("1 hour", offset="5 minutes")},
                r"`offset` of sf\.Range is allowed only for aggregates",
            ),
            (
                {"queries": sf.Top(1, every="1 us"), "window": sf.Range("1 s")},
                "`every` of 1 microseconds puts each row into 1000000 extents",
            ),
        ],
    ),
    "impute": (
        lambda **of: sf.impute(GAPPY, **of),
        IMPUTE,
        [
            ({"attributes": []}, "`attributes` must name at least one"),
            ({"attributes": ["b", "b"]}, "twice"),
            ({"attributes": "bb", "dependencies": "a -> bb : 0.1 -> 1"}, "did you mean `b`"),
            (
                {"attributes": "bb"},
                "^`attributes` names a column `bb` that is not in the frame; .*did you mean `b`",
            ),
            ({"dependencies": []}, "`dependencies` must contain at least one"),
            ({"dependencies": "a -> c : 0.1 -> 1"}, "must infer only `attributes`"),
            ({"dependencies": "a => b : 0.1 -> 1"}, "expected"),
            ({"dependencies": "z -> b : 0.1 -> 1"}, "`z` that is not in the frame"),
            ({"dependencies": "id -> b : 0.1 -> 1"}, "`repository` names a column `id`"),
            ({"key": "a"}, "must name columns of text, integers, dates or booleans.*`a` is"),
            ({"key": "room"}, "room"),
            ({"key": "word", "least_rows": 0}, "`least_rows` must be"),
            ({"key": "word", "repository": DONORS.drop(["word"])}, "word"),
            ({"order": "a", "dependencies": "a -> b : 1 -> 1"}, "like `age_b`; got `a`"),
            ({"fallback": "mean"}, "fallback"),
            ({"max_alternatives": 0}, "max_alternatives"),
            ({"joint": 1}, "joint"),
            ({"scaling": {"b": (0.0, 0.0)}}, "span above 0"),
            ({"scaling": {"b": 1.0}}, r"`scaling` must give \(shift, span\) by column name"),
            ({"dependencies": 5}, "`dependencies` must be a string like"),
            ({"repository": 3}, "static DataFrame, a pandas, Polars or Arrow table"),
            ({"repository": " "}, "empty string"),
            ({"repository": "none.parquet"}, "no such file or folder: 'none.parquet'"),
        ],
    ),
    "where": (
        lambda **of: sf.where(PLACES, **of),
        {"condition": "x > 1"},
        [
            ({"condition": 3}, "`condition` must be a string, like .*; got int"),
            ({"condition": "x"}, "`x` must be a condition over booleans; got double"),
            ({"condition": "zz > 1"}, "names a column `zz`"),
        ],
    ),
    "earlier_values": (
        lambda **of: sf.earlier_values(DEVICES, **of),
        {"attributes": ["a"], "order": "time"},
        [
            ({"attributes": []}, "at least one"),
            ({"attributes": ["c"]}, "did you mean|not in the frame"),
            ({"attributes": "device"}, "must name numeric columns"),
            ({"attributes": "b"}, "already has a column `age_b`"),
            ({"order": "device"}, "must be a timestamp or a number"),
            ({"order": ["time"]}, "name of one column"),
            ({"order": "when"}, "`order` names a column"),
            ({"key": "devise"}, "did you mean `device`"),
            ({"key": "device", "order": "id", "forget_after": 0}, "above 0"),
            ({"key": "device", "forget_after": "never"}, "must be a duration"),
            ({"forget_after": 10}, "needs a `key`"),
            ({"name": "a-b"}, "letters, digits"),
        ],
    ),
    "resample": (
        lambda **of: sf.resample(DEVICES, **of),
        {"every": "1 minute", "order": "time", "columns": "a"},
        [
            ({"every": 60}, 'every="60 seconds"'),
            ({"every": "0 s"}, "`every` must be positive"),
            ({"order": "device"}, "must be a timestamp or whole microseconds"),
            ({"order": "when"}, "`order` names a column"),
            ({"key": "devise"}, "did you mean `device`"),
            ({"columns": "time"}, "`order`, `key`.* got time. Leave these columns out"),
            ({"columns": "c"}, "not in the frame"),
            ({"columns": "device", "fill": "mean"}, "must name numeric columns"),
            ({"fill": "next"}, "`fill` must be .*; got 'next'"),
            ({"fill": None, "limit": "1 s"}, "needs a `fill`"),
            ({"forget_after": "1 day"}, "needs a `key`"),
        ],
    ),
}  # fmt: skip
CASES = [
    pytest.param(call, right | wrong, message, id=f"{name} {' '.join(wrong)} {i}")
    for name, (call, right, cases) in FUNCTIONS.items()
    for i, (wrong, message) in enumerate(cases)
]


@pytest.mark.parametrize(("call", "arguments", "message"), CASES)
def test_wrong_arguments_are_named_before_anything_runs(call, arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call(**arguments)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_right_arguments_are_accepted(name):
    call, right, _ = FUNCTIONS[name]
    found = call(**right)
    assert getattr(found, "num_rows", 0) == 0


def of_windows(*sides):
    """Return an extent join by `k` of windows over two sides."""
    windows = (
        sf.window_aggregate(each, {"n": "count(*)"}, window=sf.Range("1 s"), order="ts", key="k")
        for each in sides
    )
    return sf.extent_join(*windows, key="k")


JOINS = {
    "pairs": lambda one, two: sf.similarity_join(one, two, key="k", **PAIRS | {"order": "ts"}),
    "as of": lambda one, two: sf.asof_join(one, two, order="ts", key="k"),
    "extents": of_windows,
}


@pytest.mark.parametrize("kind", [pa.string(), pa.int32(), pa.float64()])
@pytest.mark.parametrize("join", JOINS)
def test_keys_of_different_types_are_refused(join, kind):
    one, two = (empty(ts=STAMP, k=of, x=pa.float64()) for of in (pa.int64(), kind))
    with pytest.raises(TypeError, match=f"`k` is int64 on the left and `k` is {kind} on the right"):
        JOINS[join](one, two)
