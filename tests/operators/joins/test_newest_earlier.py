"""The newest earlier row: against possible worlds, and against pandas for certain rows."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.operators.joins.newest_earlier import NO_ROW, NewestEarlier
from sfumato.operators.state.snapshot import SavedState
from worlds import law_over, worlds


def saved_and_restored(operator):
    saved = SavedState()
    operator.save_state(saved)
    other = NewestEarlier(operator.within, operator.least)
    other.load_state(saved)
    return other


@st.composite
def rows_of_two_sides(draw):
    """Draw rows (asks, key, time, existence) in order, and the places of cuts."""
    n, time, rows = draw(st.integers(1, 12)), 0, []
    for _ in range(n):
        time += draw(st.integers(0, 3))
        existence = draw(st.sampled_from([0.0, 0.25, 0.5, 1.0]))
        rows.append((draw(st.booleans()), draw(st.integers(0, 1)), time, existence))
    return rows, draw(st.lists(st.integers(0, n), max_size=3))


def by_worlds(rows, place, within):
    """Return {number of a right row, or NO_ROW: Pr(it is the newest existing row)}."""
    _, key, now, _ = rows[place]
    number, candidates = 0, []
    for asks, of, time, existence in rows[:place]:
        if not asks:
            if of == key and (within is None or now - time <= within) and existence > 0:
                candidates.append((number, existence))
            number += 1
    groups = [[(p, name)] for name, p in candidates]
    law = law_over(worlds(groups), lambda there: there[-1] if there else NO_ROW)
    return {newest: float(chance) for newest, chance in law.items()}


@given(rows_of_two_sides(), st.sampled_from([None, 0, 4]), st.sampled_from([1e-9, 0.3, 1.0]))
def test_candidates_are_those_over_possible_worlds(case, within, least):
    rows, cuts = case
    operator, found = NewestEarlier(within, least), {}
    for begin, end in pairwise([0, *sorted(cuts), len(rows)]):
        asks, key, time, existence = map(np.array, zip(*rows, strict=True))
        part = slice(begin, end)
        given_rows = asks[part], key[part], time[part], existence[part].astype(float)
        answers = operator.process(*given_rows)
        assert (np.diff(answers.place) >= 0).all()
        for place, number, p in zip(*map(np.ndarray.tolist, answers), strict=True):
            found.setdefault(begin + place, {})[number] = p
        operator = saved_and_restored(operator)
    for place, (asks, *_) in enumerate(rows):
        if asks:
            law = by_worlds(rows, place, within)
            expected = {number: p for number, p in law.items() if p >= least}
            assert found.get(place, {}) == pytest.approx(expected, abs=1e-12)


def test_rows_are_held_only_while_they_may_be_the_newest():
    operator = NewestEarlier(None, 1e-9)
    n = 5_000
    ones, none = np.ones(n), np.zeros(n, bool)
    operator.process(none, np.arange(n) % 7, np.arange(n), ones)
    assert operator.held.number.tolist() == list(range(n - 7, n))
    operator.process(none, np.arange(n) % 7, np.arange(n), 0.5 * ones)
    assert 7 * 30 <= operator.held.number.size <= 7 * 33
    operator.forget(np.array([0, 1]))
    assert set(operator.held.key.tolist()) == {2, 3, 4, 5, 6}


@pytest.mark.parametrize("within", [None, "20 us"])
def test_certain_rows_are_those_of_pandas(within):
    rng = np.random.default_rng(1)
    left, right = (
        pd.DataFrame(
            {
                "ts": np.sort(rng.integers(0, 1000, 200)),
                "k": rng.integers(0, 5, 200),
                name: np.arange(200),
            }
        ).drop_duplicates(["ts", "k"])  # pandas orders simultaneous rows of a key differently
        for name in ("a", "b")
    )
    found = sf.asof_join(left, right, order="ts", key="k", within=within)
    got = [(row["left"]["a"], row["right"] and row["right"]["b"]) for _, row in found.iterrows()]
    expected = pd.merge_asof(left, right, on="ts", by="k", tolerance=20 if within else None)
    wanted = [
        (a, None if np.isnan(b) else int(b))
        for a, b in zip(expected["a"], expected["b"], strict=True)
    ]
    assert sorted(got) == sorted(wanted)
    assert any(b is None for _, b in got)


def test_the_probability_of_no_row_is_that_no_earlier_one_exists():
    left = pd.DataFrame({"ts": [5], "k": ["x"]})
    right = pd.DataFrame({"ts": [1, 3, 9], "k": ["x"] * 3, "existence": [0.5, 0.25, 1.0]})
    found = sf.asof_join(left, right, order="ts", key="k")
    probabilities = {
        row["right"] and row["right"]["ts"]: row["probability"] for _, row in found.iterrows()
    }
    assert probabilities == {3: 0.25, 1: 0.375, None: 0.375}
    inner = sf.asof_join(left, right, order="ts", key="k", how="inner", probability=0.3)
    assert [row["right"]["ts"] for _, row in inner.iterrows()] == [1]
    assert sf.ops.counters(found)["sfumato_asof_1"]["unmatched"] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"how": "full"}, "`how` must be"),
        ({"probability": 0.0}, "`probability`"),
        ({"within": "never"}, "`within`"),
        ({"order": "k"}, "`order"),
        ({"idle_timeout": "1 s"}, "`idle_timeout` needs punctuations on both sides"),
    ],
)
def test_wrong_arguments_are_refused(options, message):
    frame = pd.DataFrame({"ts": [5], "k": ["x"]})
    with pytest.raises((ValueError, TypeError), match=message):
        sf.asof_join(frame, frame, **{"order": "ts", **options})
