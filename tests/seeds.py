"""Number of random cases per test: some in `make check` and `make test`, all in `make nightly`."""

import math

import pytest
from hypothesis import settings


def seeds(n, fast=1):
    """Seeds 0 to n - 1 for `parametrize`; all but the first `fast` are nightly."""
    return [pytest.param(i, marks=pytest.mark.nightly) if i >= fast else i for i in range(n)]


def examples(n):
    """Let Hypothesis draw n cases for a test, or the profile's share of n, but at least 5."""
    share = settings.default.max_examples / 100
    return settings(max_examples=max(math.ceil(n * share), min(n, 5)))


def nightly_except(cases, *kept):
    """Cases for `parametrize`; all but the kept ones are nightly."""
    return [
        case if case in kept else pytest.param(case, marks=pytest.mark.nightly) for case in cases
    ]
