"""Imputation over Arrow tables: an `Imputer` built from a repository, and its alternatives."""

import warnings
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import Floats
from sfumato.operators.imputation.dependency import Dependency
from sfumato.operators.imputation.imputer import IMPUTATION_REASONS, Imputed, Imputer
from sfumato.tables.arrow import numbers_of
from sfumato.tables.reading.user_warnings import calls_from_user

IMPUTED = IMPUTATION_REASONS.index("imputed")
UNIMPUTABLE = "unimputable: "  # prefix of `imputed_by` for a row without alternatives
SLICE = 256  # rows imputed at once; each may have one alternative per repository row
MAX_SHARED_IMPUTERS = 4  # prepared repositories cached per process
FEWEST_ROWS = 19  # with fewer rows, a new value is outside their range with probability > 10%


class FewRowsWarning(UserWarning):
    """A repository has too few complete rows for a 90% probability range."""


@dataclass(frozen=True)
class ImputationSettings:
    """The arguments of an `Imputer` without the repository: plain values, for workers.

    names : the columns read from the repository and the objects: attributes and determinants
    """

    names: tuple[str, ...]
    attributes: tuple[str, ...]
    dependencies: tuple[Dependency, ...]
    joint: bool
    max_alternatives: int | None
    fallback: str
    scaling: tuple[tuple[str, float, float], ...]
    method: str
    least_donors: int | None

    def make(self, repository: pa.Table) -> Imputer:
        """Return the imputer over a repository's complete rows. Raises ValueError without any."""
        columns = complete_columns(repository, self.names)
        if not columns[self.names[0]].size:
            raise ValueError(
                f"`repository` must have at least one row with finite numbers in all of "
                f"{', '.join(self.names)}; it has no such row among {repository.num_rows}"
            )
        scaling = {name: (shift, span) for name, shift, span in self.scaling}
        given = {name: value for name, value in vars(self).items() if name != "names"}
        return Imputer(columns, **{**given, "scaling": scaling})


def complete_columns(table: pa.Table, names: Sequence[str]) -> dict[str, Floats]:
    """Return the columns as float64, of the rows with finite numbers in all of them.

    Sorted, so that the imputer is independent of the row order.  O(D N log N).
    """
    matrix = numbers_of(table, names)
    matrix = matrix[np.isfinite(matrix).all(axis=1)]
    matrix = matrix[np.lexsort(matrix.T[::-1])] + 0.0  # -0.0 becomes 0.0, since they sort equally
    return {name: np.ascontiguousarray(matrix[:, a]) for a, name in enumerate(names)}


def impute_table(
    imputer: Imputer, values: Floats, existence: Floats | None = None
) -> Iterator[tuple[slice, pa.Table]]:
    """Yield the alternatives of objects, a few hundred at a time: (their positions, new columns).

    values : float64[n, D], NaN is missing    existence : float64[n] by which an object's
        probabilities are multiplied, or None
    Columns: alternatives (NULL if an object cannot be imputed), imputed_by (text, NULL for a
    complete object), far_donors (whether donors are farther apart than the dependency allows) and
    few_rows (whether it was imputed and the repository `has_few_rows`).
    """
    few = has_few_rows(imputer)
    for begin in range(0, len(values), SLICE):
        part = slice(begin, min(begin + SLICE, len(values)))
        imputed = imputer.impute(values[part])
        weights = None if existence is None else existence[part]
        columns = {
            "alternatives": _alternatives(imputer, imputed, weights),
            "imputed_by": _explanations(imputer, imputed),
            "far_donors": pa.array(imputed.beyond.any(axis=1)),
            "few_rows": pa.array((imputed.reason == IMPUTED) & few),
        }
        yield part, pa.table(columns)


def _alternatives(imputer: Imputer, imputed: Imputed, existence: Floats | None) -> pa.Array:
    """Return list<struct<prob, ATTR...>> of imputed objects; NULL without alternatives."""
    prob = imputed.prob
    if existence is not None:
        prob = prob * np.repeat(existence, np.diff(imputed.offsets))
    fields = [prob, *(np.ascontiguousarray(column) for column in imputed.values.T)]
    flat = pa.StructArray.from_arrays(
        [pa.array(field) for field in fields], names=["prob", *imputer.attributes]
    )
    offsets = pa.array(imputed.offsets, pa.int32())
    return pa.ListArray.from_arrays(offsets, flat, mask=pa.array(imputed.reason > IMPUTED))


def _explanations(imputer: Imputer, imputed: Imputed) -> pa.Array:
    """Return `imputed_by` of objects: the dependencies or the reason for failure."""
    if not imputed.reason.size:
        return pa.array([], pa.string())
    ways = np.column_stack([imputed.reason.astype(np.int64), imputed.chosen])
    _, first, which = np.unique(ways, axis=0, return_index=True, return_inverse=True)
    texts = []
    for i in first.tolist():
        reason = int(imputed.reason[i])
        text = imputer.explain(imputed, i)
        texts.append(None if reason == 0 else text if reason == IMPUTED else UNIMPUTABLE + text)
    return pa.array(texts, pa.string()).take(pa.array(which.reshape(-1)))


def has_few_rows(imputer: Imputer) -> bool:
    """Return whether calibrated 90% ranges are extrapolated from too few rows."""
    return imputer.method == "calibrated" and imputer.rows < FEWEST_ROWS


def warn_of_few_rows(imputer: Imputer) -> None:
    if not has_few_rows(imputer):
        return
    if imputer.rows == 1:
        meaning = "its one row says nothing of how values vary, and is the only alternative"
    else:
        shown = (imputer.rows - 1) / (imputer.rows + 1)
        meaning = f"these show ranges of at most {shown:.0%}, and wider ones are extrapolated"
    warnings.warn(
        f"`repository` has {imputer.rows} complete row{'s' * (imputer.rows > 1)}, and a calibrated "
        f"range of probability 90% needs at least {FEWEST_ROWS}: {meaning}",
        FewRowsWarning,
        stacklevel=calls_from_user() + 1,
    )


_SHARED: OrderedDict[tuple[int, int], Imputer] = OrderedDict()


def shared_imputer(data: bytes) -> Imputer:
    """Return the imputer of `Imputer.to_bytes`, created once per process."""
    name = (zlib.crc32(data), len(data))
    imputer = _SHARED.get(name)
    if imputer is None:
        imputer = _SHARED[name] = Imputer.from_bytes(data)
        imputer.__dict__["fingerprint"] = name[0]  # as `Imputer.fingerprint` computes it
        while len(_SHARED) > MAX_SHARED_IMPUTERS:
            _SHARED.popitem(last=False)
    return imputer
