"""Tables of uncertain rows to be ranked by key, and a configuration for them."""

import pyarrow as pa

from sfumato.operators.ranking.semantics import Semantics
from sfumato.tables.ranking.table_top_k import TopKTableConfig
from sfumato.windows import Range

QUERIES = (("quick", 1, 4), ("wide", 3, 10))
PLAIN = TopKTableConfig(
    queries=QUERIES,
    window=Range("8 us"),
    semantics=Semantics("pk_topk"),
    plan="dp",
    ascending=False,
    rules=True,
    streams=False,
    keys=1,
    scope=None,
    time="long",
)


def table(rows):
    """Return dicts as rows: id, key, time, score, prob (lists), rule; maybe late, punctuation."""
    columns = {
        "row": pa.array([{"id": r["id"]} for r in rows], pa.struct([("id", pa.int64())])),
        "prob": pa.array([r["prob"] for r in rows], pa.list_(pa.float64())),
        "value0": pa.array([r["score"] for r in rows], pa.list_(pa.float64())),
        "order0": pa.array([r["time"] for r in rows], pa.int64()),
        "key0": pa.array([r["key"] for r in rows], pa.string()),
        "rule": pa.array([r["rule"] for r in rows], pa.string()),
        "stream": pa.array([r["key"] for r in rows], pa.string()),
        "__tie": pa.array([r["id"] for r in rows], pa.int64()),
        "late": pa.array([r.get("late", False) for r in rows], pa.bool_()),
        "punctuation": pa.array([r.get("punctuation") for r in rows], pa.int64()),
    }
    return pa.table(columns)
