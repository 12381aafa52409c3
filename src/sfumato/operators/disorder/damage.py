"""What restored controllers must satisfy, so that kernels never leave their arrays."""

import numpy as np

from sfumato.kernels.disorder import state
from sfumato.kernels.disorder.conformal_experts import LARGEST_SAMPLE, list_place
from sfumato.kernels.disorder.normal_delay import LONGEST, SHORTEST
from sfumato.kernels.disorder.state import EXPERTS, Control


def check_controllers(states: np.ndarray, memory: np.ndarray, control: Control) -> None:
    """Raise ValueError for states whose places lie outside of their memory. O(controllers)."""
    _check("place", states["place"], 0, len(memory))
    _check("room", states["room"], 0, len(memory) - states["place"])
    _check("heap_place", states["heap_place"], 0, len(memory))
    _check("heap_room", states["heap_room"], 0, (len(memory) - states["heap_place"]) // 3)
    _check("held", states["held"], 0, states["heap_room"])
    _check("count", states["count"], 0, 1 << 60)
    _check("fed", states["fed"], 0, states["count"])
    if control.estimator == state.SLACK:
        _check("size", states["size"], 0, states["room"])
    elif control.estimator == state.NORMAL:
        fed = states["fed"] > 0
        ring = states["room"] // 2
        _check("size", states["size"], np.where(fed, 1, 0), ring)
        _check("head", states["head"], 0, np.maximum(ring - 1, 0))
        _check("limit", states["limit"], np.where(fed, SHORTEST, 0), LONGEST)
        _check("size", states["size"], 0, LONGEST)
    elif control.estimator == state.CONFORMAL:
        _check_conformal(states)


def _check_conformal(states: np.ndarray) -> None:
    level = states["level"]
    for one in np.unique(level).tolist():
        if one not in (0, *(1 << i for i in range(1, LARGEST_SAMPLE.bit_length()))):
            raise ValueError(f"no controller has room for {one} rows")
        mine = states[level == one]
        for e in range(EXPERTS):
            at, capacity = list_place(e, one)
            _check("room", mine["room"], at + 2 * capacity, None)
            _check("listed", mine["listed"][:, e], 0, capacity)
    known = np.where(level < LARGEST_SAMPLE, level - 1, states["fed"])
    _check("fed", states["fed"], 0, np.maximum(known, 0))
    _check("size", states["size"], 0, np.minimum(level, LARGEST_SAMPLE))
    _check("held_of", states["held_of"], 0, states["size"][:, None])
    _check("chosen", states["chosen"], 0, EXPERTS - 1)
    started = states["fed"] > 0
    for name in ("thinning", "stride"):
        _check(name, states[name], np.where(started, 1, 0), 1 << 40)
    _check("clumps", states["clumps"], 0, 1 << 60)


def _check(name: str, values: np.ndarray, low: object, high: object) -> None:
    if (values < low).any() or (high is not None and (values > high).any()):
        raise ValueError(f"`{name}` of a disorder controller is out of range")
