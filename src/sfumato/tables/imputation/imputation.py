"""Imputation over Arrow tables: a repository's columns to an `Imputer`, objects to alternatives."""

import zlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import Floats
from sfumato.operators.imputation.dependency import Dependency
from sfumato.operators.imputation.imputer import REASONS, Imputed, Imputer
from sfumato.tables.imputation.few_rows import has_few_rows

IMPUTED = REASONS.index("imputed")
UNIMPUTABLE = "unimputable: "  # how `imputed_by` of a row without alternatives begins
SLICE = 256  # rows imputed at once: one may have as many alternatives as the repository has rows
SHARED = 4  # prepared repositories a process keeps


@dataclass(frozen=True)
class ImputationSettings:
    """The arguments of an `Imputer` but for the repository: plain values, for workers.

    names : the columns wanted of the repository and of the objects: attributes and determinants
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
        """The imputer over the complete rows of a repository. Raises ValueError without any."""
        columns = complete_columns(repository, self.names)
        if not columns[self.names[0]].size:
            raise ValueError(
                f"`repository` must have at least one row with finite numbers in all of "
                f"{', '.join(self.names)}; none of its {repository.num_rows} has"
            )
        return Imputer(
            columns,
            self.dependencies,
            attributes=self.attributes,
            joint=self.joint,
            max_alternatives=self.max_alternatives,
            fallback=self.fallback,
            scaling={name: (shift, span) for name, shift, span in self.scaling},
            method=self.method,
            least_donors=self.least_donors,
        )


def complete_columns(table: pa.Table, names: Sequence[str]) -> dict[str, Floats]:
    """The columns as float64, of the rows that have a finite number in each of them.

    Sorted, so that the same rows in another order make the same imputer.  O(D N log N).
    """
    matrix = numbers_of(table, names)
    matrix = matrix[np.isfinite(matrix).all(axis=1)]
    matrix = matrix[np.lexsort(matrix.T[::-1])] + 0.0  # no -0.0, which sorts as 0.0
    return {name: np.ascontiguousarray(matrix[:, a]) for a, name in enumerate(names)}


def numbers_of(table: pa.Table, names: Sequence[str]) -> Floats:
    """float64[n, D] of columns of numbers, NULL as NaN."""
    columns = [
        table.column(name).cast(pa.float64(), safe=False).to_numpy() for name in names
    ]  # fmt: skip
    return np.ascontiguousarray(np.stack(columns, axis=1)) if columns else np.empty((0, 0))


def impute_table(
    imputer: Imputer, values: Floats, existence: Floats | None = None
) -> Iterator[tuple[slice, pa.Table]]:
    """Alternatives of objects, a few hundred at a time: (their places, their new columns).

    values : float64[n, D], NaN is missing    existence : float64[n] by which an object's
        probabilities are multiplied, or None
    Columns: alternatives (NULL where an object cannot be imputed), imputed_by (text, NULL for a
    complete object), far_donors (whether donors lie farther apart than the dependency promises) and
    few_rows (whether it was imputed and the repository `has_few_rows`).
    """
    for begin in range(0, len(values), SLICE):
        part = slice(begin, min(begin + SLICE, len(values)))
        imputed = imputer.impute(values[part])
        weights = None if existence is None else existence[part]
        yield (
            part,
            pa.table(
                {
                    "alternatives": alternatives_of(imputer, imputed, weights),
                    "imputed_by": explained(imputer, imputed),
                    "far_donors": pa.array(imputed.beyond.any(axis=1)),
                    "few_rows": pa.array((imputed.reason == IMPUTED) & has_few_rows(imputer)),
                }
            ),
        )


def alternatives_of(imputer: Imputer, imputed: Imputed, existence: Floats | None) -> pa.Array:
    """list<struct<prob, ATTR...>> of imputed objects, NULL where there are none."""
    prob = imputed.prob
    if existence is not None:
        prob = prob * np.repeat(existence, np.diff(imputed.offsets))
    fields = [pa.array(prob)]
    fields += [
        pa.array(np.ascontiguousarray(imputed.values[:, t])) for t in range(len(imputer.attributes))
    ]
    flat = pa.StructArray.from_arrays(fields, names=["prob", *imputer.attributes])
    offsets = pa.array(imputed.offsets, pa.int32())
    return pa.ListArray.from_arrays(offsets, flat, mask=pa.array(imputed.reason > IMPUTED))


def explained(imputer: Imputer, imputed: Imputed) -> pa.Array:
    """`imputed_by` of objects: the dependencies, or why not; said once for each way."""
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


_SHARED: OrderedDict[tuple[int, int], Imputer] = OrderedDict()


def shared_imputer(data: bytes) -> Imputer:
    """The imputer of `Imputer.to_bytes`, made once a process and used by all who ask for it."""
    name = (zlib.crc32(data), len(data))
    imputer = _SHARED.get(name)
    if imputer is None:
        imputer = _SHARED[name] = Imputer.from_bytes(data)
        imputer.__dict__["fingerprint"] = name[0]  # as `Imputer.fingerprint` computes it
        while len(_SHARED) > SHARED:
            _SHARED.popitem(last=False)
    return imputer
