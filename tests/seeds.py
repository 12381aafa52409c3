"""How many random cases a test takes: some in `make check`, all in `make test`."""

import math

import pytest
from hypothesis import settings


def seeds(n, fast=1):
    """Seeds 0 to n - 1 for `parametrize`; all but the first `fast` are left to `make test`."""
    return [pytest.param(i, marks=pytest.mark.slow) if i >= fast else i for i in range(n)]


def examples(n):
    """Hypothesis draws n cases for a test; under the profile "daily" its share, and at least 5."""
    share = settings.default.max_examples / 100
    return settings(max_examples=max(math.ceil(n * share), min(n, 5)))
