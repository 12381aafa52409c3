"""Tuples with their alternatives as flat arrays: checked, taken, joined, saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.operators.arrays import Floats, Ints, chosen
from sfumato.operators.state.declared import Array, Declaration, Offsets

EXCESS = 1e-9  # what rounding may make of a probability beyond 1
MARKS = 4
GROUP, TIME, NUMBER, INDEX = range(MARKS)


@dataclass(frozen=True)
class TupleBatch:
    """n tuples, m alternatives of a attributes.

    marks : int64[MARKS, n]: group code, event time, number among all tuples, index in its group
    offsets : int64[n + 1]    prob : float64[m]    values : float64[a, m], NaN: no value
    """

    marks: Ints
    offsets: Ints
    prob: Floats
    values: Floats

    @classmethod
    def none(cls, attributes: int) -> TupleBatch:
        return cls(
            np.empty((MARKS, 0), np.int64),
            np.zeros(1, np.int64),
            np.empty(0),
            np.empty((attributes, 0)),
        )

    @property
    def size(self) -> int:
        """Tuples."""
        return self.marks.shape[1]

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in (self.marks, self.offsets, self.prob, self.values))

    def take(self, places: Ints) -> TupleBatch:
        """A copy of the tuples at some places, in that order."""
        if places.size and (np.diff(places) == 1).all():  # a range, as where there is one group
            first, end = int(places[0]), int(places[-1]) + 1
            begin, last = int(self.offsets[first]), int(self.offsets[end])
            return TupleBatch(
                self.marks[:, first:end].copy(),
                self.offsets[first : end + 1] - begin,
                self.prob[begin:last].copy(),
                self.values[:, begin:last].copy(),
            )
        offsets, flat = chosen(self.offsets, places)
        return TupleBatch(
            np.ascontiguousarray(self.marks[:, places]),
            offsets,
            self.prob[flat],
            np.ascontiguousarray(self.values[:, flat]),
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """Its arrays by name, for a snapshot."""
        return {
            "marks": self.marks,
            "offsets": self.offsets,
            "prob": self.prob,
            "values": self.values,
        }

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray]) -> TupleBatch:
        """The batch whose `arrays` these are."""
        return cls(arrays["marks"], arrays["offsets"], arrays["prob"], arrays["values"])


def layout_of(tuples: str, alternatives: str) -> dict[str, Declaration]:
    """How a batch is saved; the arguments name its lengths, `attributes` is one too."""
    return {
        "marks": Array(int, MARKS, tuples),
        "offsets": Offsets(tuples, alternatives),
        "prob": Array(float, alternatives, low=0.0),
        "values": Array(float, "attributes", alternatives),
    }


def joined(batches: Sequence[TupleBatch]) -> TupleBatch:
    """One batch of several, at least one."""
    if len(batches) == 1:
        return batches[0]
    begins = np.cumsum([0] + [batch.prob.size for batch in batches[:-1]])
    ends = [batch.offsets[1:] + begin for batch, begin in zip(batches, begins, strict=True)]
    return TupleBatch(
        np.concatenate([batch.marks for batch in batches], axis=1),
        np.concatenate([np.zeros(1, np.int64), *ends]),
        np.concatenate([batch.prob for batch in batches]),
        np.concatenate([batch.values for batch in batches], axis=1),
    )


def checked_alternatives(
    n: int, offsets: npt.ArrayLike, prob: npt.ArrayLike, values: npt.ArrayLike, attributes: int
) -> tuple[Ints, Floats, Floats]:
    """(offsets, prob, values as float64[attributes, m]) of n tuples, writable and contiguous.

    Raises TypeError for another dtype, ValueError for lengths that do not belong together and for
    probabilities outside (0, 1].
    """
    offsets = codes("offsets", offsets, n + 1)
    prob = np.require(prob, np.float64, ["C", "W"])
    table = np.asarray(values, np.float64)
    if offsets[0] != 0 or (np.diff(offsets) < 0).any():
        raise ValueError("`offsets` must start at 0 and not decrease")
    if prob.shape != (offsets[-1],):
        raise ValueError(f"`prob` must have {offsets[-1]} entries, as `offsets`; got {prob.shape}")
    if table.ndim != 2 or table.shape[0] != prob.size or table.shape[1] < attributes:
        raise ValueError(
            f"`values` must be [{prob.size}, {attributes} attributes or more], one row an "
            f"alternative; got {table.shape}"
        )
    if prob.size and not (prob.min() > 0.0 and prob.max() <= 1.0 + EXCESS):
        raise ValueError(
            "`prob` must hold probabilities in (0, 1]: reject or repair other tuples first"
        )
    return offsets, prob, np.ascontiguousarray(table.T[:attributes])


def codes(name: str, values: npt.ArrayLike, n: int) -> Ints:
    """int64[n], contiguous and writable; TypeError or ValueError for anything else."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise TypeError(f"`{name}` must be an array of int64; got {array.dtype}")
    if array.shape != (n,):
        raise ValueError(f"`{name}` must have {n} entries; got shape {array.shape}")
    return np.require(array, np.int64, ["C", "W"])
