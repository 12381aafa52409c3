"""Every kind of disorder controller, and rows released in parts."""

from itertools import pairwise

import numpy as np
import pytest

from sfumato.operators.disorder.reorder import Reorder

NEVER = np.iinfo(np.int64).min
SECOND = 1_000_000
START = 1_700_000_000 * SECOND
CONTROLS = {
    "slack": {"slack": 7},
    "normal": {"drop_ratio": 0.01, "estimator": "normal"},
    "normal, floor": {"drop_ratio": 0.05, "estimator": "normal", "rounding": "floor"},
    "conformal": {"drop_ratio": 0.02, "estimator": "conformal"},
    "max": {"estimator": "max"},
    "fixed": {"max_delay": 100_000},
    "averaged max": {"estimator": "max", "averaged": True},
    "slack, bounded": {"slack": 9, "max_buffer": 5},
    "normal, bounded": {"drop_ratio": 0.01, "estimator": "normal", "max_buffer": 12},
    "conformal, bounded": {"drop_ratio": 0.02, "estimator": "conformal", "max_buffer": 12},
    "max, bounded": {"estimator": "max", "max_buffer": 3},
}
every_control = pytest.mark.parametrize("control", CONTROLS.values(), ids=CONTROLS.keys())


def release_in_parts(reorder, columns, cuts, restore=False):
    """Return a reorder and its released rows, for (keys, event_time, ...) cut at some places.

    restore : restore it before each part; further calls of the saved one must not change it
    """
    n = len(columns[0])
    parts = []
    for low, high in pairwise(sorted({0, n, *(cut for cut in cuts if cut <= n)})):
        part = [column[low:high] for column in columns]
        if restore:
            dying, reorder = reorder, Reorder.restore(reorder.snapshot())
            dying.process(*part)
        parts.append(reorder.process(*part))
    return reorder, parts
