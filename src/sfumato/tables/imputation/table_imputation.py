"""Imputation of incomplete rows over Arrow tables, without an order."""

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import Floats
from sfumato.operators.imputation.imputer import IMPUTED, Imputed, Imputer
from sfumato.tables.imputation.imputation_arguments import IMPUTED_BY
from sfumato.tables.imputation.repositories import RepositoryImputer, has_few_rows
from sfumato.tables.reading.results import (
    BOOLEAN_TYPE,
    DOUBLE_TYPE,
    STRING_TYPE,
    Field,
    Output,
    alternatives_type,
)
from sfumato.tables.reading.tuples import ALTERNATIVES

UNIMPUTABLE = "unimputable: "  # prefix of `imputed_by` for a row without alternatives
SLICE_ROWS = 256  # rows imputed at once; a row may have one alternative per repository row
FLAGS = ("far_donors", "few_rows", "shared")  # columns of `impute_table`, each with a counter


def impute_table(
    imputer: RepositoryImputer,
    values: Floats,
    existence: Floats | None = None,
    keys: pa.Table | None = None,
    texts: Mapping[str, list[str]] | None = None,
) -> Iterator[tuple[slice, pa.Table]]:
    """Yield (slice of the objects, their new columns), for `SLICE_ROWS` objects at a time.

    values : float64[n, D], NaN is missing    keys : the objects' keys, if the repository has a key
    existence : float64[n], factors of each object's probabilities, or None
    texts : the strings of coded columns, see `RepositoryImputer.values_of`

    New columns: alternatives (NULL if the object cannot be imputed), imputed_by (text, NULL if it
    is complete), far_donors (whether donors are farther apart than the dependency allows), few_rows
    (whether it was imputed and its imputer `has_few_rows`) and shared (whether it was imputed
    although its key has too few rows for a separate imputer).
    """
    for begin in range(0, len(values), SLICE_ROWS):
        part = slice(begin, min(begin + SLICE_ROWS, len(values)))
        own = values[part]
        if keys is None:
            owners = np.full(len(own), -1)
        else:
            owners = imputer.owners(keys.slice(begin, len(own)))
        weights = None if existence is None else existence[part]
        groups, places = [], []
        for owner in np.unique(owners).tolist():
            of = np.flatnonzero(owners == owner)
            weight = None if weights is None else weights[of]
            shared = keys is not None and owner < 0
            of_owner = imputer.imputer_of(owner)
            imputed = of_owner.impute(own[of])
            groups.append(imputed_columns(of_owner, imputed, weight, shared, texts or {}))
            places.append(of)
        order = pa.array(np.argsort(np.concatenate(places)))
        yield part, groups[0] if len(groups) == 1 else pa.concat_tables(groups).take(order)


def imputed_outputs(attributes: Sequence[str], texts: Collection[str]) -> list[Output]:
    """Return the columns of `impute_table`. texts : the attributes that are strings"""
    fields = [Field(of, STRING_TYPE if of in texts else DOUBLE_TYPE) for of in attributes]
    return [
        Output(ALTERNATIVES, (ALTERNATIVES,), alternatives_type(fields)),
        Output(IMPUTED_BY, (IMPUTED_BY,), STRING_TYPE),
        *(Output(flag, (flag,), BOOLEAN_TYPE) for flag in FLAGS),
    ]


def imputed_columns(
    imputer: Imputer,
    imputed: Imputed,
    existence: Floats | None,
    shared: bool,
    texts: Mapping[str, list[str]],
) -> pa.Table:
    """Return the columns of `impute_table` for the results of one imputer."""
    inferred = imputed.reason == IMPUTED
    columns = {
        "alternatives": alternatives_of(imputer, imputed, existence, texts),
        "imputed_by": _explanations(imputer, imputed),
        "far_donors": pa.array(imputed.beyond.any(axis=1)),
        "few_rows": pa.array(inferred & has_few_rows(imputer)),
        "shared": pa.array(inferred & shared),
    }
    return pa.table(columns)


def alternatives_of(
    imputer: Imputer, imputed: Imputed, existence: Floats | None, texts: Mapping[str, list[str]]
) -> pa.Array:
    """Return the alternatives of imputed objects, list<struct<prob, ATTR...>>; NULL without any."""
    prob = imputed.prob
    if existence is not None:
        prob = prob * np.repeat(existence, np.diff(imputed.offsets))
    fields = [pa.array(prob)]
    for name, column in zip(imputer.attributes, imputed.values.T, strict=True):
        if name in texts:
            codes = pa.array(column.astype(np.int64), mask=np.isnan(column))
            fields.append(pa.array(texts[name], pa.string()).take(codes))
        else:
            fields.append(pa.array(np.ascontiguousarray(column)))
    flat = pa.StructArray.from_arrays(fields, names=["prob", *imputer.attributes])
    offsets = pa.array(imputed.offsets, pa.int32())
    return pa.ListArray.from_arrays(offsets, flat, mask=pa.array(imputed.reason > IMPUTED))


def _explanations(imputer: Imputer, imputed: Imputed) -> pa.Array:
    """Return `imputed_by`: the dependencies used, or the reason for failure."""
    if not imputed.reason.size:
        return pa.array([], pa.string())
    ways = np.column_stack([imputed.reason.astype(np.int64), imputed.rules_used])
    _, first, which = np.unique(ways, axis=0, return_index=True, return_inverse=True)
    texts = []
    for i in first.tolist():
        reason = int(imputed.reason[i])
        text = imputer.explain(imputed, i)
        texts.append(None if reason == 0 else text if reason == IMPUTED else UNIMPUTABLE + text)
    return pa.array(texts, pa.string()).take(pa.array(which.reshape(-1)))
