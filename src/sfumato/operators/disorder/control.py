"""The estimation of punctuations: the settings of a disorder controller, checked."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from sfumato.kernels.disorder import state

ESTIMATORS = ("conformal", "normal", "max")
WAIT_OPTIONS = {"drop_ratio": "DRATIO", "slack": "SLACK", "max_delay": "MAX_DELAY"}
USUAL = 0.01  # drop ratio, where the guard needs one and none is given


@dataclass(frozen=True)
class DisorderControl:
    """Settings of the estimation of a punctuation; checks itself. The fields are those of
    `Punctuator`."""

    drop_ratio: float | None = None
    slack: int | None = None
    estimator: str | None = None
    max_buffer: int | None = None
    rounding: str = "ceiling"
    averaged: bool = False
    guard: bool = True
    max_delay: int | None = None

    def __post_init__(self) -> None:
        for name, value in [*vars(self).items()]:
            if isinstance(value, np.generic):  # plain numbers, for snapshots
                object.__setattr__(self, name, value.item())
        if self.estimator is not None and self.estimator not in ESTIMATORS:
            raise ValueError(
                f"`estimator` must be one of {', '.join(ESTIMATORS)}; got {self.estimator!r}"
            )
        if self.rounding not in ("ceiling", "floor"):
            raise ValueError(f"`rounding` must be 'ceiling' or 'floor'; got {self.rounding!r}")
        self._check_one_way()
        self._check_drop_ratio()
        if self.slack is not None:
            check_count("slack (SLACK)", self.slack, 0)
        if self.averaged and self.estimator != "max":
            raise ValueError(
                "`averaged` is a variant of estimator='max'; set that, or leave it out"
            )
        if self.max_buffer is not None:
            check_count("max_buffer (BSIZE)", self.max_buffer, 1)

    def _check_one_way(self) -> None:
        given = {
            name: getattr(self, name) for name in WAIT_OPTIONS if getattr(self, name) is not None
        }
        if len(given) > 1:
            raise ValueError(
                f"{' and '.join(f'`{n}` ({WAIT_OPTIONS[n]})' for n in given)} exclude each other; "
                f"got {' and '.join(f'{n}={v}' for n, v in given.items())}: give one of them"
            )
        full = self.max_buffer is not None and self.estimator is None
        if not given and self.estimator != "max" and not full:
            raise ValueError(
                "one of `drop_ratio` (DRATIO), `slack` (SLACK), `max_delay`, `max_buffer` (BSIZE) "
                "or estimator='max' (MAX) is needed; got none"
            )
        for name, what in (("slack", "sort buffer"), ("max_delay", "delay")):
            if name in given and self.estimator is not None:
                raise ValueError(
                    f"`{name}` ({WAIT_OPTIONS[name]}) is a fixed {what} and needs no estimator; "
                    f"got estimator={self.estimator!r}: leave one of them out"
                )
        delay = self.max_delay
        if delay is not None and not (type(delay) is int and 0 <= delay < 2**58):
            raise ValueError(
                f"`max_delay` must be whole microseconds from 0 to below 2**58; got {delay!r}"
            )

    def _check_drop_ratio(self) -> None:
        ratio = self.drop_ratio
        if ratio is None:
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
    def kernel(self) -> state.Control:
        """The settings as the kernels take them."""
        ratio = float(self.drop_ratio or USUAL)
        return state.Control(
            estimator=self._estimator,
            drop_ratio=ratio,
            slack=int(self.slack or 0),
            deviations=NormalDist().inv_cdf(ratio) ** 2,
            floor=self.rounding == "floor",
            max_delay=int(self.max_delay or 0),
            guard=bool(self.guard),
            max_buffer=int(self.max_buffer or 0),
        )

    @property
    def _estimator(self) -> int:
        if self.slack is not None:
            return state.SLACK
        if self.max_delay is not None:
            return state.FIXED
        if self.estimator == "max":
            return state.AVERAGED if self.averaged else state.LARGEST
        if self.drop_ratio is None:
            return state.FULL
        return state.NORMAL if self.estimator == "normal" else state.CONFORMAL


def check_count(name: str, value: object, least: int) -> None:
    """Raise TypeError or ValueError unless `value` is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"`{name}` must be a whole number of rows; got {value!r}")
    if not least <= value < 2**40:
        raise ValueError(f"`{name}` must be at least {least} and below 2**40 rows; got {value}")


@dataclass(frozen=True)
class ReorderConfig:
    """control : of each controller     by_source : a key's rows come from several sources
    expected_sources : how many must have spoken before anything of a key comes out
    """

    control: DisorderControl
    by_source: bool = False
    expected_sources: int | None = None

    def __post_init__(self) -> None:
        if self.expected_sources is not None:
            if not self.by_source:
                raise ValueError("`expected_sources` needs `source`: say which column names them")
            check_count("expected_sources", self.expected_sources, 1)
