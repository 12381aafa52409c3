"""Alternatives as arrays: the existence of tuples, pruned and fused alternatives."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sfumato.operators.arguments import RESCALED_SUM_TOLERANCE
from sfumato.operators.arrays import Bools, Floats, Ints, offsets_of
from sfumato.tables.arrow import as_array, fields_of
from sfumato.tables.keys import group_rows, normalize_zeros
from sfumato.tables.reading.tuples import ALTERNATIVES, CONFLICT, PRUNED, UncertainTable
from sfumato.tables.reading.types import as_doubles, floats_of


def existence_of(tuples: UncertainTable) -> Floats:
    """Return the existence of each tuple; NaN if its probabilities are invalid."""
    prob, most = _probabilities(tuples), 1.0 + RESCALED_SUM_TOLERANCE
    terms = np.where((prob >= 0.0) & (prob <= most), prob, np.nan)
    total, terms = compensated_sums(tuples.lengths, terms), tuples.lengths
    total[total > most] = np.nan
    certain = (total > 1.0) | ((terms > 1) & (total >= 1.0 - terms * 2.0**-52))
    return np.where(certain, 1.0, total)


def compensated_sums(lengths: Ints, terms: Floats) -> Floats:
    """Return each row's sum of terms, added in order with compensation (Neumaier 1974)."""
    total, lost = np.zeros(len(lengths)), np.zeros(len(lengths))
    starts = offsets_of(lengths)[:-1]
    for j in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > j)
        term, before = terms[starts[rows] + j], total[rows]
        larger = before + term
        low, high = np.minimum(before, term), np.maximum(before, term)
        total[rows] = larger
        lost[rows] += (high - larger) + low
    return total + lost


def lists_of_lengths(flat: pa.Array, lengths: Ints, missing: Bools | None = None) -> pa.Array:
    """Return lists of these lengths, which together contain `flat`; NULL where `missing`."""
    offsets = pa.array(offsets_of(lengths), pa.int32())
    mask = None if missing is None or not missing.any() else pa.array(missing)
    return pa.ListArray.from_arrays(offsets, flat, mask=mask)


def pruned(given: pa.Array, min_prob: float, top: int, normalize: bool) -> pa.StructArray:
    """Return each row's most probable alternatives and the others' probability; see `prune`."""
    tuples = UncertainTable(pa.table({ALTERNATIVES: given}))
    prob, owner, exists = _probabilities(tuples), tuples.owner, existence_of(tuples)
    order = np.lexsort((-prob, owner))  # stable
    rank = np.empty(len(prob), np.int64)
    rank[order] = np.arange(len(prob)) - offsets_of(tuples.lengths)[owner]
    nulls = given.is_null().to_numpy(False)
    missing = np.isnan(exists) | nulls
    kept = ((rank < top) & ((prob >= min_prob) | (rank == 0))) | missing[owner]
    lengths = np.bincount(owner, kept, len(exists)).astype(np.int64)
    lost = compensated_sums(tuples.lengths - lengths, prob[~kept])
    flat = tuples.flat.filter(pa.array(kept))
    if normalize:
        held = compensated_sums(lengths, prob[kept])
        with np.errstate(invalid="ignore", divide="ignore"):
            by = np.where(missing, 1.0, exists / held)[owner[kept]]
        fields = fields_of(flat)
        unknown = fields["prob"].is_null().to_numpy(False)
        fields["prob"] = pa.array(prob[kept] * by, pa.float64(), mask=unknown)
        mask = flat.is_null() if flat.null_count else None
        flat = pa.StructArray.from_arrays([*fields.values()], [*fields], mask=mask)
    lists = lists_of_lengths(flat, lengths, nulls)
    lost_column = pa.array(lost, pa.float64(), mask=missing)
    return pa.StructArray.from_arrays([lists, lost_column], [ALTERNATIVES, PRUNED])


def fused(measurements: Sequence[pa.Array], names: Sequence[str]) -> pa.StructArray:
    """Return the fused alternatives of measurements, with attributes `names`, and the conflict."""
    columns = [UncertainTable(pa.table({ALTERNATIVES: given})) for given in measurements]
    rows = len(measurements[0])
    absent = np.ones(rows)
    known, wrong = np.zeros((len(columns), rows), np.bool_), np.zeros(rows, np.bool_)
    for j, tuples in enumerate(columns):
        known[j] = tuples.column.is_valid().to_numpy(False)
        exists = existence_of(tuples)
        wrong |= known[j] & np.isnan(exists)
        absent = absent * np.where(known[j], 1.0 - exists, 1.0)
    owner = np.concatenate([tuples.owner for tuples in columns])
    source = np.repeat(np.arange(len(columns)), [len(tuples.owner) for tuples in columns])
    prob = np.concatenate([_probabilities(tuples) for tuples in columns])
    values = normalize_zeros(
        pa.table([pa.chunked_array([of.fields[n] for of in columns]) for n in names], [*names])
    )
    value, first = group_rows(values.append_column("", pa.array(owner)))
    first = first[: len(owner)]  # none without alternatives
    joint, row = np.ones(len(first)), owner[first]
    for j in range(len(columns)):
        own = source == j
        weight = np.bincount(value[own], prob[own], len(first))
        joint *= np.where(known[j][row], weight, 1.0)
    # A value in all columns first appears in the first column that is not NULL.
    kept = np.flatnonzero((joint > 0.0) & ~wrong[row])
    kept = kept[np.lexsort((first[kept], row[kept]))]
    total = absent.copy()
    np.add.at(total, row[kept], joint[kept])
    lengths = np.bincount(row[kept], minlength=rows)
    parts = [pa.array(joint[kept] / total[row[kept]])]
    parts += map(as_array, values.take(pa.array(first[kept])).columns)
    flat = pa.StructArray.from_arrays(parts, ["prob", *names])
    unknown = wrong | ~known.any(axis=0)
    conflict = pa.array(np.maximum(1.0 - total, 0.0), pa.float64(), mask=unknown)
    lists = lists_of_lengths(flat, lengths, lengths == 0)
    return pa.StructArray.from_arrays([lists, conflict], [ALTERNATIVES, CONFLICT])


def _probabilities(tuples: UncertainTable) -> Floats:
    return floats_of(as_doubles(tuples.fields["prob"], "`prob`"))
