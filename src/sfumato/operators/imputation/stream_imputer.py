"""Imputation of a stream by each key's newest known values and by changes in the past.

A missing value is imputed as the attribute's newest known value plus a change. The change is
imputed from a repository's past changes: from a similar value, after a similar time span, and with
similar changes of the known attributes. Changes remain similar when levels drift.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from sfumato.kernels.imputation.dependency_choice import IMPUTED
from sfumato.kernels.imputation.known_values import NARROWEST, WIDEST, correct_widths
from sfumato.operators.arrays import Bools, Floats, Ints, offsets_of
from sfumato.operators.imputation.dependency import Dependency
from sfumato.operators.imputation.earlier_values import EarlierValues, EarlierValuesConfig, grow
from sfumato.operators.imputation.imputer import Imputed, Imputer
from sfumato.operators.state.declared import Array, Part
from sfumato.operators.state.stateful import Operator

MAX_CHANGING = 15  # attributes, with four columns each
MAX_CHOSEN = 12  # attributes with chosen dependencies, with five columns each
DETERMINANT_PREFIXES = ("change_", "age_", "earlier_", "value_")  # prefixes of determinants
NEAREST = 4  # other attributes, with the most similar changes, that determine a change
SAME_AGE = 0.5  # epsilon of the binary logarithm of ages
NEAR_EPSILON, ROUGH_EPSILON, WIDE_EPSILON = 0.02, 0.05, 0.2  # epsilons of scaled changes and values
USUAL_RANGE = (0.05, 0.95)  # quantiles whose distance is the scale of changes and values
SKIPPING = 0.5  # share of the past's rows whose changes are over more than one row
ROWS_BACK = [rows for i in range(9) for rows in (2 * 2**i, 3 * 2**i)]  # lengths of these changes
ROWS_PER_SKIP = 8  # least past rows of a key, per row that the longest change spans
TESTED_EVERY = 4  # every fourth row of a key tests the imputation of its known values
MAX_COUPLED = 1024  # alternatives of a row that is imputed by changes and by levels
GOLDEN = (5**0.5 - 1) / 2
FEEDBACK = ("scale", "low", "high", "rows")  # the state by key, besides the known values
ABOVE_WIDEST = np.nextafter(WIDEST, np.inf)
EQUAL_SHARES = 1e-12  # cumulative shares that differ by less are treated as equal


def change_names(attributes: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the `change_columns`."""
    return (*attributes, *(f"{kind}{name}" for kind in DETERMINANT_PREFIXES for name in attributes))


def change_columns(values: Floats, earlier: Floats, age: Floats) -> Floats:
    """Return float64[n, 5 T]: changes (as dependents), changes (as determinants), the binary
    logarithms of their ages, earlier values, and values; NaN where unknown."""
    changes = values - earlier
    return np.column_stack([changes, changes, np.log2(1.0 + np.abs(age)), earlier, values])


def past_changes(key: Ints, time: Floats, values: Floats) -> tuple[Floats, Bools]:
    """Return the `change_columns` of the complete rows, and bool[n], whether rows are complete.
    Rows must be in time order. Changes span the numbers of rows from `rows_back`.
    """
    n, attributes = values.shape
    order = np.argsort(key, kind="stable")
    first = np.searchsorted(key[order], key[order])  # place of the key's first row
    back, place = rows_back(key, attributes)[order], np.arange(n)
    earlier, since = np.full((2, n, attributes), np.nan)
    for a, own in enumerate(values[order].T):
        newest = np.maximum.accumulate(np.where(np.isfinite(own), place, -1))
        source = newest[place - back[:, a]]
        known = (place - back[:, a] >= first) & (source >= first)
        to, of = order[known], order[source[known]]
        earlier[to, a], since[to, a] = values[of, a], time[of]
    rows = change_columns(values, earlier, time[:, None] - since)
    whole: Bools = np.logical_and.reduce(np.isfinite(rows), axis=1)
    return rows[whole], whole


def rows_back(key: Ints, attributes: int) -> Ints:
    """Return int64[n, T]: the number of rows of the same key by which each row of the past looks
    back for its earlier value, which is the newest value known there. 1 is the previous row.

    Gaps of some lengths are rare in a past. Therefore, a share `SKIPPING` of the rows looks back
    more than one row, for one attribute or for all, as if the values in between were missing.
    The rows, the numbers and the attributes are pseudorandom and deterministic. Copies of the rows
    with several numbers would be donors of each other in tests, and the tested ranges would be too
    narrow.
    """
    rng, n = np.random.default_rng(0), key.size
    skipping, share = rng.random(n) < SKIPPING, rng.random(n)
    only, each = rng.integers(0, attributes, n), rng.random(n) < 0.5
    rows, choices = np.bincount(key)[key], np.array([1, *ROWS_BACK])
    many = np.searchsorted(ROWS_BACK, rows // ROWS_PER_SKIP, side="right")
    chosen = choices[np.where(skipping & (many > 0), 1 + (share * many).astype(np.int64), 0)]
    number = _row_numbers(key)
    chosen = np.where(number > chosen, chosen, 1)
    spared = each[:, None] & (only[:, None] != np.arange(attributes))
    return np.where(spared, 1, chosen[:, None])


def _row_numbers(key: Ints) -> Ints:
    """Return each row's number within its key, from 1."""
    order = np.argsort(key, kind="stable")
    number = np.empty(len(key), np.int64)
    number[order] = np.arange(len(key)) - np.searchsorted(key[order], key[order]) + 1
    return number


def change_scaling(rows: Floats, names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return the scaling of changes, (0, span) by column; ages have a span of 1."""
    result, ages = {}, names[2 * len(names) // 5 : 3 * len(names) // 5]
    for name, column in zip(names, rows.T, strict=True):
        low, high = np.quantile(column, USUAL_RANGE)
        span = (high - low) or (column.max() - column.min()) or 1.0
        result[name] = 0.0, 1.0 if name in ages else span
    return result


def change_dependencies(rows: Floats, attributes: Sequence[str]) -> list[Dependency]:
    """Return dependencies for each attribute's change.

    The determinants are the age and the earlier value, alone or with the change of one of the
    `NEAREST` other attributes; the age with two or all of these changes; and the age alone, for
    levels that did not occur in the past.
    """
    many, found = len(attributes), []
    ranks = np.argsort(np.argsort(rows[:, :many], axis=0, kind="stable"), axis=0)
    alike = np.zeros((many, many))
    if len(rows) > 1:
        with np.errstate(invalid="ignore", divide="ignore"):
            alike = np.abs(np.nan_to_num(np.atleast_2d(np.corrcoef(ranks, rowvar=False))))
    for a, name in enumerate(attributes):
        others = [b for b in np.argsort(-alike[a], kind="stable").tolist() if b != a][:NEAREST]
        near = [f"change_{attributes[b]}" for b in others]
        own = f"earlier_{name}"
        sets = [
            [(own, NEAR_EPSILON)],
            *([(each, NEAR_EPSILON), (own, WIDE_EPSILON)] for each in near),
        ]
        sets += [[(each, ROUGH_EPSILON) for each in pair] for pair in combinations(near, 2)]
        if len(near) > 2:
            sets.append([(each, ROUGH_EPSILON) for each in near])
        sets.append([])
        found += [Dependency(((f"age_{name}", SAME_AGE), *each), name, 1.0) for each in sets]
    return found


def level_dependencies(attributes: Sequence[str]) -> list[Dependency]:
    """Return a dependency of each attribute on each other attribute."""
    pairs = [(a, b) for b in attributes for a in attributes if a != b]
    return [Dependency(((a, ROUGH_EPSILON),), b, 1.0) for a, b in pairs]


class ImputedRows(NamedTuple):
    """Rows imputed in one way.

    places : int64[m]    ways : each imputer, and its result    result : the final alternatives
    since : float64[m, T], the time of the value to which a change was added; otherwise NaN
    """

    places: Ints
    ways: list[tuple[Imputer, Imputed]]
    result: Imputed
    since: Floats


class StreamImputer(Operator):
    """Imputation of rows by their key's newest known values, with feedback from known values.

    attributes : int >= 1, number T of attributes
    gap_values : int or None, number of equally probable values of a row that is imputed by changes

    A missing attribute with an earlier value is imputed by its change. Other missing attributes are
    then imputed by levels, with the means of the values imputed by changes as known values. In
    every fourth row of a key, each known value in turn is hidden and imputed by its change. From
    the results, `kernels.imputation.known_values` corrects the widths per key, attribute and side.

    Results do not depend on how rows are split into calls.  State: 5 T + 1 numbers per key.
    """

    kind, version = "stream_imputer", 2
    config: EarlierValuesConfig
    state = {
        "known": Part(),
        "scale": Array(float, "keys", "attributes", low=0.0, high=ABOVE_WIDEST),
        "low": Array(float, "keys", "attributes", low=NARROWEST, high=ABOVE_WIDEST),
        "high": Array(float, "keys", "attributes", low=NARROWEST, high=ABOVE_WIDEST),
        "rows": Array(int, "keys", low=0),
    }

    def __init__(self, attributes: int, gap_values: int | None = None) -> None:
        self.config = EarlierValuesConfig(attributes)
        self.attributes, self.gap_values = attributes, gap_values
        self.known = EarlierValues(attributes)
        self.scale, self.low, self.high = (np.zeros((0, attributes)) for _ in range(3))
        self.rows = np.zeros(0, np.int64)

    def process(
        self, imputers: tuple[Imputer, Imputer], key: Ints, time: Floats, values: Floats
    ) -> tuple[list[ImputedRows], tuple[int, int, int]]:
        """Impute rows in the given order. Returns the rows imputed in each way, and the numbers of
        tested values, tested values within their ranges, and widened rows.

        imputers : the imputer of changes, over columns of `change_names`, and the imputer of levels
        key : int64[n], codes    time : float64[n]    values : float64[n, T], NaN is missing
        """
        changes, levels = imputers
        for name in FEEDBACK:
            setattr(self, name, grow(getattr(self, name), int(key.max(initial=-1)) + 1, 0))
        earlier, since = self.known.process_times(key, time, values)
        columns = change_columns(values, earlier, time[:, None] - since)
        missing = np.isnan(values)
        at_all = np.isfinite(earlier)
        changing = missing & at_all
        by_change: Bools = np.logical_or.reduce(changing, axis=1)
        number = _row_numbers(key) + self.rows[key]
        np.maximum.at(self.rows, key, number)
        tests = np.isfinite(values) & at_all & (number % TESTED_EVERY == 0)[:, None]
        row, hidden = np.nonzero(np.column_stack([by_change, tests]))
        hidden -= 1  # the hidden attribute, or -1 if the object is the row itself
        used = [change_names(changes.attributes).index(name) for name in changes.names]
        objects = columns[row][:, used]
        targets = np.where(changing[row] & (hidden < 0)[:, None], np.nan, 0.0)
        targets[hidden >= 0, hidden[hidden >= 0]] = np.nan
        objects[:, : self.attributes] = targets
        done = changes.impute(objects)
        truth = columns[row, np.maximum(hidden, 0)]
        counts = correct_widths(
            key[row], hidden, truth, done.offsets, done.prob, done.values,
            self.scale, self.low, self.high,
        )  # fmt: skip
        kept = np.flatnonzero(hidden < 0)
        result, places = done.take(kept), row[kept]
        of = np.repeat(places, np.diff(result.offsets))
        result.values[:] = np.where(changing[of], earlier[of] + result.values, values[of])
        mixed = (missing & ~at_all)[places].any(axis=1) & (result.reason == IMPUTED)
        found = [(places[~mixed], [(changes, result.take(~mixed))])]
        if mixed.any():
            places, result = places[mixed], result.take(mixed)
            means = np.add.reduceat(result.prob[:, None] * result.values, result.offsets[:-1])
            objects = np.where(changing[places], means, values[places])
            found.append((places, [(changes, result), (levels, levels.impute(objects))]))
        others = np.flatnonzero(~by_change)
        found.append((others, [(levels, levels.impute(values[others]))]))
        most = min(changes.max_alternatives, levels.max_alternatives, MAX_COUPLED)
        since = np.where(changing, since, np.nan)
        answers = []
        for places, ways in found:
            if len(places):
                result = ways[0][1] if len(ways) == 1 else coupled(places, ways, changing, most)
                if self.gap_values is not None and by_change[places[0]]:
                    result = equal_quantiles(result, self.gap_values)
                answers.append(ImputedRows(places, ways, result, since[places]))
        return answers, counts

    def forget(self, keys: Ints) -> None:
        """Delete the state of these keys."""
        self.known.forget(keys)
        codes = keys[keys < len(self.rows)]
        for name in FEEDBACK:
            getattr(self, name)[codes] = 0


def equal_quantiles(imputed: Imputed, count: int) -> Imputed:
    """Replace the alternatives of each object with `count` equally probable alternatives.

    Alternative i has quantile (i + 1/2) / count of the first attribute, and the same quantiles of
    each other attribute in the order of a golden-ratio sequence, so that attributes are nearly
    independent. Objects without alternatives are unchanged.
    """
    lengths = np.diff(imputed.offsets)
    kept = np.flatnonzero(lengths)
    owner = np.repeat(np.arange(kept.size), lengths[kept])
    levels = np.arange(kept.size)[:, None] + (np.arange(count) + 0.5) / count - EQUAL_SHARES
    values = np.empty((kept.size * count, imputed.values.shape[1]))
    for t, column in enumerate(imputed.values.T):
        order = np.lexsort((column, owner))
        share = np.cumsum(imputed.prob[order])
        ends = share[imputed.offsets[1:][kept] - 1]
        starts = np.append(0.0, ends[:-1])
        share = owner + ((share - starts[owner]) / (ends - starts)[owner]).clip(max=1.0)
        place = np.searchsorted(share, levels)
        turn = np.argsort(np.arange(count) * (t * GOLDEN) % 1.0, kind="stable")
        values[:, t] = column[order][place[:, turn]].ravel()
    prob = np.full(len(values), 1.0 / count)
    offsets = offsets_of(np.where(lengths > 0, count, 0))
    return replace(imputed, offsets=offsets, prob=prob, values=values)


def coupled(
    places: Ints, ways: list[tuple[Imputer, Imputed]], changing: Bools, most: int
) -> Imputed:
    """Return the alternatives of rows that were imputed by changes and by levels.

    changing : bool[n, T], attributes imputed by their change    most : alternatives per row
    Each attribute keeps its distribution, and the ways are nearly independent, because the
    alternatives by levels are read in the order of a golden-ratio sequence. With p alternatives
    by changes and q by levels, a row gets at most p + q - 1 alternatives, or `most` equally
    probable alternatives if their number would exceed `most`.
    """
    (_, first), (_, second) = ways
    lengths, parts = np.zeros(len(places), np.int64), [(first.prob[:0], first.values[:0])]
    for i in range(len(places)):
        one, other = (slice(*of.offsets[i : i + 2]) for of in (first, second))
        p, q = first.prob[one], second.prob[other]
        if not len(q):
            continue
        turn = np.argsort(np.arange(len(q)) * GOLDEN % 1.0)
        ends = [np.cumsum(of) / of.sum() for of in (p, q[turn])]
        edges = np.union1d(np.union1d(*ends), [0.0, 1.0])
        edges = edges[np.append(True, np.diff(edges) > EQUAL_SHARES)]
        edges[-1] = 1.0
        if len(edges) > most + 1:
            edges = np.linspace(0.0, 1.0, most + 1)
        middle = (edges[1:] + edges[:-1]) / 2
        a, b = (np.searchsorted(end, middle).clip(max=len(end) - 1) for end in ends)
        values = np.where(changing[places[i]], first.values[one][a], second.values[other][turn[b]])
        parts.append((np.diff(edges), values))
        lengths[i] = len(middle)
    prob, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return replace(second, offsets=offsets_of(lengths), prob=prob, values=values)
