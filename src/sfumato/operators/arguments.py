"""Checks of arguments. Errors name the argument, the expected value and the given value."""

import math
from typing import Any

import numpy as np

from sfumato.kernels.tolerances import SUM_TOLERANCE as SUM_TOLERANCE
from sfumato.limits import MAX_TIME_US

OUTPUTS = ("append", "changes")
RESCALED_SUM_TOLERANCE = 1e-6  # for rescaled values in single precision
MAX_ABS_VALUE = 1e140  # above this, values are rejected: sums of squares would overflow
NO_LIMIT = 2**62  # above every count


def distance(name: str, value: Any) -> float:
    """Return `value` as a float, or raise ValueError unless it is positive and finite."""
    number = float(value)
    if not (math.isfinite(number) and number > 0.0):
        raise ValueError(f"`{name}` must be a positive, finite distance; got {value!r}")
    return number


def whole(name: str, value: Any, what: str = "an integer of at least 1") -> int:
    """Return `value` as an int, or raise ValueError unless it is an integer of at least 1."""
    number = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not number or not 1 <= value < NO_LIMIT:
        raise ValueError(f"`{name}` must be {what}; got {value!r}")
    return int(value)


def microseconds(name: str, value: Any) -> int:
    """Return `value` as an int, or raise ValueError unless it is a duration in microseconds."""
    if not 0 < whole(name, value) <= MAX_TIME_US:
        raise ValueError(f"`{name}` must be from 1 to 2**60 microseconds; got {value}")
    return int(value)


def share(name: str, value: Any, what: str = "a probability") -> float:
    """Return `value` as a float, or raise ValueError unless it is in (0, 1]."""
    if not isinstance(value, int | float | np.number) or not 0.0 < value <= 1.0:
        raise ValueError(f"`{name}` must be {what} in (0, 1]; got {value!r}")
    return float(value)


def quantile_level(what: str, value: Any) -> float:
    """Return `value` as a float, or raise ValueError unless it is a number in [0, 1]. `what` names
    the value in the error."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0.0 <= value <= 1.0:
        raise ValueError(f"{what} must lie in [0, 1]; got {value!r}")
    return float(value)


def scaling_pairs(given: Any) -> dict[str, tuple[float, float]]:
    """Return the argument `scaling` as a dictionary of (shift, span); empty for None."""
    try:
        pairs = {} if given is None else dict(given)
        return {name: (float(shift), float(span)) for name, (shift, span) in pairs.items()}
    except (TypeError, ValueError):
        raise TypeError(
            '`scaling` must give (shift, span) by column name, like {"temperature": (-20.0, '
            f"60.0)}}; got {given!r:.80}"
        ) from None


def check_times(name: str, times: np.ndarray) -> None:
    """Raise ValueError unless all times are within MAX_TIME_US microseconds of 1970."""
    if times.size and max(int(times.max()), -int(times.min())) > MAX_TIME_US:
        raise ValueError(
            f"`{name}` must lie within 2**60 microseconds of 1970; got {int(times.min())} to "
            f"{int(times.max())}. Reject such rows first"
        )


def flag(name: str, value: Any) -> bool:
    """Return `value`, or raise TypeError unless it is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"`{name}` must be True or False; got {value!r}")
    return value


def one_of(name: str, value: str, choices: tuple[str, ...]) -> str:
    """Return `value`, or raise ValueError unless it is one of `choices`."""
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(choices)}; got {value!r}")
    return value
