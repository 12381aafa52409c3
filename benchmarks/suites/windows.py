"""Uncertain count windows against C++ peers: the recursion RF1, and the refined normal.

Every test of the exact peer recomputes the window's distribution (O(w w') per test), so it is timed
on fewer arrivals, from the same warm window. The refined normal peer keeps running sums (O(1) per
test) and moves some boundaries by a tuple or two; ours decides exactly as the exact peer does,
which is checked here.
"""

import numpy as np

from benchmarks.data.streams import existences
from benchmarks.harness import Row, in_turns, nanoseconds, row
from benchmarks.peers.build import peer
from sfumato.engine_free import UncertainWindow

CONFIDENCE = 0.95
REPEATS = 7
# rows: arrivals for ours and refined normal, arrivals for RF1, goal against RF1
SETTINGS = {100: (50_000, 5_000, 20), 1_000: (50_000, 200, 500), 5_000: (50_000, 8, 8_000)}
QUICK = {"SETTINGS": {100: (5_000, 500, 20)}, "REPEATS": 1}
MOST_REFINED = 8  # our largest time as a multiple of refined normal's
MOST_BYTES = 5_000_000


def run() -> list[Row]:
    return [found for w in SETTINGS for kind in ("near 1", "uniform") for found in compare(w, kind)]


def compare(w: int, kind: str) -> list[Row]:
    many, few, goal = SETTINGS[w]
    warm = 4 * w
    existence = existences(kind, warm + many, seed=w)
    window = UncertainWindow(w, CONFIDENCE)
    first = int(window.extend(existence[:warm])[-1])
    starts = {name: np.empty(existence.size, np.int64) for name in ("rf1", "refined")}
    ends = {"rf1": warm + few, "refined": warm + many}
    peers = {
        name: peer(
            "windows", function, existence, ends[name], w, CONFIDENCE, first, warm, starts[name]
        )
        for name, function in (("rf1", "rf1_window"), ("refined", "refined_normal_window"))
    }
    calls = {
        "ours": lambda copy: copy.extend(existence[warm:]),
        **{name: lambda _, call=call: call() for name, call in peers.items()},
    }
    seconds, found = in_turns(
        calls, REPEATS, prepare=lambda: UncertainWindow.restore(window.snapshot())
    )
    np.testing.assert_array_equal(found["ours"][:few], starts["rf1"][warm : warm + few])
    near = np.abs(starts["refined"][warm:] - found["ours"]).max() <= 3
    assert near, "the refined normal peer is not near the truth"
    mine, rf1, refined = seconds["ours"] / many, seconds["rf1"] / few, seconds["refined"] / many

    setting, times = f"w = {w:,}, existence {kind}", [*map(nanoseconds, (mine, rf1, refined))]
    name = "window, time of C++ refined normal"
    result = [
        row("window / C++ RF1", setting, times[0], times[1], rf1 / mine, least=goal),
        row(name, setting, times[0], times[2], mine / refined, most=MOST_REFINED),
    ]
    if w == 5_000:
        memory, share = f"{window.nbytes / 1e6:.2f} MB", window.nbytes / MOST_BYTES
        result.append(row("window, memory", setting, memory, "5 MB", share, most=1))
    return result
