"""How the conformal experts are steered: thresholds priced by what was late, the one to follow.

See `conformal_delay` for what is meant by debt, price, clumps and experts.
"""

import math

from sfumato.kernels.compile import compiled
from sfumato.kernels.disorder.conformal_caution import look_for_mode
from sfumato.kernels.disorder.conformal_experts import (
    BEHIND_CLOCK,
    FORGETFUL,
    MEASURES,
    MOST,
    forget,
    rows_listed,
    tail_of,
)
from sfumato.kernels.disorder.conformal_tail import log_slope, priced, quantile
from sfumato.kernels.disorder.state import EXPERTS

STEP = 32  # rows from one steering to the next,
AIM = 0.98  # of the drop ratio: room for what comes late at the very end,
SHY, SHY_UNTIL = 0.1, 120.0  # and more of it before so many rows may have been late;
OWED, OWED_SHARE = 4.0, 0.03  # T
GENTLE = 0.06  # what may be owed in addition, as OWED_SHARE, by those that forget nothing;
LEGACY = 0.01  # by the expert followed, of what others were late
CLUMP_GAP = 0.1  # late rows farther apart, in rows times drop ratio, are of different clumps
CLUMP_GROWTH = 100.0  # expected late rows after which clumps count one more
RESERVE = 0.5  # of the largest clump: so many late rows are kept for the next one
CENTRE = 0.6  # c: late rows are kept about c T below d' n
UNSURE = 2.0  # expected late rows before slopes are trusted: until then plain quantiles
GAIN, SHY_GAIN = 1.5, 0.8  # from the debt to the log price, and more until SHY_UNTIL
SMOOTH = 200.0  # slopes are smoothed over so many rows times drop ratio
LEAST = 0.05  # the smallest share looked at, in drop ratios
MEMORY = 60.0  # of the comparison, in rows times drop ratio
LOYALTY = 0.95  # the expert followed stays unless another is cheaper by this factor
BEYOND = 3.0  # debt from which on thresholds lie beyond the largest lateness remembered,
FARTHER = 0.25  # by this share of it for each unit of debt,
AT_MOST = 0.5  # and at most by this share


@compiled
def threshold(e, debt, gain, d, key, area):
    """Expert e's threshold at a given debt x, in the units of its measure. O(list)."""
    values, _ = tail_of(e, key, area)
    size = key.listed[e]
    rows = rows_listed(e, d, key)
    if key.counted * d < UNSURE:
        share = AIM * d / (1.0 + debt**1.5) if debt > 0.0 else AIM * d * (1.0 + (-debt) ** 1.5)
        s = quantile(values, size, min(share, MOST * d) * rows)
    else:
        price = math.exp(min(key.slope_of[e] + gain * debt, 300.0))
        s = priced(values, size, rows, price, LEAST * d, MOST * d)
    if debt > BEYOND and size > 0:
        beyond = min(FARTHER * (debt - BEYOND), AT_MOST)
        s += beyond * max(values[0] - values[min(int(4.0 * MOST * d * rows), size - 1)], 0)
    # Clocks may be apart, so behind the clock s may be negative; elsewhere 0 releases everything.
    return s if e % MEASURES == BEHIND_CLOCK else max(s, 0.0)


@compiled
def learn_slope(e, d, key, area):
    """Follow the slope of expert e's tail. O(1)."""
    values, _ = tail_of(e, key, area)
    slope = log_slope(values, key.listed[e], rows_listed(e, d, key), d)
    weight = 1.0 if key.counted * d < UNSURE else STEP * d / SMOOTH
    key.slope_of[e] += weight * (slope - key.slope_of[e])


@compiled
def choose(d, allowed, owed, key):
    """Follow the expert whose rows wait least at the same drop ratio. O(1)."""
    best = math.inf
    chosen = key.chosen
    for e in range(EXPERTS):
        recent = (key.recent_late_of[e] + 1.0) / (AIM * d * key.recent_rows + 1.0)
        debt = (key.late_of[e] - allowed) / owed
        cost = (key.waited_of[e] + 1.0) * math.sqrt(max(recent, 0.5)) * max(debt, 1.0)
        if e == key.chosen:
            cost *= LOYALTY
        if cost < best:
            best = cost
            chosen = e
    key.chosen = chosen


@compiled
def fade_memory(d, key):
    """Let the past count less in the next comparison. O(1)."""
    fade = max(0.0, 1.0 - 4 * STEP * d / MEMORY)
    key.recent_rows *= fade
    for e in range(EXPERTS):
        key.waited_of[e] *= fade
        key.recent_late_of[e] *= fade


@compiled
def count_clumps(d, key):
    """Note whether the row just fed was late, and whether it began a clump of late rows. O(1)."""
    if key.late_fed == key.late_before:
        return
    key.late_before = key.late_fed
    if key.clumps == 0 or key.fed - key.last_late > CLUMP_GAP / d:
        key.clumps += 1
        key.clump = 0
    key.clump += 1
    key.largest_clump = max(key.largest_clump, key.clump)
    key.last_late = key.fed


@compiled
def steer(d, jolt, key, area):
    """New thresholds; every 4 STEP rows also: forget old lateness, choose whom to follow."""
    fed, expected = key.fed, d * key.counted
    clump = key.late_fed / key.clumps if key.clumps > 0 else 1.0
    owed = OWED * min(clump, 1.0 + expected / CLUMP_GROWTH) + OWED_SHARE * expected
    shy = 1.0 / (1.0 + (expected / SHY_UNTIL) ** 2)
    aim, gain = AIM - SHY * shy, GAIN + SHY_GAIN * shy
    allowed = aim * expected - max(CENTRE * owed, RESERVE * key.largest_clump)
    if fed % (4 * STEP) == 0:
        forget(d, key, area)
        look_for_mode(d, key, area)
        choose(d, allowed, owed, key)
        fade_memory(d, key)
    elif jolt:
        choose(d, allowed, owed, key)
    if jolt or fed % (4 * STEP) == 0:
        key.waited_then = key.waited_of[key.chosen]
    for e in range(EXPERTS):
        debt = (key.late_of[e] - allowed) / (owed + (GENTLE * expected if e >= FORGETFUL else 0.0))
        if fed % STEP == 0 or fed < 4 * STEP:
            learn_slope(e, d, key, area)
        key.threshold_of[e] = threshold(e, debt, gain, d, key, area)
        if e == key.chosen:
            debt += (key.late_fed - key.late_of[e]) / (owed + LEGACY * expected)
            key.followed = threshold(e, debt, gain, d, key, area)
    key.late_steered = key.late_fed
