"""Discovery of the determinants of changes in a stream's past, by imputing later rows.

The candidate sets of determinants of an attribute's change are: the age; the age and the earlier
value; and both together with changes or values of other attributes. Each candidate imputes later
rows from earlier rows, as a stream is imputed from its past. Candidates with the best scores are
selected.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from sfumato.kernels.imputation.imputation import UNLIMITED, impute_batch
from sfumato.operators.arguments import whole
from sfumato.operators.arrays import Floats, Ints
from sfumato.operators.imputation.dependency import Dependency
from sfumato.operators.imputation.imputer import Imputer, ImputerSettings
from sfumato.operators.imputation.prepared_repository import only_dependency
from sfumato.operators.imputation.repository_columns import sample_rows
from sfumato.operators.imputation.stream_imputer import (
    NEAR_EPSILON,
    NEAREST,
    ROUGH_EPSILON,
    SAME_AGE,
    WIDE_EPSILON,
    change_names,
    change_scaling,
)

MIN_CHANGES = 80  # so that there are at least twice `DEFAULT_DONORS` rows to impute from
DONOR_SHARE = 0.75  # share of the rows (the oldest rows) from which later rows are imputed
VALUE_EPSILON = 0.1  # epsilon of scaled values of other attributes
LEVELS = 64  # quantiles of all changes, for rows without donors

Scores = dict[Dependency, Floats]  # one score per tested row


def discover_changes(
    rows: Floats,
    attributes: Sequence[str],
    *,
    dependents: Iterable[str] | None = None,
    max_determinants: int = 2,
    sample: int = 1000,
    max_rows: int = 10_000,
    seed: int = 0,
) -> list[Dependency]:
    """Return the dependencies that best impute changes, with `score`, the best first per dependent.

    rows : float64[n, 5 T], `change_columns` of complete rows in time order
    dependents : attributes to infer (None: all)
    max_determinants : int >= 1, largest number of other attributes in a dependency
    sample : int >= 1, maximum number of rows to impute, drawn with `seed` from the last quarter
    max_rows : int >= 1, maximum number of donors for these rows, drawn from the earlier rows

    A set of determinants is kept if its mean score is smaller than the score of every subset.
    Simpler dependencies thus remain for rows in which some determinants are missing. Sets of at
    least two other attributes are formed from the `NEAREST` attributes that score best alone.
    Returns no dependencies for fewer than `MIN_CHANGES` rows.
    Cost: imputation of `sample` rows per candidate; each of four attributes has 14 candidates.
    Raises ValueError for arguments outside these ranges.
    """
    most, many = whole("max_determinants", max_determinants), whole("sample", sample)
    chosen = list(attributes) if dependents is None else list(dependents)
    unknown = [name for name in chosen if name not in attributes]
    if unknown:
        raise ValueError(f"`dependents` must be columns of {list(attributes)}; got {unknown}")
    if len(rows) < MIN_CHANGES:
        return []
    border, rng = int(len(rows) * DONOR_SHARE), np.random.default_rng(seed)
    donors = sample_rows(rows[:border], whole("max_rows", max_rows), rng)
    tested = sample_rows(rows[border:], many, rng)
    found: list[Dependency] = []
    for name in chosen:
        others = [each for each in attributes if each != name]
        scores = _scores(donors, tested, attributes, _candidates(name, others, (0, 1)))
        best = {other: _best_score(scores, other) for other in others}
        near = sorted(others, key=best.__getitem__)[:NEAREST]
        if most > 1:
            more = _candidates(name, near, range(2, most + 1))
            scores |= _scores(donors, tested, attributes, more) if more else {}
        found += _keep_better({each: float(score.mean()) for each, score in scores.items()})
    return found


def _candidates(name: str, others: Sequence[str], sizes: Iterable[int]) -> list[Dependency]:
    """Return dependencies of an attribute's change on age, earlier value and other attributes."""
    age, own, found = (f"age_{name}", SAME_AGE), f"earlier_{name}", []
    for size in sizes:
        near = NEAR_EPSILON if size == 1 else ROUGH_EPSILON
        for each in combinations(others, size):
            if not each:
                found += [Dependency((age, *of), name, 1.0) for of in ((), ((own, NEAR_EPSILON),))]
                continue
            for kind, epsilon in (("change_", near), ("value_", VALUE_EPSILON)):
                with_others = [(f"{kind}{other}", epsilon) for other in each]
                found.append(Dependency((age, (own, WIDE_EPSILON), *with_others), name, 1.0))
    return found


def _best_score(scores: Scores, other: str) -> float:
    """Return the best mean score of the dependencies on another attribute."""
    on = (f"change_{other}", f"value_{other}")
    return min(score.mean() for each, score in scores.items() if set(on) & set(each.names))


def _scores(
    donors: Floats, tested: Floats, attributes: Sequence[str], candidates: Sequence[Dependency]
) -> Scores:
    """Return the score of every tested row under each candidate alone. All candidates infer the
    same attribute. Rows without donors are imputed by the distribution of all changes."""
    names, dependent = change_names(attributes), candidates[0].dependent
    scaling = change_scaling(donors, names)
    imputer = Imputer(donors, candidates, [dependent], names=names, scaling=scaling, method="plain")
    choice = ImputerSettings(fallback="reject").choice(len(donors))
    prepared = imputer.prepared._replace(choice=choice)
    objects, place = tested.copy(), attributes.index(dependent)
    true = objects[:, place].copy()
    objects[:, place] = np.nan
    levels = np.quantile(donors[:, place], (np.arange(LEVELS) + 0.5) / LEVELS)
    offsets, same = np.arange(len(true) + 1) * LEVELS, np.full(len(true) * LEVELS, 1 / LEVELS)
    of_all = _ranked_scores(offsets, same, np.tile(levels, len(true)), true)
    found: Scores = {}
    for d, candidate in enumerate(imputer.dependencies_of(0)):
        sets = prepared._replace(sets=only_dependency(prepared.sets, 0, d))
        offsets, prob, values, *_ = impute_batch(sets, False, UNLIMITED, objects)
        scores = _ranked_scores(offsets, prob, values[:, 0], true)
        found[candidate] = np.where(np.diff(offsets) > 0, scores, of_all)
    return found


def _ranked_scores(offsets: Ints, prob: Floats, values: Floats, true: Floats) -> Floats:
    """Return the continuous ranked probability score of each distribution; 0 if it is empty."""
    of = np.repeat(np.arange(true.size), np.diff(offsets))
    order = np.lexsort((values, of))
    values, prob = values[order], prob[order]
    total = np.concatenate([[0.0], np.cumsum(prob)])
    below = total[1:] - total[offsets[:-1]][of]
    off = np.abs(values - true[of]) - values * (2.0 * below - prob - 1.0)
    return np.bincount(of, weights=prob * off, minlength=true.size).astype(np.float64)


def _keep_better(scores: dict[Dependency, float]) -> list[Dependency]:
    """Return the dependencies that score better than every subset of their determinants."""
    return [
        replace(each, score=score)
        for each, score in sorted(scores.items(), key=lambda pair: (pair[1], str(pair[0])))
        if not any(set(d.names) < set(each.names) and scores[d] <= score for d in scores)
    ]
