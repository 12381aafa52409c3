"""Determinants of changes that an ordered search finds, and what it reports about them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.operators.imputation.discovery import NothingDiscovered
from sfumato.operators.imputation.stream_discovery import (
    MIN_CHANGES,
    _candidates,
    _ranked_scores,
    discover_changes,
)
from sfumato.operators.imputation.stream_imputer import past_changes
from tests.seeds import examples

GIVEN = {"attributes": ["x", "y", "z"], "order": "at", "key": "device"}


def readings(n=600, seed=0) -> pd.DataFrame:
    """Return readings of x, y and their product z, which neither x nor y predicts alone."""
    random = np.random.default_rng(seed)
    x, y = (random.normal(0, 1, n) for _ in range(2))
    rows = pd.DataFrame({"x": x, "y": y, "z": x * y}).mask(random.random((n, 3)) < 0.05)
    return rows.assign(at=np.arange(n), device=random.choice(["a", "b"], n))


def of_imputed(found, true, hidden):
    """Return the mean distance between expected and hidden values of z."""
    expected = [sum(one["prob"] * one["z"] for one in row) for row in found["alternatives"][hidden]]
    return np.abs(expected - true["z"][hidden]).mean()


def test_two_calls_discover_a_relation_of_three_attributes_and_impute_by_it():
    past, true = readings(1500), readings(300, seed=1).dropna(ignore_index=True)
    dependencies = sf.discover_dependencies(past, **GIVEN)
    of_z = [each for each in dependencies if each.dependent == "z"]
    assert of_z[0].names == ("age_z", "earlier_z", "value_x", "value_y")
    assert of_z[-1].names == ("age_z",)
    assert 0 < of_z[0].score < 0.5 * of_z[-1].score
    hidden = np.random.default_rng(2).random(len(true)) < 0.2
    rows = true.assign(z=true["z"].mask(hidden))
    by_default = sf.impute(rows, repository=past, **GIVEN)
    found = sf.impute(rows, repository=past, dependencies=dependencies, **GIVEN)
    assert of_imputed(found, true, hidden) < 0.7 * of_imputed(by_default, true, hidden)
    again = sf.impute(rows, repository=past, dependencies=[*map(str, dependencies)], **GIVEN)
    pd.testing.assert_frame_equal(found, again)


def test_the_order_of_a_past_does_not_matter():
    past = readings(400)
    found = sf.discover_dependencies(past, **GIVEN)
    again = sf.discover_dependencies(past.sample(frac=1, random_state=1), **GIVEN)
    assert found == again
    assert [each.score for each in found] == [each.score for each in again]


def test_candidates_are_the_age_and_earlier_value_with_changes_or_values_of_sets_of_others():
    own = {"age_z", "earlier_z"}
    sets = [set(each.names) for each in _candidates("z", ["x", "y"], (0, 1, 2))]
    assert sets == [
        {"age_z"},
        own,
        own | {"change_x"},
        own | {"value_x"},
        own | {"change_y"},
        own | {"value_y"},
        own | {"change_x", "change_y"},
        own | {"value_x", "value_y"},
    ]


@pytest.mark.parametrize("most", [1, 2])
def test_a_dependency_is_better_than_those_with_a_part_of_its_determinants(most):
    rows = readings().dropna()
    changes, _ = past_changes(
        np.zeros(len(rows), int), rows["at"].to_numpy(float), rows[["x", "y", "z"]].to_numpy()
    )
    found = discover_changes(changes, ["x", "y", "z"], dependents=["z"], max_determinants=most)
    assert {each.dependent for each in found} == {"z"}
    assert [each.score for each in found] == sorted(each.score for each in found)
    assert max(len(each.names) for each in found) <= 2 + most
    for one in found:
        for other in found:
            assert not (set(one.names) < set(other.names) and one.score <= other.score)


@examples(30)
@given(st.lists(st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 5)), max_size=5), max_size=5))
def test_scores_are_those_of_the_definition(distributions):
    offsets = np.cumsum([0, *map(len, distributions)])
    weights = [np.array([w for _, w in each], float) for each in distributions]
    prob = np.concatenate([*(each / each.sum() for each in weights if len(each)), []])
    values = np.array([v for each in distributions for v, _ in each], float)
    true = np.arange(len(distributions)) - 1.5
    right = []
    for i, y in enumerate(true):
        p, v = (of[offsets[i] : offsets[i + 1]] for of in (prob, values))
        right.append(p @ np.abs(v - y) - p @ np.abs(v[:, None] - v) @ p / 2)
    assert np.allclose(_ranked_scores(offsets, prob, values, true), right)


def test_too_short_a_past_is_warned_of():
    past = readings(MIN_CHANGES - 5)
    with pytest.warns(NothingDiscovered, match="no dependency found: .* of 75 rows"):
        assert sf.discover_dependencies(past, **GIVEN) == []


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"within": 0.2}, "`within` and `order` cannot be combined"),
        ({"scaling": {"x": (0, 1)}}, "`scaling` and `order` cannot be combined"),
        ({"order": None}, "`key` needs `order`"),
        ({"order": "x"}, "`order` must differ from the attributes"),
        ({"order": "text"}, "`order` must be a timestamp or a number; `text` is"),
        ({"attributes": [f"a{i}" for i in range(13)]}, "`attributes` must name at most 12"),
        ({"dependents": ["w"]}, "`dependents` must be columns of"),
        ({"max_determinants": 0}, "`max_determinants` must be"),
        ({"sample": 0}, "`sample` must be"),
    ],
)
def test_arguments_that_have_no_meaning_are_refused(how, said):
    past = readings(100).assign(**{f"a{i}": 1.0 for i in range(13)}, text="a")
    with pytest.raises((TypeError, ValueError), match=said):
        sf.discover_dependencies(past, **{**GIVEN, **how})


def test_columns_of_numbers_other_than_order_and_key_are_the_attributes():
    found = sf.discover_dependencies(readings(300), order="at", key="device")
    assert {each.dependent for each in found} == {"x", "y", "z"}
