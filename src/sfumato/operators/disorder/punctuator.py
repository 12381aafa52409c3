"""Disorder control: how far event time has come, judged from the rows that arrived."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from sfumato.kernels.disorder import conformal_experts, normal_delay, state
from sfumato.kernels.disorder.controller import new_key, punctuate
from sfumato.kernels.disorder.future_guard import WARM_UP
from sfumato.kernels.disorder.state import NEVER
from sfumato.operators.state.snapshot import Snapshot, SnapshotError, pack, unpack

KIND, VERSION = "punctuator", 2
ESTIMATORS = ("normal", "conformal", "max")
FARTHEST = 1 << 58  # microseconds from 1970, about the year 11,000: beyond it times are one
COUNTERS = {
    "rows": state.COUNT,
    "late": state.LATE,
    "future": state.FUTURE,
    "forced": state.FORCED,
    "expelled": state.EXPELLED,
    "out_of_order": state.OUT_OF_ORDER,
}


@dataclass(frozen=True)
class DisorderControl:
    """How the punctuation is estimated; checks itself. The fields are those of `Punctuator`."""

    drop_ratio: float | None = None
    slack: int | None = None
    estimator: str | None = None
    max_buffer: int | None = None
    rounding: str = "ceiling"
    averaged: bool = False
    guard: bool = True

    def __post_init__(self) -> None:
        if self.estimator is not None and self.estimator not in ESTIMATORS:
            raise ValueError(
                f"`estimator` must be one of {', '.join(ESTIMATORS)}; got {self.estimator!r}"
            )
        if self.rounding not in ("ceiling", "floor"):
            raise ValueError(f"`rounding` must be 'ceiling' or 'floor'; got {self.rounding!r}")
        self._check_slack()
        self._check_drop_ratio()
        if self.averaged and self.estimator != "max":
            raise ValueError(
                "`averaged` is a variant of estimator='max'; set that, or leave it out"
            )
        if self.max_buffer is not None:
            _check_count("max_buffer (BSIZE)", self.max_buffer, 1)

    def _check_slack(self) -> None:
        if self.slack is None:
            return
        if self.drop_ratio is not None:
            raise ValueError(
                f"`drop_ratio` (DRATIO) and `slack` (SLACK) exclude each other; got "
                f"drop_ratio={self.drop_ratio} and slack={self.slack}: give one of them"
            )
        if self.estimator is not None:
            raise ValueError(
                f"`slack` (SLACK) is a fixed sort buffer and needs no estimator; got "
                f"estimator={self.estimator!r}: leave one of them out"
            )
        _check_count("slack (SLACK)", self.slack, 0)

    def _check_drop_ratio(self) -> None:
        ratio = self.drop_ratio
        if ratio is None:
            if self.slack is None and self.estimator != "max":
                raise ValueError(
                    "one of `drop_ratio` (DRATIO), `slack` (SLACK) or estimator='max' (MAX) is "
                    "needed; got none"
                )
            return
        if self.estimator == "max":
            raise ValueError(
                f"estimator='max' (MAX) cannot be steered by a drop ratio; got drop_ratio={ratio}: "
                "leave it out, or take estimator='normal' or 'conformal'"
            )
        if isinstance(ratio, bool) or not isinstance(ratio, (int, float, np.number)):
            raise TypeError(f"`drop_ratio` (DRATIO) must be a number; got {type(ratio).__name__}")
        if not 0.0 < ratio <= 0.5:
            raise ValueError(
                f"`drop_ratio` (DRATIO) must be a share in (0, 0.5], 0.01 for 1%; got {ratio}"
            )

    @property
    def code(self) -> int:
        """The estimator's number in the kernels."""
        if self.slack is not None:
            return state.SLACK
        if self.estimator == "max":
            return state.AVERAGED if self.averaged else state.LARGEST
        return state.CONFORMAL if self.estimator == "conformal" else state.NORMAL

    @property
    def parameters(self) -> np.ndarray:
        """float64[2] for the kernels."""
        if self.code == state.SLACK:
            return np.array([float(self.slack or 0), 0.0])
        if self.code == state.NORMAL:
            z = NormalDist().inv_cdf(float(self.drop_ratio or 0.5))
            return np.array([z * z, float(self.rounding == "floor")])
        return np.array([float(self.drop_ratio or 0.0), 0.0])

    @property
    def values(self) -> dict[str, object]:
        """The fields, for a snapshot."""
        ratio = None if self.drop_ratio is None else float(self.drop_ratio)
        rows = [None if n is None else int(n) for n in (self.slack, self.max_buffer)]
        return {
            "drop_ratio": ratio,
            "slack": rows[0],
            "estimator": self.estimator,
            "max_buffer": rows[1],
            "rounding": self.rounding,
            "averaged": self.averaged,
            "guard": self.guard,
        }


def _check_count(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"`{name}` must be a whole number of rows; got {value!r}")
    if not least <= value < 2**40:
        raise ValueError(f"`{name}` must be at least {least} and below 2**40 rows; got {value}")


class KeyController:
    """The disorder controller of one key: config, compiled logic, and four arrays of state.

    Cost of a call: some 5 microseconds, and per row what `kernels.punctuation.punctuate` says.
    """

    __slots__ = ("area", "control", "held", "ints", "parameters", "reals")

    def __init__(self, control: DisorderControl) -> None:
        self.control = control
        self.parameters = control.parameters
        self.ints, self.reals = new_key()
        self.area = np.empty(0, np.int64)
        self.held = np.empty((3, 0), np.int64)

    def extend(self, event_time: np.ndarray, arrival: np.ndarray) -> tuple:
        """(punctuation, late, expelled_at, expelled) of further arrivals; see `punctuate`."""
        self._make_room(len(event_time))
        control = self.control
        return punctuate(
            event_time,
            arrival,
            control.code,
            self.parameters,
            control.guard,
            int(control.max_buffer or 0),
            self.ints,
            self.reals,
            self.area,
            self.held,
        )

    def _make_room(self, rows: int) -> None:
        if self.control.max_buffer is not None:
            wanted = min(self.control.max_buffer, int(self.ints[state.HELD]) + rows) + 1
            if self.held.shape[1] < wanted:
                held = np.empty((3, _capacity(wanted)), np.int64)
                held[:, : self.held.shape[1]] = self.held
                self.held = held
        code = self.control.code
        size = int(self.ints[state.SIZE])
        if code == state.SLACK:
            wanted = min(int(self.control.slack or 0), size + rows) + 1
            if len(self.area) < wanted:
                self.area = np.concatenate(
                    [self.area, np.zeros(_capacity(wanted) - len(self.area), np.int64)]
                )
        elif code == state.NORMAL:
            wanted = size + rows + WARM_UP  # rows from before the guard knew are fed later
            self._make_room_in_ring(min(wanted, normal_delay.LONGEST) + 1)
        elif code == state.CONFORMAL:
            level = int(self.ints[state.LEVEL])
            self.area, level = conformal_experts.make_room(self.area, level, self.rows + rows)
            self.ints[state.LEVEL] = level

    def _make_room_in_ring(self, wanted: int) -> None:
        capacity = len(self.area) // 2
        if capacity >= wanted:
            return
        ring = self.area.reshape(2, capacity)
        ring = np.roll(ring, -int(self.ints[state.HEAD]), axis=1)
        wider = np.zeros((2, _capacity(wanted)), np.int64)
        wider[:, :capacity] = ring
        self.ints[state.HEAD] = 0
        self.area = wider.reshape(-1)

    @property
    def rows(self) -> int:
        """How many rows arrived."""
        return int(self.ints[state.COUNT])

    @property
    def punctuation(self) -> int:
        """The punctuation in force, the int64 minimum while there is none."""
        return int(self.ints[state.PUNCTUATION])

    def advance(self, punctuation: int) -> None:
        """Move the punctuation forward (never back): rows up to it have been released."""
        if punctuation <= self.punctuation:
            return
        self.ints[state.PUNCTUATION] = punctuation
        alive = self.held[:, : self.ints[state.HELD]]
        alive = alive[:, alive[0] > punctuation]
        alive = alive[:, np.lexsort((alive[1], alive[0]))]  # sorted, hence a heap
        self.ints[state.HELD] = alive.shape[1]
        self.held[:, : alive.shape[1]] = alive
        self.ints[state.ASIDE] = alive[2].sum()
        if self.control.code == state.SLACK:
            buffer = self.area[: self.ints[state.SIZE]]
            buffer = np.sort(buffer[buffer > punctuation])
            self.ints[state.SIZE] = len(buffer)
            self.area[: len(buffer)] = buffer

    @property
    def horizon(self) -> int:
        """The largest event time the guard believed at the last arrival; int64 maximum: any."""
        if not self.ints[state.GUARDED]:
            return -(NEVER + 1)
        count = int(self.ints[state.COUNT])
        last = state.WINDOW + state.RECENT + (count - 1) % state.RECENT
        return int(self.ints[last] - self.ints[state.BOUND])


def _capacity(wanted: int) -> int:
    return 1 << max(wanted - 1, 15).bit_length()


def pack_controllers(controllers: list[KeyController]) -> dict[str, np.ndarray]:
    """The state of many keys as seven arrays."""
    areas = [c.area for c in controllers]
    held = [c.held[:, : c.ints[state.HELD]] for c in controllers]
    none = np.empty((3, 0), np.int64)
    return {
        "ints": np.array([c.ints for c in controllers]).reshape(-1, state.INTS),
        "reals": np.array([c.reals for c in controllers]).reshape(-1, state.REALS),
        "area": np.concatenate([*areas, none[0]]),
        "area_size": np.array([len(a) for a in areas], np.int64),
        "heap": np.concatenate([*held, none], axis=1),
        "heap_size": np.array([h.shape[1] for h in held], np.int64),
    }


def unpack_controllers(
    control: DisorderControl, arrays: dict[str, np.ndarray]
) -> Iterator[KeyController]:
    """The controllers that `pack_controllers` packed."""
    if arrays["ints"].shape[1:] != (state.INTS,):
        raise SnapshotError("the snapshot's disorder controllers have another layout")
    area = np.split(arrays["area"], np.cumsum(arrays["area_size"]))
    heap = np.split(arrays["heap"], np.cumsum(arrays["heap_size"]), axis=1)
    for i, (ints, reals) in enumerate(zip(arrays["ints"], arrays["reals"], strict=True)):
        controller = KeyController(control)
        controller.ints, controller.reals = ints.copy(), reals.copy()
        controller.area, controller.held = area[i].copy(), heap[i].copy()
        yield controller


def as_microseconds(name: str, values: np.ndarray) -> np.ndarray:
    """int64[n], contiguous, of an array of int64 microseconds or of datetime64.

    Raises TypeError for another dtype and ValueError for another shape or a missing time (NaT).
    """
    array = np.asarray(values)
    if array.dtype.kind == "M":
        if np.isnat(array).any():
            raise ValueError(f"`{name}` must not miss a time; got NaT: leave such rows out")
        array = array.astype("datetime64[us]").astype(np.int64)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(
            f"`{name}` must be int64 microseconds (or datetime64); got {array.dtype}: "
            "convert seconds by (seconds * 1e6).astype('int64')"
        )
    if array.ndim != 1:
        raise ValueError(f"`{name}` must be one-dimensional; got shape {array.shape}")
    return np.ascontiguousarray(array, np.int64)


def within_range(time: np.ndarray) -> np.ndarray:
    """Times cut to +-FARTHEST, so that differences fit in int64; the same array if they are."""
    if len(time) and max(int(time.max()), -int(time.min())) > FARTHEST:
        return np.clip(time, -FARTHEST, FARTHEST)
    return time


class Punctuator:
    """Estimates, after each arrival, up to which event time the stream is complete.

    The punctuation never moves back. A row is late if, and only if, its event time is at or below
    the punctuation in force when it arrives.

    drop_ratio : DRATIO, the share of rows that may be late, in (0, 0.5]; with estimator "normal"
        (the default: normal delays and exponential gaps, C's measure) or "conformal" (no
        assumption on the delays: the share is steered by what was late so far)
    slack : SLACK, a sort buffer of so many rows; excludes `drop_ratio`
    estimator : "normal", "conformal", or "max": the largest delay seen (MAX), which needs neither
    max_buffer : BSIZE, rows held at most; wins over the estimator
    rounding : of the normal measure's n_p, "ceiling" (cautious) or "floor" (as printed in C)
    averaged : the averaged variant of "max"
    guard : set rows with an incredible event time in the future aside: they neither feed the
        estimator nor let a full buffer push the punctuation to them

    Memory: O(slack) or O(n_p) or a bounded sample (conformal), and O(max_buffer), reached only as
    rows arrive.  Raises ValueError or TypeError for parameters that are out of range or exclude
    each other.  Source: paper C; conformal: see `kernels.conformal_delay`.

    >>> punctuator = Punctuator(slack=1)
    >>> punctuator.extend(np.array([10, 30, 20]), np.array([11, 31, 32]))[1:].tolist()
    [10, 20]
    """

    def __init__(
        self,
        drop_ratio: float | None = None,
        *,
        slack: int | None = None,
        estimator: str | None = None,
        max_buffer: int | None = None,
        rounding: str = "ceiling",
        averaged: bool = False,
        guard: bool = True,
    ) -> None:
        self.control = DisorderControl(
            drop_ratio, slack, estimator, max_buffer, rounding, averaged, guard
        )
        self._controller = KeyController(self.control)

    def extend(self, event_time: np.ndarray, arrival: np.ndarray) -> np.ndarray:
        """Punctuations after each of the next arrivals; the state goes on from call to call.

        event_time, arrival : int64[n] microseconds (or datetime64), in order of arrival; where
            arrival decreases the row is processed as it comes and counted as out of order
        Returns int64[n] microseconds, the int64 minimum while no punctuation is known.
        Raises TypeError or ValueError for other dtypes, shapes or lengths.
        Cost: O(log slack) or O(1) amortised a row (millions of rows a second).
        """
        return self.extend_with_late(event_time, arrival)[0]

    def extend_with_late(
        self, event_time: np.ndarray, arrival: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(punctuation int64[n], late bool[n]): as `extend`, and which of the rows are late."""
        event_time = as_microseconds("event_time", event_time)
        arrival = as_microseconds("arrival", arrival)
        check_lengths(event_time, arrival)
        punctuation, late, _, _ = self._controller.extend(
            within_range(event_time), within_range(arrival)
        )
        return punctuation, late

    @property
    def punctuation(self) -> int:
        """The punctuation in force, int64 microseconds; the int64 minimum while there is none."""
        return self._controller.punctuation

    @property
    def counters(self) -> dict[str, int]:
        """rows, late (on arrival), future (set aside), forced (arrivals at which `max_buffer`
        pushed the punctuation), expelled (set aside, then pushed out of a full buffer)."""
        return {name: int(self._controller.ints[i]) for name, i in COUNTERS.items()}

    def snapshot(self) -> bytes:
        """The parameters and the state as versioned bytes. Cost: one copy of the state."""
        values = {"control": self.control.values}
        return pack(KIND, VERSION, Snapshot(values, pack_controllers([self._controller])))

    @classmethod
    def restore(cls, data: bytes) -> Punctuator:
        """The punctuator that `snapshot` saved. Raises SnapshotError for other bytes."""
        saved = unpack(data, KIND, VERSION)
        punctuator = cls(**saved.values["control"])
        (punctuator._controller,) = unpack_controllers(punctuator.control, dict(saved.arrays))
        return punctuator


def check_lengths(event_time: np.ndarray, arrival: np.ndarray) -> None:
    """Raise ValueError unless both arrays have one length."""
    if len(event_time) != len(arrival):
        raise ValueError(
            f"`event_time` and `arrival` must have one length; got {len(event_time)} and "
            f"{len(arrival)}"
        )
