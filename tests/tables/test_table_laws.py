"""Every operator over tables keeps the laws of operators."""

from __future__ import annotations

import numpy as np
import pytest

from operator_laws import LAWS
from seeds import seeds
from table_subjects import TABLES


@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", TABLES)
def test_every_operator_over_tables_keeps_the_laws_of_operators(name, law, seed):
    subject = TABLES[name]
    if law in subject.gaps:
        pytest.skip(subject.gaps[law])
    LAWS[law](subject, np.random.default_rng(seed))
