"""Declared state is restored as saved; values that do not fit the declaration are refused."""

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.operators.state.config import CHANGEABLE, as_json, differences, fingerprint, from_json
from sfumato.operators.state.declared import Array, Offsets, Optional, Part, Record, Value
from sfumato.operators.state.snapshot import SavedState, SnapshotError, pack, unpack
from sfumato.operators.state.stateful import Operator, Stateful
from sfumato.windows import Range


@dataclass(frozen=True)
class Window:
    rows: int
    confidence: float = 1.0


@dataclass(frozen=True)
class Config:
    width: int
    window: Window
    names: tuple[str, ...] = ()
    limit: float | None = None
    speed: int = field(default=1, metadata=CHANGEABLE)


class Law(NamedTuple):
    prob: Annotated[np.ndarray, Array(float, "alternatives")]
    value: Annotated[np.ndarray, Array(float, "alternatives", "width")]


class Held(Stateful):
    state = {"numbers": Array(int, "held", low=0), "newest": Value(int, none=True)}

    def __init__(self):
        self.numbers, self.newest = np.empty(0, np.int64), None


class Example(Operator):
    kind, version = "example", 3
    config: Config
    state = {
        "offsets": Offsets("tuples", "alternatives"),
        "law": Record(Law),
        "held": Part(),
        "spare": Optional(Part("group")),
        "total": Value(float),
    }

    def __init__(self, width, window, names=(), limit=None, speed=1):
        self.config = Config(width, window, names, limit, speed)
        self.offsets = np.zeros(1, np.int64)
        self.law = Law(np.empty(0), np.empty((0, width)))
        self.held, self.spare, self.total = Held(), None, 0.0

    def group(self):
        return Held()

    def after_loading(self):
        if self.held.numbers.size > 5:
            raise ValueError("more is held than can be")


def held(numbers):
    made = Held()
    made.numbers = np.array(numbers, np.int64)
    made.newest = max(numbers, default=None)
    return made


numbers = st.lists(st.integers(0, 2**40), max_size=5)


@st.composite
def examples(draw):
    made = Example(2, Window(3, 0.5), ("a", "b.c"), draw(st.sampled_from([None, 1.5])))
    lengths = draw(st.lists(st.integers(0, 3), max_size=4))
    made.offsets = np.cumsum([0, *lengths]).astype(np.int64)
    made.law = Law(np.full(sum(lengths), 0.25), np.full((sum(lengths), 2), np.nan))
    made.held = held(draw(numbers))
    made.spare = draw(st.sampled_from([None, held([7])]))
    made.total = draw(st.floats(allow_nan=False))
    return made


def contents(made):
    return [
        made.config, made.offsets.tolist(), made.law.prob.tolist(), made.law.value.shape,
        made.held.numbers.tolist(), made.held.newest, made.total,
        made.spare and made.spare.numbers.tolist(),
    ]  # fmt: skip


@given(examples())
def test_snapshot_and_restore_follow_from_the_declarations(made):
    back = Example.restore(made.snapshot())
    assert contents(back) == contents(made)
    assert back.offsets.flags.writeable
    assert back.law.value.flags.c_contiguous
    assert back.snapshot() == made.snapshot()


def changed(data, change):
    snapshot = unpack(data, "example", 3)
    values = json.loads(json.dumps(dict(snapshot.values)))
    arrays = dict(snapshot.arrays)
    change(values, arrays)
    return pack("example", 3, SavedState(values, arrays))


def example():
    made = Example(2, Window(3))
    made.offsets = np.array([0, 1, 3])
    made.law = Law(np.full(3, 0.5), np.zeros((3, 2)))
    return made.snapshot()


DAMAGES = {
    "must be float64": lambda v, a: a.update({"law.prob": np.zeros(3, np.float32)}),
    "must have length 3": lambda v, a: a.update({"law.prob": np.zeros(4)}),
    "must have length 2": lambda v, a: a.update({"law.value": np.zeros((3, 1))}),
    "not decrease": lambda v, a: a.update({"offsets": np.array([0, 4, 3])}),
    "must have length 4": lambda v, a: a.update({"offsets": np.array([0, 1, 3])} | {
        "law.prob": np.zeros(4)}) or a.update({"offsets": np.array([0, 4])}),
    "has no array": lambda v, a: a.pop("held.numbers"),
    "has no value": lambda v, a: v["state"].pop("total"),
    "unknown parts": lambda v, a: a.update({"more": np.zeros(1)}),
    "at least 0": lambda v, a: a.update({"held.numbers": np.array([-1])}),
    "more is held": lambda v, a: a.update({"held.numbers": np.arange(6)}),
    "must be Value": lambda v, a: v["state"].update({"held.newest": "1"}),
    "cannot be 'wide'": lambda v, a: v["config"].update({"width": "wide"}),
    "settings for Config are missing: window": lambda v, a: v["config"].pop("window"),
    "has no state": lambda v, a: v.pop("state"),
}  # fmt: skip


@pytest.mark.parametrize("said", DAMAGES)
def test_what_does_not_fit_the_declaration_is_refused(said):
    with pytest.raises(SnapshotError, match=said):
        Example.restore(changed(example(), DAMAGES[said]))


def test_a_config_goes_through_json_and_back():
    config = Config(2, Window(3, 0.5), ("a",), 2.0, 7)
    assert from_json(Config, json.loads(json.dumps(as_json(config)))) == config


def test_a_duration_goes_through_json_as_text():
    config = Range(timedelta(minutes=5), slide=timedelta(seconds=1))
    again = from_json(Range, json.loads(json.dumps(as_json(config))))
    assert (again.length_us, again.slide_us) == (config.length_us, config.slide_us)


def test_fingerprints_say_what_differs_and_leave_out_what_may_change():
    before = fingerprint("example", Config(2, Window(3), ("a",)))
    assert before == fingerprint("example", Config(2, Window(3), ("a",), speed=9))
    now = fingerprint("example", Config(2, Window(4), ("a", "b")))
    assert differences(before, now) == ("`names` was a and is [a, b]; `rows` was 3 and is 4")
    slower = '{"operator": "example", "control": {"max_delay": 90000000, "slack": null}}'
    faster = '{"operator": "example", "control": {"max_delay": 300000000, "slack": 1000}}'
    assert differences(slower, faster) == (
        "`max_delay` was 90 s and is 5 min; `slack` was None and is 1000"
    )
    other = fingerprint("other", Config(2, Window(4)))
    assert "written by example, but this query has other" in differences(before, other)
    then = '{"operator": "reorder table then extents"}'
    now = '{"operator": "reorder table then earlier values"}'
    assert differences(then, now).startswith(
        "the checkpoint was written by sf.reorder then sf.window_aggregate, but this query has "
        "sf.reorder then sf.earlier_values"
    )
    window = '{"operator": "window aggregate"}'
    assert "written by window aggregate, but this query has extents" in differences(
        window, '{"operator": "extents"}'
    )


def chain_of(key, aggregates, values, **more):
    columns = {"input": {"key": key, "order": ["ts"]}, "keys": len(key)}
    window = {"results": aggregates, "kinds": ["number"] * len(aggregates), "scope": [], **more}
    steps = {
        "step 0": {"operator": "reorder table", **columns},
        "step 1": {"operator": "extents", **columns, **window},
    }
    steps["step 1"]["input"] = {**columns["input"], "values": values}
    return json.dumps({"operator": "reorder table then extents", **steps})


def test_differences_between_chains_name_arguments_and_functions():
    aggregates = [["result0", "avg", 0, None], ["result1", "quantile", 1, 0.5]]
    before = chain_of(["k"], aggregates[:1], ["x"])
    now = chain_of(["k"], [["result0", "max", 0, None]], ["x"])
    assert differences(before, now) == "`aggregates` was avg(x) and is max(x)"
    now = chain_of(["k"], [*aggregates, ["result2", "count", None, None]], ["x", "y + 1"])
    assert differences(before, now) == (
        "`aggregates` was avg(x) and is [avg(x), quantile(y + 1, 0.5), count(*)]"
    )
    assert differences(before, chain_of([], aggregates[:1], ["x"])) == (
        "`key` of sf.reorder was k and is None; `key` of sf.window_aggregate was k and is None"
    )
    now = chain_of(["k"], aggregates[:1], ["x"], scope=[0])
    assert differences(before, now) == "`scope` was None and is [0]"


def test_differences_between_the_frames_of_a_join_name_the_frame():
    before, now = (
        json.dumps({"operator": "similarity join table", "left": of, "right": of})
        for of in ({"key": ["k"]}, {"key": ["k", "room"]})
    )
    assert differences(before, now) == (
        "`key` of the left frame of sf.similarity_join was k and is [k, room]; "
        "`key` of the right frame of sf.similarity_join was k and is [k, room]"
    )


def test_bytes_are_those_of_all_arrays():
    class Plain(Stateful):
        def __init__(self):
            self.many = dict.fromkeys(range(5))
            self.numbers = np.zeros(7)

    class Whole(Stateful):
        def __init__(self, *parts):
            self.parts, self.own = list(parts), np.zeros(2, np.int32)

    assert Whole().nbytes == 8
    assert Whole(Plain(), Plain()).nbytes == 8 + 2 * 56
