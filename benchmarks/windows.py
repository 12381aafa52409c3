"""Uncertain count windows against C++ peers: the exact recursion RF1, and the refined normal law.

Every test of the exact peer recomputes the window's law (O(w w') a test), so it is timed on fewer
arrivals, from the same warm window. The refined normal peer keeps running sums (O(1) a test) and
changes some boundaries by a tuple or two; ours makes the exact peer's decisions, checked here.
"""

from __future__ import annotations

import ctypes

import numpy as np

from harness import in_turns, nanoseconds, row
from peers.build import load
from sfumato.engine_free import UncertainWindow

CONFIDENCE = 0.95
REPEATS = 7
# rows: arrivals of ours and of refined normal, arrivals of RF1, goal against RF1
SETTINGS = {100: (50_000, 5_000, 20), 1_000: (50_000, 200, 500), 5_000: (50_000, 8, 8_000)}
MOST_REFINED = 8  # ours may take this many times the time of refined normal
MOST_BYTES = 5_000_000

FLOATS = np.ctypeslib.ndpointer(np.float64, flags="C")
INTS = np.ctypeslib.ndpointer(np.int64, flags="C")


def existences(kind: str, n: int, seed: int) -> np.ndarray:
    """Existence of n tuples as in A, section 7.1: near 1 (sd 0.1), or uniform on [0, 1]."""
    rng = np.random.default_rng(seed)
    if kind == "uniform":
        return rng.random(n)
    return 1.0 - np.minimum(np.abs(rng.normal(0.0, 0.1, n)), 1.0)


def run() -> list[dict]:
    """One row a comparison: name, setting, ours, peer, ratio, goal, met."""
    rows = []
    for w in SETTINGS:
        for kind in ("near 1", "uniform"):
            rows += compare(w, kind)
    return rows


def compare(w: int, kind: str) -> list[dict]:
    many, few, goal = SETTINGS[w]
    warm = 4 * w
    existence = existences(kind, warm + many, seed=w)
    window = UncertainWindow(w, CONFIDENCE)
    first = int(window.extend(existence[:warm])[-1])
    peer, setting = Peers(w, existence, warm, first), f"w = {w:,}, existence {kind}"

    calls = {
        "ours": lambda copy: copy.extend(existence[warm:]),
        "rf1": lambda _: peer.rf1(few),
        "refined": lambda _: peer.refined_normal(),
    }
    seconds, found = in_turns(
        calls, REPEATS, prepare=lambda: UncertainWindow.restore(window.snapshot())
    )
    starts = found["ours"]
    np.testing.assert_array_equal(starts[:few], found["rf1"])
    near = np.abs(found["refined"] - starts).max() <= 3
    assert near, "the refined normal peer is not near the truth"
    mine, rf1, refined = seconds["ours"] / many, seconds["rf1"] / few, seconds["refined"] / many

    ours = nanoseconds(mine)
    result = [
        row("window / C++ RF1", setting, ours, nanoseconds(rf1), rf1 / mine, least=goal),
        row(
            "window, time of C++ refined normal",
            setting,
            ours,
            nanoseconds(refined),
            mine / refined,
            most=MOST_REFINED,
        ),
    ]
    if w == 5_000:
        memory, share = f"{window.nbytes / 1e6:.2f} MB", window.nbytes / MOST_BYTES
        result.append(row("window, memory", setting, memory, "5 MB", share, most=1))
    return result


class Peers:
    """The compiled peers on one stream, from a window that holds existence[first:warm]."""

    def __init__(self, w: int, existence: np.ndarray, warm: int, first: int) -> None:
        self.library = load("windows")
        size = ctypes.c_int64
        common = [FLOATS, size, size, ctypes.c_double]
        self.library.rf1_window.argtypes = [*common, size, size, INTS]
        self.library.refined_normal_window.argtypes = [*common, size, size, INTS]
        self.w, self.existence, self.warm, self.first = w, existence, warm, first

    def rf1(self, arrivals: int) -> np.ndarray:
        return self._call(self.library.rf1_window, arrivals)

    def refined_normal(self) -> np.ndarray:
        return self._call(self.library.refined_normal_window, self.existence.size - self.warm)

    def _call(self, function: ctypes._CFuncPtr, arrivals: int) -> np.ndarray:
        starts = np.empty(self.existence.size, dtype=np.int64)
        end = self.warm + arrivals
        function(self.existence, end, self.w, CONFIDENCE, self.first, self.warm, starts)
        return starts[self.warm : end]
