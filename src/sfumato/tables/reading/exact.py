"""Integers and decimals with more digits than a double, split into several doubles.

Operators compute with doubles, so a value is split into parts that doubles represent exactly:

- For sums and the first and last value, 22-bit limbs. Sums of limbs are integers below 2**53
  for up to 2**31 rows, so they are exact in any order.
- For minima and maxima, a non-negative half and a negative half, one of which is NaN. Each half has
  2**63 possible values, which map to doubles in the same order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.operators.arrays import Bools, Floats, Ints
from sfumato.tables.reading.types import unscaled

LIMB_BITS = 22  # bits; the other 31 bits of a double are for sums
WORD_BITS = 64  # bits
MAX_WORD_DIGITS = 18  # decimals with at most this many digits fit in one word
MAX_DIGITS = 38  # maximum precision of decimals
SUM_DIGITS = 10  # digits that a sum adds to the precision of decimals, as in Spark
ORDERED_FUNCTIONS = ("min", "max")
EXACT_FUNCTIONS = ("sum", "first", "last", *ORDERED_FUNCTIONS)
HALF_SHIFT = 2**62  # shift that makes each half symmetric about 0
SMALLEST_NORMAL_BITS = 2**52  # bit pattern of the smallest normal double


@dataclass(frozen=True)
class ExactNumber:
    """An aggregate of integers or decimals.

    bits : size of an unscaled value: 32, 64 or 128    ordered : split into halves, not limbs
    precision, scale : type of decimal results; precision 0 for integers (int64)
    """

    bits: int
    ordered: bool
    precision: int = 0
    scale: int = 0

    @property
    def parts(self) -> int:
        return 2 if self.ordered else len(self._weights)

    @property
    def _weights(self) -> list[int]:
        """Return the exponent of 2 by which each limb is multiplied."""
        word = min(self.bits, WORD_BITS)
        lows = range(0, self.bits, WORD_BITS)
        return [low + at for low in lows for at in range(0, word, LIMB_BITS)]

    def split(self, values: pa.Array) -> list[Floats]:
        """Return float64[n] per part of n values, with NaN for NULL."""
        missing = values.is_null().to_numpy(zero_copy_only=False)
        if pa.types.is_decimal(values.type):
            words = unscaled(values)
        else:
            words = pc.fill_null(values.cast(pa.int64()), 0).to_numpy()[:, np.newaxis]
        parts = _split_words(words[:, 0]) if self.ordered else self._limbs(words)
        for part in parts:
            part[missing] = np.nan
        return parts

    def join(self, function: str, parts: Sequence[Floats]) -> pa.Array:
        """Combine the results of parts; NaN becomes NULL. Raises ValueError if a sum overflows."""
        if self.ordered:
            total, missing = _extreme(function, parts)
        else:
            missing = np.isnan(parts[0])
            total = self._totals([np.where(missing, 0.0, part) for part in parts])
        if not self.precision:
            return pa.array(total.astype(np.int64), mask=missing)
        data = b"".join(value.to_bytes(16, "little", signed=True) for value in total.tolist())
        buffers = [pa.array(~missing).buffers()[1], pa.py_buffer(data)]
        kind = pa.decimal128(self.precision, self.scale)
        return pa.Decimal128Array.from_buffers(kind, len(total), buffers)

    def _limbs(self, words: Ints) -> list[Floats]:
        limbs = []
        for weight in self._weights:
            number, shift = divmod(weight, WORD_BITS)
            word = words[:, number]
            if (number + 1) * WORD_BITS < self.bits:  # only the highest word has a sign
                word = word.view(np.uint64)
            limb = word >> word.dtype.type(shift)
            if shift + LIMB_BITS < min(self.bits, WORD_BITS):
                limb &= word.dtype.type(2**LIMB_BITS - 1)
            limbs.append(limb.astype(np.float64))
        return limbs

    def _totals(self, limbs: Sequence[Floats]) -> np.ndarray:
        """Return the numbers with these limbs: int64[n], or objects if they may be larger."""
        least, most = -(2**63), 2**63
        if self.precision:
            least, most = 1 - 10**self.precision, 10**self.precision
        weights = self._weights
        near = np.abs(sum(limb * 2.0**w for limb, w in zip(limbs, weights, strict=True)))
        fits = self.bits <= WORD_BITS and near.max(initial=0.0) < 0.5 * min(most, 2**63)
        whole = [limb.astype(np.int64).astype(np.int64 if fits else object) for limb in limbs]
        total: Any = sum(limb * 2**w for limb, w in zip(whole, weights, strict=True))
        beyond = [] if fits else [n for n in total.tolist() if not least <= n < most]
        if not beyond:
            return total
        kind, shown, other = "bigint", f"{beyond[0]}", " or decimal(38, 0)"
        if self.precision:
            kind, other = f"decimal({self.precision}, {self.scale})", ""
            shown += f"e-{self.scale}"
        raise ValueError(
            f"a sum in `aggregates` must fit in {kind}; got {shown}. Cast the column to "
            f"double{other} first"
        )


def exact_number(function: str, kind: pa.DataType) -> ExactNumber | None:
    """Return the exact form of an aggregate of integers or decimals; None for doubles."""
    ordered = function in ORDERED_FUNCTIONS
    if function not in EXACT_FUNCTIONS:
        return None
    if pa.types.is_integer(kind):
        least = 32 if function == "sum" else 64
        return ExactNumber(kind.bit_width, ordered) if kind.bit_width >= least else None
    if not pa.types.is_decimal(kind):
        return None
    precision = kind.precision
    if precision > MAX_DIGITS or (ordered and precision > MAX_WORD_DIGITS):
        return None
    digits = min(MAX_DIGITS, precision + SUM_DIGITS) if function == "sum" else precision
    words = 1 if precision <= MAX_WORD_DIGITS else 2
    return ExactNumber(words * WORD_BITS, ordered, digits, kind.scale)


def _split_words(values: Ints) -> list[Floats]:
    """Return the non-negative and the negative values as doubles in the same order."""
    halves = []
    for negative in (False, True):
        shifted = values + (HALF_SHIFT if negative else -HALF_SHIFT)
        half = np.copysign((np.abs(shifted) + SMALLEST_NORMAL_BITS).view(np.float64), shifted)
        half[shifted == 0] = 0.0
        half[(values < 0) != negative] = np.nan
        halves.append(half)
    return halves


def _extreme(function: str, halves: Sequence[Floats]) -> tuple[Ints, Bools]:
    """Return the extremes of values from the extremes of halves, and whether each is missing."""
    decoded = []
    for half, shift in zip(halves, (HALF_SHIFT, -HALF_SHIFT), strict=True):
        size = np.abs(half).view(np.int64) - SMALLEST_NORMAL_BITS
        decoded.append(np.where(half == 0.0, 0, np.where(half < 0.0, -size, size)) + shift)
    undefined = [np.isnan(half) for half in halves]
    first = 0 if function == "max" else 1
    values = np.where(undefined[first], decoded[1 - first], decoded[first])
    missing = undefined[0] & undefined[1]
    values[missing] = 0
    return values, missing
