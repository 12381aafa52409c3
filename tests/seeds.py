"""Seeds of tests that repeat one assertion over random cases."""

import pytest


def seeds(n, fast=1):
    """Seeds 0 to n - 1 for `parametrize`; all but the first `fast` are left to `make test`."""
    return [pytest.param(i, marks=pytest.mark.slow) if i >= fast else i for i in range(n)]
