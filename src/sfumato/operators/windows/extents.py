"""Complete time extents as an answer, and checks of what they are made from."""

from dataclasses import dataclass

import numpy as np

from sfumato.operators.laws.aggregate import Ints, Measured

LONGEST = 2**60  # microseconds; event times lie within this, so that sums of them fit in int64


@dataclass(frozen=True)
class Extents:
    """Complete extents, m of them, in order of output.

    start, end : int64[m] microseconds: an extent holds start <= event time < end
    group : int64[m], codes    held : int64[m], its tuples
    punctuation : int64[m] microseconds, the one that completed it
    late : int64[m], rows of its group that it contains but that came too late for it
    results : per aggregate, as they were given
    offsets : int64[m + 1] and members : int64[k], numbers of its tuples among all rows so far, by
        pane and arrival, those that came late last; None if they are not asked for
    """

    start: Ints
    end: Ints
    group: Ints
    held: Ints
    punctuation: Ints
    late: Ints
    results: list[Measured]
    offsets: Ints | None = None
    members: Ints | None = None

    def __len__(self) -> int:
        return self.end.size


def microseconds(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value <= 0:
        raise ValueError(f"`{name}` must be a whole number of microseconds above 0; got {value!r}")
    if value > LONGEST:
        raise ValueError(f"`{name}` must be at most 2**60 microseconds; got {value}")
    return int(value)


def check_codes(group: Ints, scope: Ints, time: Ints) -> None:
    if group.size and min(int(group.min()), int(scope.min())) < 0:
        raise ValueError("`group` and `scope` must be codes 0, 1, 2, ...; got a negative one")
    if time.size and max(int(time.max()), -int(time.min())) > LONGEST:
        raise ValueError(
            f"`event_time` must lie within 2**60 microseconds of 1970; got {int(time.min())} to "
            f"{int(time.max())}: reject such rows first"
        )
