"""Number of random cases per test: some in `make check` and `make test`, all in `make nightly`."""

import math

import pytest
from hypothesis import settings


def seeds(n, fast=1):
    """Return seeds 0 to n - 1 for `parametrize`; all but the first `fast` are nightly."""
    return [pytest.param(i, marks=pytest.mark.nightly) if i >= fast else i for i in range(n)]


def examples(n):
    """Let Hypothesis draw the profile's share of n cases for a test, but at least min(n, 5)."""
    share = settings.default.max_examples / 100
    return settings(max_examples=max(math.ceil(n * share), min(n, 5)))


def nightly_except(cases, *kept):
    """Return cases for `parametrize`; all but the kept cases are nightly."""
    return [
        case if case in kept else pytest.param(case, marks=pytest.mark.nightly) for case in cases
    ]
