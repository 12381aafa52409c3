"""Tuples and their alternatives as validated flat arrays."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt

from sfumato.operators.arguments import MAX_ABS_VALUE, SUM_TOLERANCE
from sfumato.operators.arrays import Floats, Ints
from sfumato.operators.state.columns import Columns
from sfumato.operators.state.declared import Array, Offsets


@dataclass(frozen=True)
class TupleBatch(Columns, flat=("prob", "values"), begins="offsets", axis=1):
    """Batch of n tuples of one group, with m alternatives and `a` attributes.

    offsets : int64[n + 1]    prob : float64[m]    values : float64[a, m], NaN for no value
    index : int64[n], each tuple's index within its group
    """

    offsets: Annotated[Ints, Offsets("tuples", "alternatives")]
    prob: Annotated[Floats, Array(float, "alternatives", low=0.0)]
    values: Annotated[Floats, Array(float, "attributes", "alternatives")]
    index: Annotated[Ints, Array(int, "tuples")]

    @property
    def size(self) -> int:
        return self.index.size


@dataclass(frozen=True)
class GroupedBatch(TupleBatch):
    """Batch of several groups, with a group code, event time and number per tuple, int64[n]."""

    group: Annotated[Ints, Array(int, "tuples")]
    time: Annotated[Ints, Array(int, "tuples")]
    number: Annotated[Ints, Array(int, "tuples")]


def checked_alternatives(
    n: int, offsets: npt.ArrayLike, prob: npt.ArrayLike, values: npt.ArrayLike, attributes: int
) -> tuple[Ints, Floats, Floats]:
    """Return (offsets, prob, values as float64[attributes, m]) of n tuples, for kernels.

    Raises TypeError for offsets that are not integers, and ValueError for inconsistent lengths,
    probabilities outside (0, 1] and values beyond +-MAX_ABS_VALUE.
    """
    offsets = codes("offsets", offsets, n + 1)
    prob = np.require(prob, np.float64, ["C", "W"])
    table = np.asarray(values, np.float64)
    if offsets[0] != 0 or (np.diff(offsets) < 0).any():
        raise ValueError("`offsets` must start at 0 and not decrease")
    if prob.shape != (offsets[-1],):
        raise ValueError(
            f"`prob` must have {offsets[-1]} entries, the last offset; got {prob.shape}"
        )
    if table.ndim != 2 or table.shape[0] != prob.size or table.shape[1] < attributes:
        raise ValueError(
            f"`values` must have one row per alternative ({prob.size}) and at least {attributes} "
            f"columns, one per attribute; got {table.shape}"
        )
    if prob.size and not (prob.min() > 0.0 and prob.max() <= 1.0 + SUM_TOLERANCE):
        raise ValueError(
            "`prob` must have probabilities in (0, 1]: reject or repair other tuples first"
        )
    if (np.abs(table) > MAX_ABS_VALUE).any():
        raise ValueError(f"`values` must be within +-{MAX_ABS_VALUE:g}, or NaN for no value")
    return offsets, prob, np.require(table.T[:attributes], np.float64, ["C", "W"])


def check_certain(n: int, prob: Floats) -> None:
    """Raise ValueError unless n tuples have one alternative each, with probability 1."""
    if prob.size != n or (prob != 1.0).any():
        raise ValueError("tuples of a certain window must each have one alternative, with `prob` 1")


def check_held(offsets: Ints, prob: Floats, values: Floats) -> None:
    """Raise ValueError for restored tuples that no operator would have accepted."""
    if (np.diff(offsets) < 1).any():
        raise ValueError("every held tuple must have alternatives")
    sums = np.add.reduceat(prob, offsets[:-1]) if prob.size else prob
    if not ((prob > 0.0).all() and (sums <= 1.0 + 2 * SUM_TOLERANCE).all()):
        raise ValueError(
            "alternatives must have positive probabilities that sum to at most 1 per tuple"
        )
    if (np.abs(values) > MAX_ABS_VALUE).any():
        raise ValueError(f"held values must be within +-{MAX_ABS_VALUE:g}, or NaN for no value")


def codes(name: str, values: npt.ArrayLike, n: int) -> Ints:
    """Return int64[n], contiguous and writable. Raises TypeError or ValueError."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise TypeError(f"`{name}` must be an array of int64; got {array.dtype}")
    if array.shape != (n,):
        raise ValueError(f"`{name}` must have {n} entries; got shape {array.shape}")
    return np.require(array, np.int64, ["C", "W"])
