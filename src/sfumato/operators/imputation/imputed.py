"""What became of objects that were imputed."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.operators.arrays import Bools, Floats, Ints

Reasons = npt.NDArray[np.uint8]

REASONS = (
    "complete",
    "imputed",
    "no dependency with its determinants present",
    "no donors",
    "not finite",
)


@dataclass(frozen=True)
class Imputed:
    """What became of n objects; m alternatives of T attributes.

    offsets : int64[n + 1], of each object's alternatives; one that cannot be imputed has none
    prob : float64[m] in (0, 1], an object's sum to 1    values : float64[m, T], ascending by the
        first missing attribute, then the next, unless merged jointly; present ones as they were
    chosen : int64[n, T], which dependencies: bit i for number i of `Imputer.dependencies_of`, or
        PRESENT, MARGINAL, NOTHING (-1, -2, -3)
    reason : uint8[n], place in REASONS; from 2 on the object could not be imputed
    donors : int64[n, T], rows that lent values    spread : float64[n, T], how far these lie apart
    beyond : bool[n, T], donors lie farther apart than twice the least epsilon of the
        dependencies: they do not hold
    error : float64[n, T], how far values were moved to have few enough alternatives
    joint : bool[n], several attributes were taken together, from the same rows
    """

    offsets: Ints
    prob: Floats
    values: Floats
    chosen: Ints
    reason: Reasons
    donors: Ints
    spread: Floats
    beyond: Bools
    error: Floats
    joint: Bools

    @property
    def counts(self) -> dict[str, int]:
        """Objects by reason; they add up to n."""
        found = np.bincount(self.reason, minlength=len(REASONS))
        return dict(zip(REASONS, found.tolist(), strict=True))
