"""Every operator keeps the laws of operators even in windows of hundreds of tuples.

With the few rows of `test_operator_laws`, a buffer never grows twice.
"""

from __future__ import annotations

import numpy as np
import pytest

from large_subjects import AT_SIZE
from operator_laws import any_split, restart_anywhere
from seeds import seeds


@pytest.mark.nightly
@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize("law", [any_split, restart_anywhere])
@pytest.mark.parametrize("name", AT_SIZE)
def test_operators_keep_their_laws_at_size(name, law, seed):
    subject, rows = AT_SIZE[name]
    law(subject, np.random.default_rng(seed), rows)
