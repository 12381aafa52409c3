"""Early answers of time extents: aggregates of the rows so far, and intervals for final answers.

Rows arrive in order of release, each with its scope's punctuation. The first row in order whose
punctuation reaches the next multiple of `early` is a tick. A tick emits a revision of each open
extent whose rows have changed since its last revision. The revision includes the rows that arrived
before the punctuation, so it does not depend on how rows are divided into calls.

The stage of a revision is the distance of the extent's end from the punctuation, in units of
`early`; the last stages are octaves. For each scope, stage and aggregate, two quantiles of the
scores (final - predicted) / unit are tracked. The unit is the mean change of the group's final
answer from one extent to the next. Predictions from c rows:

    count    t = c + (1 - share) * usual    share : mean c / final count at this stage
    sum      s * t / c                      usual : mean final count of the group
    avg, min, max    the partial answer, which bounds the final minimum and maximum

For uncertain rows, c and t are still numbers of rows. Answers and intervals refer to expected
values, computed from the partials of `mergeable_moments` and `early_extremes`. The expected minimum
and maximum, given a value, may rise or fall, so they are predicted like averages.

A stage's first interval is the range of its first scores. With 2 / (1 - level) - 1 scores, each end
is missed with probability (1 - level) / 2 if scores are exchangeable. After that, a quantile
moves outwards when it is missed and inwards otherwise, in the ratio that keeps its long-run share
of misses for any scores. The scores of one extent of several groups are sorted, so their order is
irrelevant.

A final answer corrects a quantile late, because intervals of the next extents have already been
emitted. Therefore each emitted interval is kept. The excess of its misses over the misses that its
level allows is summed, per stage and over all stages. Both sums move the ends:

    end = predicted + unit * (quantile +- deviation * (STAGE_GAIN * excess + TOTAL_GAIN * total))

An extent adds its share of missed groups to the excess, so that many groups that miss together do
not move an end further than a single group.

Source: the quantile tracker and the error integrator of conformal PID control, Angelopoulos, Candes
& Tibshirani (2023).
"""

import math
from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers, stable_order, with_room
from sfumato.kernels.compile import compiled, compiled_ieee, inlined, lean
from sfumato.kernels.distributions.mergeable_moments import (
    MomentPartials,
    add_tuple,
    clear_set,
    measure,
    with_sets,
)
from sfumato.kernels.windows.early_extremes import (
    Extremes,
    add_to_extremes,
    clear_extremes,
    extreme_moments,
    with_extremes,
)
from sfumato.kernels.windows.extents import NO_EXTENT, NO_INDEX

EARLY_COUNT, EARLY_SUM, EARLY_AVG, EARLY_MIN, EARLY_MAX = range(5)
# Places of a final answer relative to its interval.
SIDE_UNKNOWN, SIDE_WITHIN, SIDE_BELOW, SIDE_ABOVE = range(4)
QUANTILE_STEP = 0.3  # step of a quantile per score, in mean deviations of the scores
LEAST_WEIGHT = 0.05  # minimum weight of a new number in a running mean
STAGE_GAIN, TOTAL_GAIN = 0.1, 0.05  # mean deviations per excess miss of a stage, and of all
MAX_SHIFT = 3.0  # maximum shift of an end by excess misses, in mean deviations
# Final answers before a group's mean change is used; more if more extents are open.
MIN_COMPLETED = 8
MAX_GAP_EXTENTS = 64  # extents without a row after which a group is treated as new

# Largest punctuation of a row in order, and the two previous ones; its multiple of `early`; the
# first entry that is changed.
EARLY_SCOPE = integers("reached before earlier tick changed")
# first : first open extent; completed, open : numbers of extents; latest : the last extent that was
#   opened or completed
EARLY_GROUP = integers("scope first completed latest open")
# An open extent of a group; the group's next one, the scope's next changed one; 1 if it is changed;
# numbers of revisions and of rows so far; first prediction.
OPEN_EXTENT = integers("group extent following next_changed changed revision held prediction")
# A prediction to be scored: its stage, the number of rows then, and its entry's next prediction.
PREDICTION = integers("stage held following")
EXTENT_POOL = integers("entries free_entry predictions free_prediction")
REVISION = integers("group extent revision held punctuation")
FINAL_ANSWER = integers("scope group extent punctuation")  # by scope, punctuation and extent
CELL_SIZE = 4  # floats per entry and attribute of certain rows: count, sum, minimum, maximum
REVISION_SIZE = 5  # floats per revision and aggregate: mean, low and high end, deviation, existence
# Floats per tracked score: number of scores, lower and upper quantile, mean, mean deviation, excess
# of misses below and above.
TRACK_SIZE = 7
PREDICTION_SIZE = 4  # floats per prediction and aggregate: prediction, unit, low and high end
USUAL_SIZE = 2  # floats per group and aggregate: the last final answer, and its mean change


class EarlyGrid(NamedTuple):
    """Lengths of extent, slide and revision interval in microseconds; numbers of linear and of all
    stages; level of the intervals.

    min_scores : int, number of scores whose range has the level
    """

    length: int
    slide: int
    early: int
    linear: int
    stages: int
    level: float
    min_scores: int


class EarlyAggregates(NamedTuple):
    """The r predicted aggregates; the first is the count of rows.

    what : int64[r], EARLY_COUNT, EARLY_SUM, EARLY_AVG, EARLY_MIN or EARLY_MAX
    source : int64[r], the attribute; for uncertain rows, the channel or the extreme; NO_INDEX for
        the count
    measure : int64[r], a measure of `mergeable_moments`, NO_INDEX for an extreme; empty for certain
        rows
    has_uncertain : bool, whether averaged values may be missing
    """

    what: np.ndarray
    source: np.ndarray
    measure: np.ndarray
    has_uncertain: bool


class EarlyRows(NamedTuple):
    """Rows in order of release.

    moves : bool[n], whether a row is in order, so that its punctuation advances its scope
    arrives : bool[n], whether a row has just arrived, so that partial answers now include it
    offsets, prob, values : int64[n + 1], float64[k], float64[attributes, k], the alternatives; a
        certain row has one, with NaN for NULL
    scratch : room for the alternatives of a row, see `add_to_extremes`
    tuple_moments : float64[channels, 3, n], see `tuple_moments`; without channels for certain rows
    """

    group: np.ndarray
    scope: np.ndarray
    time: np.ndarray
    punctuation: np.ndarray
    moves: np.ndarray
    arrives: np.ndarray
    offsets: np.ndarray
    prob: np.ndarray
    values: np.ndarray
    scratch: np.ndarray
    tuple_moments: np.ndarray


class EarlyState(NamedTuple):
    """Open extents, their predictions, and statistics of completed extents.

    cells : float64[entries * attributes * CELL_SIZE], of certain rows
    sets, extremes : partials by entry, of uncertain rows
    predicted : float64[predictions * r * PREDICTION_SIZE]
    usual : float64[groups * r * USUAL_SIZE]
    tracks : float64[scopes * (stages + 1) * (r + 1) * TRACK_SIZE]; the last aggregate is the share,
        and the last stage has the excess over all stages
    """

    pool: np.ndarray
    scopes: np.ndarray
    groups: np.ndarray
    entries: np.ndarray
    cells: np.ndarray
    sets: MomentPartials
    extremes: Extremes
    predictions: np.ndarray
    predicted: np.ndarray
    usual: np.ndarray
    tracks: np.ndarray


@lean
def _drop_entry(e, s):
    """Free an entry that is in no list, its predictions and the steps of its extremes."""
    clear_extremes(e, s.extremes)
    pool, p = s.pool[0], s.entries[e].prediction
    while p != NO_INDEX:
        following = s.predictions[p].following
        s.predictions[p].following, pool.free_prediction = pool.free_prediction, p
        p = following
    s.entries[e].group, s.entries[e].prediction = NO_INDEX, NO_INDEX
    s.entries[e].following, pool.free_entry = pool.free_entry, e


@inlined
def _find_entry(g, extent, earlier, slide, s):
    """Return a group's entry of an extent, or NO_INDEX.

    Entries without rows are freed if their extents were complete two punctuations ago.
    """
    above, e = NO_INDEX, s.groups[g].first
    while e != NO_INDEX:
        entry, following = s.entries[e], s.entries[e].following
        if entry.extent == extent:
            return e
        if entry.extent * slide - 1 <= earlier and entry.changed == 0:
            if above == NO_INDEX:
                s.groups[g].first = following
            else:
                s.entries[above].following = following
            s.groups[g].open -= 1
            _drop_entry(e, s)
        else:
            above = e
        e = following
    return NO_INDEX


@lean
def _note_extent(g, extent, s):
    """Record that a group has an extent; after a long gap, reset the group's statistics."""
    group, many = s.groups[g], s.usual.size // s.groups.size
    if extent > group.latest + MAX_GAP_EXTENTS:
        group.completed = 0
        s.usual[g * many : (g + 1) * many] = np.nan
    group.latest = max(group.latest, extent)


@inlined
def _with_entries(more, steps, attributes, has_uncertain, s):
    """Return the state with room for `more` entries and for `steps` more steps of extremes."""
    entries = with_room(s.entries, s.pool[0].entries + more)
    cells = with_room(s.cells, entries.size * attributes * CELL_SIZE)
    return EarlyState(
        s.pool, s.scopes, s.groups, entries, cells, with_sets(s.sets, entries.size, has_uncertain),
        with_extremes(s.extremes, entries.size, steps), s.predictions, s.predicted, s.usual,
        s.tracks,
    )  # fmt: skip


@inlined
def _new_entry(g, extent, attributes, s):
    """Return a new entry of a group; there must be room for it."""
    pool = s.pool[0]
    e = pool.free_entry
    if e == NO_INDEX:
        e, pool.entries = pool.entries, pool.entries + 1
    else:
        pool.free_entry = s.entries[e].following
    _note_extent(g, extent, s)
    entry = s.entries[e]
    entry.group, entry.extent, entry.following = g, extent, s.groups[g].first
    entry.next_changed, entry.changed, entry.revision, entry.held = NO_INDEX, 0, 0, 0
    entry.prediction, s.groups[g].first = NO_INDEX, e
    s.groups[g].open += 1
    clear_set(s.sets, e)
    for a in range(attributes):
        at = (e * attributes + a) * CELL_SIZE
        s.cells[at], s.cells[at + 1] = 0.0, 0.0
        s.cells[at + 2], s.cells[at + 3] = np.inf, -np.inf
    return e


@inlined
def _with_prediction(e, stage, many, s):
    """Return a new prediction of an entry, and the state with room for it."""
    pool = s.pool[0]
    p = pool.free_prediction
    if p == NO_INDEX:
        p, pool.predictions = pool.predictions, pool.predictions + 1
        predictions = with_room(s.predictions, p + 1)
        predicted = with_room(s.predicted, (p + 1) * many * PREDICTION_SIZE)
        s = EarlyState(
            s.pool, s.scopes, s.groups, s.entries, s.cells, s.sets, s.extremes, predictions,
            predicted, s.usual, s.tracks,
        )  # fmt: skip
    else:
        pool.free_prediction = s.predictions[p].following
    of, entry = s.predictions[p], s.entries[e]
    of.stage, of.held = stage, entry.held
    of.following, entry.prediction = entry.prediction, p
    return p, s


@lean
def _aggregate_cells(what, attribute, e, attributes, s):
    """Return an aggregate of the certain rows so far; NaN if it is NULL."""
    at = (e * attributes + attribute) * CELL_SIZE
    n = s.cells[at]
    if what == EARLY_COUNT:
        return n
    if what == EARLY_SUM:
        return s.cells[at + 1]
    if n == 0:
        return np.nan
    if what == EARLY_AVG:
        return s.cells[at + 1] / n
    return s.cells[at + 2] if what == EARLY_MIN else s.cells[at + 3]


@inlined
def _aggregate_so_far(wanted, r, e, attributes, s):
    """Return (mean, standard deviation, existence) of an aggregate of the rows so far."""
    if wanted.source[r] == NO_INDEX:
        return np.float64(s.entries[e].held), 0.0, 1.0
    if wanted.measure.size > 0:
        if wanted.measure[r] == NO_INDEX:
            return extreme_moments(e, wanted.source[r], s.extremes)
        return measure(wanted.measure[r], s.sets, e, wanted.source[r])
    return _aggregate_cells(wanted.what[r], wanted.source[r], e, attributes, s), 0.0, 1.0


@lean
def _track_score(score, at, least, miss_low, miss_high, tracks):
    """Update the quantiles with a score.  least : number of scores whose range has the level."""
    n = tracks[at] + 1
    tracks[at] = n
    weight = max(1 / n, LEAST_WEIGHT)
    tracks[at + 3] += weight * (score - tracks[at + 3])
    tracks[at + 4] += weight * (abs(score - tracks[at + 3]) - tracks[at + 4])
    if n == 1:
        tracks[at + 1] = tracks[at + 2] = score
    elif n <= least:
        tracks[at + 1], tracks[at + 2] = min(tracks[at + 1], score), max(tracks[at + 2], score)
    else:  # with larger steps if far from the mean
        mean, deviation = tracks[at + 3], QUANTILE_STEP * tracks[at + 4]
        step = max(deviation, QUANTILE_STEP / 2 * abs(tracks[at + 1] - mean))
        tracks[at + 1] += step * (miss_low - (1.0 if score < tracks[at + 1] else 0.0))
        step = max(deviation, QUANTILE_STEP / 2 * abs(tracks[at + 2] - mean))
        tracks[at + 2] += step * ((1.0 if score > tracks[at + 2] else 0.0) - miss_high)


@lean
def _end_shift(at, total, side, tracks):
    """Return the shift of an end by excess misses.

    total : place of the excess over all stages    side : 0 below, 1 above
    """
    moved = STAGE_GAIN * tracks[at + 5 + side] + TOTAL_GAIN * tracks[total + 5 + side]
    return tracks[at + 4] * min(max(moved, -MAX_SHIFT), MAX_SHIFT)


@lean
def _interval(what, partial, predicted, unit, at, total, least, tracks):
    """Return the interval of a final answer; NaN while it is unknown."""
    if tracks[at] < least or math.isnan(predicted) or math.isnan(unit):
        return np.nan, np.nan
    low = predicted + unit * (tracks[at + 1] - _end_shift(at, total, 0, tracks))
    high = predicted + unit * (tracks[at + 2] + _end_shift(at, total, 1, tracks))
    if what == EARLY_COUNT:
        low = max(low, partial)
        high = max(high, low)
    elif what == EARLY_MIN:
        low, high = min(low, partial), partial
    elif what == EARLY_MAX:
        low, high = partial, max(high, partial)
    return low, max(low, high)


@lean
def _allowed_misses(what, level):
    """Return the allowed shares of scores below and above the tracked quantiles."""
    miss = 1 - level
    if what == EARLY_MIN:
        return miss, 0.0
    if what == EARLY_MAX:
        return 0.0, miss
    return miss / 2, miss / 2


@lean
def _side_of_interval(answer, low, high):
    """Return the side of an interval on which a final answer lies."""
    if math.isnan(low):
        return SIDE_UNKNOWN
    slack = 1e-9 * (1 + abs(answer))  # the two sums may be rounded differently
    if answer < low - slack:
        return SIDE_BELOW
    return SIDE_ABOVE if answer > high + slack else SIDE_WITHIN


@lean
def _stage(ahead, grid):
    """Return the stage of an extent whose end is `ahead` microseconds after the punctuation."""
    stage = (ahead - 1) // grid.early
    octave, last = grid.linear, 2 * grid.linear
    while stage >= last and octave < grid.stages - 1:
        octave, last = octave + 1, 2 * last
    return octave if stage >= grid.linear else stage


@lean
def _advance_punctuation(scope, punctuation):
    scope.earlier, scope.before, scope.reached = scope.before, scope.reached, punctuation


@inlined
def _score_extent(finals, answers, begin, end, grid, wanted, s, revisions):
    """Update the tracks and usual answers with one extent of a scope; write its `revisions`."""
    many, at = wanted.what.size, 0
    scores, keys, sides = np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64)
    for f in range(begin, end):
        final = finals[f]
        g = final.group
        above, e = NO_INDEX, s.groups[g].first
        while e != NO_INDEX and s.entries[e].extent != final.extent:
            above, e = e, s.entries[e].following
        revisions[f] = 1
        if e != NO_INDEX:
            revisions[f] = s.entries[e].revision + 1
            count = answers[f * many]
            p = s.entries[e].prediction
            while p != NO_INDEX:
                of = s.predictions[p]
                scores = with_room(scores, at + many + 1)
                keys = with_room(keys, at + many + 1)
                sides = with_room(sides, at + many + 1)
                for r in range(many):
                    place, answer = (p * many + r) * PREDICTION_SIZE, answers[f * many + r]
                    score = (answer - s.predicted[place]) / s.predicted[place + 1]
                    if not math.isnan(score):
                        scores[at], keys[at] = score, of.stage * (many + 1) + r
                        sides[at] = _side_of_interval(
                            answer, s.predicted[place + 2], s.predicted[place + 3]
                        )
                        at += 1
                scores[at], keys[at] = of.held / count, of.stage * (many + 1) + many
                sides[at] = SIDE_UNKNOWN
                at, p = at + 1, of.following
            if above == NO_INDEX:
                s.groups[g].first = s.entries[e].following
            else:
                s.entries[above].following = s.entries[e].following
            s.groups[g].open -= 1
            if s.entries[e].changed == 0:
                _drop_entry(e, s)
            else:  # still in a list: freed by the next tick
                s.entries[e].group = NO_INDEX
    order = stable_order(scores[:at])
    order = order[stable_order(keys[:at][order])]
    scope = finals[begin].scope * (grid.stages + 1) * (many + 1)
    i = 0
    while i < at:
        key, known, below, above = keys[order[i]], 0, 0, np.int64(0)
        r = key % (many + 1)
        low, high = _allowed_misses(wanted.what[r] if r < many else EARLY_COUNT, grid.level)
        place = (scope + key) * TRACK_SIZE
        total = (scope + grid.stages * (many + 1) + r) * TRACK_SIZE
        while i < at and keys[order[i]] == key:
            side = sides[order[i]]
            known += side != SIDE_UNKNOWN
            below += side == SIDE_BELOW
            above += side == SIDE_ABOVE
            _track_score(scores[order[i]], place, grid.min_scores, low, high, s.tracks)
            i += 1
        if known > 0:
            for one in (place, total):
                s.tracks[one + 5] += below / known - low
                s.tracks[one + 6] += above / known - high
    for f in range(begin, end):
        group = s.groups[finals[f].group]
        _note_extent(finals[f].group, finals[f].extent, s)
        group.completed += 1
        for r in range(many):
            answer, place = answers[f * many + r], (finals[f].group * many + r) * USUAL_SIZE
            before = s.usual[place]
            if math.isnan(answer):
                continue
            s.usual[place] = answer
            if math.isnan(before):
                continue
            if r == 0:  # the mean count is kept instead of the last one
                s.usual[place] = before + max(1 / group.completed, LEAST_WEIGHT) * (answer - before)
            change, mean = abs(answer - before), s.usual[place + 1]
            if math.isnan(mean):
                mean = change
            s.usual[place + 1] = mean + max(1 / group.completed, LEAST_WEIGHT) * (change - mean)


@inlined
def _revise(c, grid, wanted, attributes, s, out, estimates, found):
    """Emit revisions of a scope's changed extents; return (state, out, estimates, their number)."""
    many, scope = wanted.what.size, s.scopes[c]
    width, n, e = REVISION_SIZE * (many + 1), 0, scope.changed
    changed = np.empty(16, np.int64)
    while e != NO_INDEX:
        following = s.entries[e].next_changed
        s.entries[e].changed = 0
        if s.entries[e].group == NO_INDEX:
            _drop_entry(e, s)
        elif s.entries[e].extent * grid.slide - 1 > scope.reached:
            changed = with_room(changed, n + 1)
            changed[n], n = e, n + 1
        e = following
    scope.changed = NO_INDEX
    changed = changed[:n]
    changed = changed[stable_order(s.entries.group[changed])]
    changed = changed[stable_order(s.entries.extent[changed])]
    out, estimates = with_room(out, found + n), with_room(estimates, (found + n) * width)
    for e in changed:
        entry = s.entries[e]
        g, held = entry.group, np.float64(entry.held)
        entry.revision += 1
        of = out[found]
        of.group, of.extent, of.revision = g, entry.extent, entry.revision
        of.held, of.punctuation = entry.held, scope.reached
        ahead = entry.extent * grid.slide - 1 - scope.reached
        stage = _stage(ahead, grid)
        p, s = _with_prediction(e, stage, many, s)
        tracks = (c * (grid.stages + 1) + stage) * (many + 1)
        totals = (c * (grid.stages + 1) + grid.stages) * (many + 1)
        share, usual = s.tracks[(tracks + many) * TRACK_SIZE + 3], s.usual[g * many * USUAL_SIZE]
        total = 0.0
        if s.tracks[(tracks + many) * TRACK_SIZE] == 0:
            total = np.nan
        elif math.isnan(usual):
            total = held / share
        else:
            total = held + (1 - share) * usual
        at = found * width
        for r in range(many):
            what = wanted.what[r]
            partial, deviation, existence = _aggregate_so_far(wanted, r, e, attributes, s)
            predicted = partial
            if what in (EARLY_COUNT, EARLY_SUM):
                predicted = partial * total / held
            unit = max(s.usual[(g * many + r) * USUAL_SIZE + 1], 1e-9 * (1 + abs(predicted)))
            known = s.groups[g].completed >= max(MIN_COMPLETED, s.groups[g].open)
            if math.isnan(s.usual[(g * many + r) * USUAL_SIZE + 1]) or not known:
                unit = np.nan
            low, high = _interval(
                what, partial, predicted, unit, (tracks + r) * TRACK_SIZE,
                (totals + r) * TRACK_SIZE, grid.min_scores, s.tracks,
            )  # fmt: skip
            place = (p * many + r) * PREDICTION_SIZE
            s.predicted[place], s.predicted[place + 1] = predicted, unit
            s.predicted[place + 2], s.predicted[place + 3] = low, high
            estimates[at], estimates[at + 1], estimates[at + 2] = partial, low, high
            estimates[at + 3], estimates[at + 4] = deviation, existence
            at += REVISION_SIZE
        complete = min(held / total, 1.0)
        low, high = held / estimates[found * width + 2], held / estimates[found * width + 1]
        if complete < low:  # NaN is neither below nor above
            low = complete
        elif complete > high:
            high = complete
        estimates[at], estimates[at + 1], estimates[at + 2] = complete, low, high
        estimates[at + 3] = estimates[at + 4] = np.nan
        found += 1
    return s, out, estimates, found


@lean
def _is_due(f, c, reached, finals):
    return f < finals.size and finals[f].scope == c and finals[f].punctuation <= reached


@compiled_ieee
def _score_until(c, reached, f, finals, answers, grid, wanted, s, revisions):
    """Score a scope's extents up to a punctuation; return the next final answer."""
    while _is_due(f, c, reached, finals):
        end = f + 1
        while (
            end < finals.size and finals[end].scope == c and finals[end].extent == finals[f].extent
        ):
            end += 1
        _score_extent(finals, answers, f, end, grid, wanted, s, revisions)
        f = end
    return f


@lean
def _steps_of(n, extents, rows, extremes):
    """Return the number of steps that row n may add to the extremes of this number of extents."""
    alternatives = rows.offsets[n + 1] - rows.offsets[n]
    return extents * extremes.sign.size * (alternatives + 1)


@lean
def _take_rows(i, rows, place, finals, grid, attributes, s):
    """Process rows from i onwards; return the first row that needs the caller, or the row count.

    A row needs the caller if it is a tick, needs room for entries or steps, or follows a row that
    completed extents.
    place : int64[scopes], place of each scope's next final answer
    """
    pool = s.pool[0]
    for n in range(i, rows.time.size):
        c, g, t, punctuation = rows.scope[n], rows.group[n], rows.time[n], rows.punctuation[n]
        scope = s.scopes[c]
        if _is_due(place[c], c, scope.reached, finals):
            return n
        if rows.moves[n] and punctuation > scope.reached:
            if punctuation // grid.early > scope.tick:
                return n
            _advance_punctuation(scope, punctuation)
        if not rows.arrives[n]:
            continue
        first, last = t // grid.slide + 1, (t + grid.length) // grid.slide
        closed = max(scope.reached, punctuation)
        if closed > NO_EXTENT:
            first = max(first, (closed + 1) // grid.slide + 1)
        if pool.entries + last - first >= s.entries.size:
            return n
        steps = s.extremes.pool[0].steps + _steps_of(n, last + 1 - first, rows, s.extremes)
        if steps > s.extremes.steps.size:
            return n
        for extent in range(first, last + 1):
            e = _find_entry(g, extent, scope.earlier, grid.slide, s)
            if e == NO_INDEX:
                e = _new_entry(g, extent, attributes, s)
            entry = s.entries[e]
            entry.held += 1
            if entry.changed == 0:
                entry.changed, entry.next_changed, scope.changed = 1, scope.changed, e
            if s.sets.sums.shape[1] > 0:
                add_tuple(rows.tuple_moments, n, s.sets, e)
            if s.extremes.sign.size > 0:
                add_to_extremes(
                    rows.offsets, rows.prob, rows.values, n, e, rows.scratch, s.extremes
                )
            for a in range(attributes):
                x, at = rows.values[a, n], (e * attributes + a) * CELL_SIZE
                if not math.isnan(x):
                    s.cells[at] += 1
                    s.cells[at + 1] += x
                    s.cells[at + 2] = min(s.cells[at + 2], x)
                    s.cells[at + 3] = max(s.cells[at + 3], x)
    return rows.time.size


@compiled_ieee
def advance(rows, finals, answers, grid, wanted, attributes, s):
    """Process rows and the extents that they complete.

    finals : FINAL_ANSWER[f], by scope, punctuation and extent;  answers : float64[f * r], or NaN
    Returns (state; int64[f], each final answer's revision number; REVISION[m], in order of rows;
    float64[m * (r + 1) * REVISION_SIZE], for each aggregate, then the completeness and its ends).
    Cost: O(extents of a row) per arriving row, O(r) per revision, and a sort of the scores of each
    completed extent; times NODES for an average, and times the steps for an extreme, of uncertain
    rows.
    """
    revisions, found = np.empty(finals.size, np.int64), np.int64(0)
    out, estimates = np.empty(0, REVISION), np.empty(0)
    place = np.full(s.scopes.size, finals.size)
    for f in range(finals.size - 1, -1, -1):
        place[finals[f].scope] = f
    i = _take_rows(0, rows, place, finals, grid, attributes, s)
    while i < rows.time.size:
        c, punctuation, scored = rows.scope[i], rows.punctuation[i], place[rows.scope[i]]
        # Before any row that follows their completion, so that a call may end in between
        place[c] = _score_until(
            c, s.scopes[c].reached, scored, finals, answers, grid, wanted, s, revisions
        )
        if rows.moves[i] and punctuation > s.scopes[c].reached:
            _advance_punctuation(s.scopes[c], punctuation)
            if punctuation // grid.early > s.scopes[c].tick:
                s.scopes[c].tick = punctuation // grid.early
                s, out, estimates, found = _revise(
                    c, grid, wanted, attributes, s, out, estimates, found
                )
        elif place[c] == scored:
            extents = grid.length // grid.slide + 1
            steps = _steps_of(i, extents, rows, s.extremes)
            s = _with_entries(extents, steps, attributes, wanted.has_uncertain, s)
        i = _take_rows(i, rows, place, finals, grid, attributes, s)
    f = 0
    while f < finals.size:
        c, end = finals[f].scope, f + 1
        while end < finals.size and finals[end].scope == c:
            end += 1
        last = finals[end - 1].punctuation
        _score_until(c, last, place[c], finals, answers, grid, wanted, s, revisions)
        if last > s.scopes[c].reached:
            _advance_punctuation(s.scopes[c], last)
            s.scopes[c].tick = last // grid.early
        f = end
    width = REVISION_SIZE * (wanted.what.size + 1)
    return s, revisions, out[:found], estimates[: found * width]


@compiled
def drop_groups(groups, s):
    """Drop the open extents of groups."""
    for g in groups:
        e = s.groups[g].first
        while e != NO_INDEX:
            following = s.entries[e].following
            if s.entries[e].changed == 0:
                _drop_entry(e, s)
            else:
                s.entries[e].group = NO_INDEX
            e = following
