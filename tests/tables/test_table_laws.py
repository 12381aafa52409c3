"""Every operator over tables keeps the laws of operators."""

from __future__ import annotations

import numpy as np
import pytest

from operator_laws import LAWS
from table_subjects import TABLES


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", TABLES)
def test_every_operator_over_tables_keeps_the_laws_of_operators(name, law):
    subject = TABLES[name]
    if law in subject.gaps:
        pytest.skip(subject.gaps[law])
    for seed in range(2):
        LAWS[law](subject, np.random.default_rng(seed))
