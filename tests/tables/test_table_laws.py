"""Every operator over tables keeps the laws of operators."""

import numpy as np
import pytest

from operator_laws import LAWS, any_order_within_a_call, any_split, restart_anywhere
from seeds import seeds
from table_subjects import OTHER_SETTINGS, TABLES


@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", TABLES | OTHER_SETTINGS)
def test_every_operator_over_tables_keeps_the_laws_of_operators(name, law, seed):
    subject = (TABLES | OTHER_SETTINGS)[name]
    if law in subject.gaps:
        pytest.skip(subject.gaps[law])
    LAWS[law](subject, np.random.default_rng(seed))


@pytest.mark.parametrize("seed", seeds(6, 2))
@pytest.mark.parametrize("name", TABLES)
def test_the_rows_of_a_call_may_be_in_any_order(name, seed):
    subject = TABLES[name]
    if "any_split" in subject.gaps:
        pytest.skip(subject.gaps["any_split"])
    if subject.released:
        assert any(subject.rows(np.random.default_rng(9), 80)["table"].column("late").to_pylist())
    any_order_within_a_call(subject, np.random.default_rng(100 + seed))


@pytest.mark.parametrize("name", TABLES)
def test_an_operator_without_rows_emits_nothing_at_the_end(name):
    """This occurs in a bucket whose keys are only in the other side of a join."""
    subject = TABLES[name]
    operator = subject.make()
    assert subject.finish(operator) == []
    again = subject.restore(operator, operator.snapshot())
    assert subject.finish(again) == []
    assert subject.counts(again) == subject.counts(subject.make())


# Operators whose row stores are often merged and gathered; other code is tested below the tables.
STORES = [
    "rows window that forgets", "extents", "reorder", "top-k", "similarity join", "self join",
    "chain of a controller and a window",
]  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize("law", [any_split, restart_anywhere])
@pytest.mark.parametrize("name", STORES)
def test_operators_over_tables_keep_their_laws_at_size(name, law):
    law(TABLES[name], np.random.default_rng(4), 500)
