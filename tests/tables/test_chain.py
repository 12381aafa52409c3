"""Operators that run as one: what they pass to each other, in addition to the laws of operators."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sfumato.operators.disorder.control import DisorderControl
from sfumato.operators.state.snapshot import SnapshotError
from sfumato.tables.disorder.table_reorder import ReorderTableConfig
from sfumato.tables.reading.chain import ChainConfig, ChainStep, Condition, Feed, Place
from table_subjects import OF_RELEASED, TABLES, riding, rows

CHAIN = TABLES["chain of a controller and a window"]
COLUMNS = ("id", "key", "event", "alternatives", "late", "punctuation")


def test_rows_released_by_an_idle_timeout_pass_through_later_steps():
    config = CHAIN.make().config
    first = replace(
        config.steps[0], config=replace(config.steps[0].config, idle_timeout=1_000_000), idles=True
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


def test_invalid_rows_of_a_step_are_counted_with_their_reasons():
    chain = CHAIN.make()
    given = rows(np.random.default_rng(2), 60)
    chain.begin()
    riding(chain, given, np.arange(60))
    chain.flush()
    wrong = int((given["table"].column("order0").to_numpy() % 7 == 0).sum())
    counts = chain.counters()
    assert counts["step1_side0_rows"] == counts["step0_rows"] == 60
    invalid = counts["step1_side0_invalid"]
    assert 0 < invalid <= wrong  # a late row need not be valid
    assert counts["step1_rows"] == 60 - invalid
    assert json.loads(chain.gauges()["step1_side0_reasons"]) == {"no alternatives": invalid}
    chain.begin()
    assert chain.gauges()["step1_side0_reasons"] is None


def test_reasons_are_counted_without_the_numbers_in_them():
    feed = Feed(0, OF_RELEASED, tuple((name, Place((name,))) for name in COLUMNS))
    chain = ChainConfig((ChainStep(CHAIN.make().config.steps[1].config, (feed,)),)).make()
    alternatives = [[{"prob": p, "x": 1.0}] * 2 for p in (0.6, 0.7, 0.8, 0.5)]
    columns = {
        "id": range(4),
        "key": ["a"] * 4,
        "event": range(4),
        "punctuation": pa.nulls(4, pa.int64()),
    }
    late = pa.array([False] * 4)
    chain.process([(0, pa.table(columns | {"late": late, "alternatives": alternatives}))], 0)
    reasons = json.loads(chain.gauges()["step0_side0_reasons"])
    assert reasons == {"the probabilities sum to more than 1": 3}


def test_a_batch_of_invalid_rows_is_not_processed():
    chain = CHAIN.make()
    chain.begin()
    assert not chain.has_processed_rows
    riding(chain, rows(np.random.default_rng(3), 5), np.arange(5))
    assert chain.has_processed_rows
    chain.begin()
    assert not chain.has_processed_rows


def test_answers_get_the_names_types_and_conditions_under_which_they_are_read():
    laws = pa.array([[{"prob": 0.5, "value": 2.0}], None, []], pa.list_(
        pa.struct([("prob", pa.float64()), ("value", pa.float64())])))  # fmt: skip
    total = pa.array([{"mean": 3.5}, {"mean": None}, {"mean": 5.0}])
    row = pa.array([{"c0": 1}, {"c0": 2}, {"c0": 3}])
    keys = pa.array(["a", "b", "c"])
    answers = pa.table({"key0": keys, "law": laws, "total": total, "row": row})
    named = pa.list_(pa.struct([("prob", pa.float64()), ("x", pa.float64())]))
    feed = Feed(
        0,
        None,
        (
            ("key", Place(("key0",))),
            ("alternatives", Place(("law",), kind=named)),
            ("n", Place(("total", "mean"), "int64")),
            ("id", Place(("c0",))),
        ),
        where=(Condition(("total", "mean"), "<=", 4.0),),
    )
    assert feed.table(answers).to_pylist() == [
        {"key": "a", "alternatives": [{"prob": 0.5, "x": 2.0}], "n": 3, "id": 1}
    ]
    assert feed.table(answers.slice(1)).num_rows == 0  # NULL is not below 4


def test_a_chain_refuses_a_snapshot_of_other_operators():
    chain = CHAIN.make()
    control = ReorderTableConfig(control=DisorderControl(slack=4), keys=1)
    alone = ChainConfig((ChainStep(control, (Feed(0),)),))
    with pytest.raises(SnapshotError, match="window aggregate"):
        alone.restore(chain.snapshot())
    assert chain.config.restore(chain.snapshot()).counters() == chain.counters()
