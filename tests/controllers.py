"""Every kind of disorder controller, for tests that all of them must pass."""

from __future__ import annotations

import numpy as np
import pytest

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
