"""Windows of many keys that are ranked in one call: the same bits as each window on its own."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ranked_tables import PLAIN, table
from seeds import examples
from sfumato.operators.ranking.semantics import Semantics
from sfumato.tables.ranking import key_windows
from sfumato.tables.ranking.table_top_k import TopKTableConfig
from sfumato.windows import Range, Rows

WINDOWS = [Range("8 us"), Range("60 us"), Rows(5), Rows(4, confidence=0.8, max_tuples=9)]


def arrivals(seed, n, heavy, late):
    """Rows of six keys, of which one comes seldom; rules of one name in several keys, which are too
    full where `heavy`; times that do not ascend where `late`."""
    rng = np.random.default_rng(seed)
    time = np.cumsum(rng.choice([0, 1, 2, 40], n, p=[0.3, 0.4, 0.28, 0.02])) + 5
    punctuation = np.maximum.accumulate(time - rng.integers(0, 9, n))
    rows = []
    for i in range(n):
        prob = rng.dirichlet(np.ones(3))[: int(rng.integers(1, 3))] * (0.9 if heavy else 0.1)
        behind = int(rng.integers(1, 12)) if rng.random() < late else 0
        rows.append(
            {
                "id": i,
                "key": f"s{min(int(rng.exponential(2)), 5)}",
                "time": int(time[i]) - behind,
                "score": rng.integers(0, 5, prob.size).astype(float).tolist(),
                "prob": prob.tolist(),
                "rule": f"r{rng.integers(0, 3)}" if rng.random() < 0.4 else None,
                "late": behind > 8,
                "punctuation": int(punctuation[i]),
            }
        )
    return rows


def alone(of):
    return np.zeros(len(of.windows), np.bool_), None


def found(config: TopKTableConfig, rows, cuts, restart):
    """Answers and a snapshot after each batch, and the counters."""
    operator, seen = config.make(), []
    for begin, end in pairwise([0, *sorted(cuts), len(rows)]):
        if begin < end:
            out = operator.process([(0, table(rows[begin:end]))], 0)
            seen += [[part.to_pylist() for part in out], operator.snapshot(), operator.gauges()]
        if restart:
            operator = config.restore(operator.snapshot())
    seen += [[part.to_pylist() for part in operator.flush()], operator.snapshot()]
    return seen, operator.counters()


@examples(60)
@given(
    st.integers(0, 10**6),
    st.sampled_from(WINDOWS),
    st.sampled_from([None, (), (0,)]),
    st.booleans(),
    st.sampled_from([0.0, 0.2]),
    st.booleans(),
    st.lists(st.integers(1, 79), max_size=3),
    st.booleans(),
)
def test_keys_ranked_together_are_those_ranked_alone(
    seed, window, scope, heavy, late, ascending, cuts, restart
):
    rows = arrivals(seed, 80, heavy, late)
    config = replace(PLAIN, window=window, scope=scope, ascending=ascending)
    together = found(config, rows, cuts, restart)
    known = key_windows.moved_together
    key_windows.moved_together = alone
    try:
        assert found(config, rows, cuts, restart) == together
    finally:
        key_windows.moved_together = known


def test_keys_are_ranked_together_but_those_that_cannot_be(monkeypatch):
    ways, known = [], key_windows.moved_together

    def noted(of):
        able, moved = known(of)
        ways.append(able.tolist())
        return able, moved

    monkeypatch.setattr(key_windows, "moved_together", noted)
    rows = arrivals(1, 40, False, 0.0)
    for row in rows:
        row["key"] = f"s{row['id'] % 4}"
        if row["key"] == "s2":
            row |= {"prob": [0.9], "score": [1.0], "rule": "r"}
    PLAIN.make().process([(0, table(rows))], 0)
    assert ways == [[True, True, False, True]]
    replace(PLAIN, semantics=Semantics("u_topk")).make().process([(0, table(rows))], 0)
    assert ways[1] == [False] * 4
