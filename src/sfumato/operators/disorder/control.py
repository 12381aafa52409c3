"""Settings of a disorder controller, which estimates punctuations."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from sfumato.kernels.disorder import state

ESTIMATORS = ("conformal", "normal", "max")
SENT = "sent"  # not an estimator: rows carry their punctuation
WAIT_OPTIONS = {"drop_ratio": "DRATIO", "slack": "SLACK", "max_delay": "MAX_DELAY"}
GUARD_DROP_RATIO = 0.01  # default drop ratio of the guard


@dataclass(frozen=True)
class DisorderControl:
    """Validated settings of a disorder controller; the fields are parameters of `Punctuator`."""

    drop_ratio: float | None = None
    slack: int | None = None
    estimator: str | None = None
    max_buffer: int | None = None
    rounding: str = "ceiling"
    averaged: bool = False
    guard: bool = True
    max_delay: int | None = None
    max_ahead: int | None = None
    max_behind: int | None = None
    max_buffer_total: int | None = None

    def __post_init__(self) -> None:
        for name, value in [*vars(self).items()]:
            if isinstance(value, np.generic):  # plain numbers, for snapshots
                object.__setattr__(self, name, value.item())
        if self.estimator not in (None, SENT, *ESTIMATORS):
            raise ValueError(
                f"`estimator` must be one of {', '.join(ESTIMATORS)}; got {self.estimator!r}"
            )
        if self.rounding not in ("ceiling", "floor"):
            raise ValueError(f"`rounding` must be 'ceiling' or 'floor'; got {self.rounding!r}")
        self._check_wait_options()
        self._check_drop_ratio()
        if self.averaged and self.estimator != "max":
            raise ValueError(
                "`averaged` needs estimator='max': write both, or leave `averaged` out"
            )
        for name, value, least in (
            ("slack (SLACK)", self.slack, 0),
            ("max_buffer (BSIZE)", self.max_buffer, 1),
            ("max_buffer_total (BSIZE_TOTAL)", self.max_buffer_total, 1),
        ):
            if value is not None:
                check_count(name, value, least)

    def _check_wait_options(self) -> None:
        given = [name for name in WAIT_OPTIONS if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(
                f"{' and '.join(f'`{n}` ({WAIT_OPTIONS[n]})' for n in given)} cannot be combined: "
                "leave one of them out"
            )
        full = self.is_bounded and self.estimator is None
        if not given and self.estimator not in ("max", SENT) and not full:
            raise ValueError(
                "one of `drop_ratio` (DRATIO), `slack` (SLACK), `max_delay`, `max_buffer` (BSIZE), "
                "`punctuation` or estimator='max' (MAX) is needed; got none"
            )
        fixed = {"slack": "sort buffer", "max_delay": "delay"}
        for name in given:
            if name in fixed and self.estimator is not None:
                raise ValueError(
                    f"`{name}` ({WAIT_OPTIONS[name]}) is a fixed {fixed[name]} and needs no "
                    f"estimator; got estimator={self.estimator!r}. Leave one of them out"
                )
        for name in ("max_delay", "max_ahead", "max_behind"):
            delay = getattr(self, name)
            if delay is not None and not (type(delay) is int and 0 <= delay < 2**58):
                raise ValueError(
                    f"`{name}` must be an integer number of microseconds, at least 0 and "
                    f"below 2**58; got {delay!r}"
                )

    def _check_drop_ratio(self) -> None:
        ratio = self.drop_ratio
        if ratio is None:
            return
        if self.estimator in ("max", SENT):
            raise ValueError(
                f"estimator={self.estimator!r} cannot be controlled by a drop ratio; got "
                f"drop_ratio={ratio}. Leave `drop_ratio` out, or use estimator='normal' or "
                "'conformal'"
            )
        if isinstance(ratio, bool) or not isinstance(ratio, (int, float)):
            raise TypeError(f"`drop_ratio` (DRATIO) must be a number; got {type(ratio).__name__}")
        if not 0.0 < ratio <= 0.5:
            raise ValueError(
                f"`drop_ratio` (DRATIO) must be a share in (0, 0.5], like 0.01 for 1%; got {ratio}"
            )

    @property
    def is_bounded(self) -> bool:
        """Return whether a full buffer releases rows."""
        return self.max_buffer is not None or self.max_buffer_total is not None

    @property
    def kernel(self) -> state.Control:
        """The settings in the form that kernels expect."""
        ratio = float(self.drop_ratio or GUARD_DROP_RATIO)
        if self.slack is not None:
            estimator = state.SLACK
        elif self.max_delay is not None:
            estimator = state.FIXED
        elif self.estimator == SENT:
            estimator = state.CARRIED
        elif self.estimator == "max":
            estimator = state.AVERAGED if self.averaged else state.LARGEST
        elif self.drop_ratio is None:
            estimator = state.FULL
        else:
            estimator = state.NORMAL if self.estimator == "normal" else state.CONFORMAL
        return state.Control(
            estimator=estimator,
            drop_ratio=ratio,
            slack=int(self.slack or 0),
            deviations=NormalDist().inv_cdf(ratio) ** 2,
            floor=self.rounding == "floor",
            max_delay=int(self.max_delay or 0),
            guard=bool(self.guard) and self.estimator != SENT,
            max_buffer=min(self.max_buffer or 1 << 40, self.max_buffer_total or 1 << 40)
            if self.is_bounded
            else 0,
            max_buffer_total=int(self.max_buffer_total or 0),
            max_ahead=state.UNBOUNDED if self.max_ahead is None else self.max_ahead,
            max_behind=state.UNBOUNDED if self.max_behind is None else self.max_behind,
        )


def check_count(name: str, value: object, least: int) -> None:
    """Raise TypeError or ValueError unless `value` is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"`{name}` must be an integer number of rows; got {value!r}")
    if not least <= value < 2**40:
        raise ValueError(f"`{name}` must be at least {least} and below 2**40 rows; got {value}")


@dataclass(frozen=True)
class ReorderConfig:
    """Settings of `Reorder`.

    control : settings of each controller    by_source : whether keys have several sources
    expected_sources : number of sources that must have sent rows before a key's rows are released
    """

    control: DisorderControl
    by_source: bool = False
    expected_sources: int | None = None

    def __post_init__(self) -> None:
        if self.by_source and self.control.max_buffer_total is not None:
            raise ValueError(
                "`max_buffer_total` and `source` cannot be combined, because a bound on the rows "
                "of all keys cannot limit rows that wait for a slower source. Leave one of the "
                "two out"
            )
        if self.expected_sources is not None:
            if not self.by_source:
                raise ValueError(
                    "`expected_sources` needs `source`, the column that names the sources"
                )
            check_count("expected_sources", self.expected_sources, 1)
