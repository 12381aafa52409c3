"""Operators that run as one: what passes between them, beyond the laws of every operator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sfumato.operators.disorder.control import DisorderControl
from sfumato.operators.state.snapshot import SnapshotError
from sfumato.tables.chain import ChainConfig, ChainStep
from sfumato.tables.disorder.reorder import ReorderTableConfig
from sfumato.tables.link import Condition, Link, Taken
from table_subjects import TABLES, riding, rows

CHAIN = TABLES["chain of a controller and a window"]


def test_rows_that_an_idle_timeout_lets_out_pass_through_the_later_steps():
    config = CHAIN.make().config
    first = replace(
        config.steps[0], config=replace(config.steps[0].config, idle_timeout=1000), idles=True
    )
    chain = ChainConfig((first, *config.steps[1:])).make()
    given = rows(np.random.default_rng(1), 30)
    answered = len(riding(chain, given, np.arange(30)))
    held = chain.counters()["step0_held"]
    assert held > 0
    released = sum(table.num_rows for table in chain.idle(2000))
    took_part = chain.counters()["step1_rows"]
    assert chain.counters()["step0_held"] == 0
    assert answered + released == took_part - chain.counters()["step1_late"]


def test_links_count_the_rows_they_keep_back():
    chain = CHAIN.make()
    given = rows(np.random.default_rng(2), 60)
    riding(chain, given, np.arange(60))
    chain.flush()
    wrong = int((given["table"].column("order0").to_numpy() % 7 == 0).sum())
    counts = chain.counters()
    assert counts["step1_side0_rows"] == counts["step0_rows"] == 60
    assert 0 < counts["step1_side0_invalid"] <= wrong  # a late row need not be valid
    assert counts["step1_rows"] == 60 - counts["step1_side0_invalid"]


def test_columns_that_are_taken_get_their_names_types_and_conditions():
    laws = pa.array([[{"prob": 0.5, "value": 2.0}], None, []], pa.list_(
        pa.struct([("prob", pa.float64()), ("value", pa.float64())])))  # fmt: skip
    total = pa.array([{"mean": 3.0}, {"mean": None}, {"mean": 5.0}])
    answers = pa.table({"key0": pa.array(["a", "b", "c"]), "law": laws, "total": total})
    link = Link(
        0,
        "",
        {
            "key0": Taken(("key0",)),
            "alternatives": Taken(("law",)),
            "row.c0": Taken(("total", "mean"), "int64"),
        },
        (Condition(("total", "mean"), "<=", 3.0),),
        {"alternatives": ("prob", "x")},
    )
    assert link.rows(answers).to_pylist() == [
        {"key0": "a", "alternatives": [{"prob": 0.5, "x": 2.0}], "row": {"c0": 3}}
    ]
    assert link.rows(answers.slice(1)).num_rows == 0  # NULL is not below 3


def test_a_chain_opens_no_snapshot_of_other_operators():
    chain = CHAIN.make()
    alone = ChainConfig(
        (ChainStep(ReorderTableConfig(control=DisorderControl(slack=4), keys=1), (0,)),)
    )
    with pytest.raises(SnapshotError, match="window aggregate"):
        alone.restore(chain.snapshot())
    assert chain.config.restore(chain.snapshot()).counters() == chain.counters()
