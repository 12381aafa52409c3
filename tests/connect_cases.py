"""Every public function once over frames, for a Spark Connect client and for a pipeline.

A case returns a frame computed from the frames `f.rows` and `f.others` and the repository
`f.complete`, all with the columns ROWS.
"""

from pyspark.sql import functions as F  # noqa: N812

import sfumato as sf

ROWS = "id long, event timestamp, arrival timestamp, x double, y double, k long"
WINDOW = {"window": "50 us", "order": "event"}
PAIRS = {"on": "x", "within": 0.5, "probability": 0.5}
COUNTED = {"window": sf.Rows(10), "order": "id"}
IMPUTED = {"dependencies": "x -> y : 0 -> 0.1", "method": "plain"}


def uncertain(rows):
    return rows.select(
        "id", "event", "arrival", "k", sf.samples("x", 0.1, 4, attributes="x").alias("alternatives")
    )


def drawn(rows):
    return sf.draw_worlds(uncertain(rows), 5, source="rows", id="id")


def half_unknown(rows):
    known = F.when(F.col("k") > 1, F.col("alternatives"))
    return uncertain(rows).withColumn("alternatives", known)


def ordered(rows):
    return sf.reorder(rows, event_time="event", arrival="arrival", slack=3)


def extents(rows):
    return sf.window_aggregate(ordered(rows), {"mean": "avg(x)"}, **WINDOW)


CASES = {
    "alternatives": lambda f: f.rows.select(sf.alternatives(F.array("x"), F.array(F.lit(0.5)))),
    "samples": lambda f: f.rows.select(sf.samples("x", 0.1, 3, attributes="x").alias("a")),
    "between": lambda f: f.rows.select(sf.between("x", F.col("x") + 1, 3)),
    "below": lambda f: f.rows.select(sf.below("x", 0.5, 3, "x")),
    "above": lambda f: f.rows.select(sf.above("x", "y", 3)),
    "circular": lambda f: f.rows.select(sf.circular("x", 0.5, 3, period=24)),
    "existence": lambda f: uncertain(f.rows).select("id", sf.existence()),
    "expected": lambda f: uncertain(f.rows).select("id", sf.expected("x")),
    "stddev": lambda f: uncertain(f.rows).select("id", sf.stddev("x")),
    "quantile": lambda f: uncertain(f.rows).select("id", sf.quantile("x", 0.5)),
    "where": lambda f: sf.where(uncertain(f.rows), "x > 2"),
    "prune": lambda f: sf.prune(uncertain(f.rows), min_prob=0.1, top=2, normalize=True),
    "fuse": lambda f: sf.fuse(
        uncertain(f.rows).withColumn("other", F.slice("alternatives", 2, 3)),
        ["alternatives", "other"],
    ),
    "checked": lambda f: sf.ops.checked(uncertain(f.rows)),
    "rejected": lambda f: sf.ops.rejected(half_unknown(f.rows)),
    "split_invalid": lambda f: sf.split_invalid(half_unknown(f.rows))[1],
    "reorder": lambda f: ordered(f.rows),
    "split_late": lambda f: sf.split_late(ordered(f.rows))[0],
    "window_aggregate": lambda f: extents(f.rows),
    "newest_revisions": lambda f: sf.ops.newest_revisions(
        sf.window_aggregate(f.rows, {"mean": "avg(x)"}, early="1 us", **WINDOW)
    ),
    "split_missed": lambda f: sf.split_missed(
        sf.window_aggregate(ordered(f.rows), {"mean": "avg(x)"}, missed=True, **WINDOW)
    )[0],
    "resample": lambda f: sf.resample(
        ordered(f.rows), every="5 us", order="event", key="k", columns=["x", "y"]
    ),
    "extent_join": lambda f: sf.extent_join(extents(f.rows), extents(f.others)),
    "similarity_join": lambda f: sf.similarity_join(
        uncertain(f.rows), uncertain(f.others), **PAIRS, **COUNTED
    ),
    "asof_join": lambda f: sf.asof_join(
        ordered(f.rows), ordered(f.others), order="event", key="k"
    ),
    "self_join": lambda f: sf.self_join(uncertain(f.rows), **PAIRS, **COUNTED),
    "neighbours": lambda f: sf.neighbours(uncertain(f.rows), on="x", within=0.1, **COUNTED),
    "join_streams": lambda f: sf.join_streams(
        {"a": uncertain(f.rows), "b": uncertain(f.others)}, **PAIRS, **COUNTED
    ),
    "top_k": lambda f: sf.top_k(
        uncertain(f.rows), [sf.Top(2, every="100 us")], by="x", window="100 us", order="event"
    ),
    "earlier_values": lambda f: sf.earlier_values(f.rows, "y", order="id"),
    "impute": lambda f: sf.impute(f.rows, attributes="y", repository=f.complete, **IMPUTED),
    "Imputation": lambda f: sf.similarity_join(
        f.rows, f.others, on="y", within=0.1, probability=0.9, **COUNTED,
        impute=sf.Imputation(f.complete, attributes="y", **IMPUTED),
    ),
    "draw_worlds": lambda f: drawn(f.rows),
    "merge_worlds": lambda f: sf.merge_worlds(drawn(f.rows), key="id", columns="x"),
    "union": lambda f: sf.union(uncertain(f.rows), uncertain(f.rows)),
    "assume_independent": lambda f: sf.assume_independent(
        sf.self_join(uncertain(f.rows), **PAIRS, **COUNTED)
    ),
    "sql": lambda f: sf.sql(
        f.spark,
        "SELECT id, AVG(x) AS mean, z FROM (SELECT *, k + 1 AS z FROM r WHERE id > 2) "
        "[ROWS 5 ORDER id]",
        r=f.rows,
    ),
}  # fmt: skip
STATIC = {"merge_worlds", "newest_revisions"}  # refused over streams
