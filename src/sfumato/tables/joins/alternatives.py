"""The alternatives of the rows of a join: as samples, and those of its pairs."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.operators.arrays import Ints, offsets_of
from sfumato.operators.joins.answers import SampledTuples

ALTERNATIVES = "alternatives"


def attributes_at(
    rows: pa.Table, sample: npt.NDArray[np.int32], lengths: Ints
) -> dict[str, pa.Array]:
    """The attributes, by name, of samples of some rows' alternatives.

    lengths : int64[n], how many samples of each row are wanted    sample : which, row after row
    Raises ValueError for a sample that its row does not have: such a state was damaged.
    """
    alternatives = rows.column(ALTERNATIVES).combine_chunks()
    offsets = alternatives.offsets.to_numpy()
    place = np.repeat(offsets[:-1], lengths) + sample
    if (sample < 0).any() or (place >= np.repeat(offsets[1:], lengths)).any():
        raise ValueError("a pair is of a sample that its row does not have")
    wanted = alternatives.values.take(pa.array(place))
    return {f.name: wanted.field(f.name) for f in wanted.type if f.name != "prob"}


def samples_of(table: pa.Table, on: Sequence[str]) -> SampledTuples:
    """The alternatives of a table's rows, of the attributes `on`."""
    column = table.column(ALTERNATIVES).combine_chunks()
    offsets = offsets_of(np.diff(column.offsets.to_numpy()))
    flat = column.flatten()
    columns = [flat.field(name).to_numpy(zero_copy_only=False) for name in ("prob", *on)]
    prob, *points = (np.asarray(column, np.float64) for column in columns)
    return SampledTuples(offsets, np.require(prob, requirements="W"), np.stack(points, axis=1))
