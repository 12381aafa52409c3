"""What a similarity join is asked for, and the configuration that follows, whatever holds rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sfumato.duration import microseconds
from sfumato.limits import MAX_ALTERNATIVES
from sfumato.operators.arguments import flag
from sfumato.operators.joins.arrivals import Window, pair_of
from sfumato.tables.imputation.arguments import ImputationArguments
from sfumato.tables.joins.incomplete_join import IncompleteJoinTableConfig
from sfumato.tables.joins.join import ALTERNATIVES, SIDES, JoinTableConfig
from sfumato.tables.joins.metric import distance_of, finite
from sfumato.tables.joins.self_join import SelfJoinTableConfig
from sfumato.tables.joins.sharing import tasks_for, tasks_of
from sfumato.tables.joins.side import JoinSide
from sfumato.tables.joins.similarity_join import SimilarityJoinTableConfig
from sfumato.tables.reading.forgetting import forget_after_of
from sfumato.tables.reading.frame import Frame
from sfumato.tables.reading.names import names
from sfumato.tables.reading.outputs import NUMBER, TEXT, Output, pairs_of, row_of
from sfumato.tables.reading.shared_rows import PAIRS, SHARED, warn_of_shared


@dataclass(eq=False)
class JoinQuery:
    """The arguments of the similarity joins that say what a pair is, checked."""

    on: str | Sequence[str]
    within: float | Mapping[str, float]
    probability: float
    window: Window | Sequence[Window]
    order: str | Sequence[str]
    key: str | Sequence[str] | None
    strategy: str
    output: str
    alternatives: bool
    metric: str
    forget_after: str | timedelta | float | None
    tasks: int | None
    imputation: ImputationArguments | None = None
    max_alternatives = MAX_ALTERNATIVES  # of a row: that of the frames, see `sides`

    def __post_init__(self) -> None:
        self.attributes = names("on", self.on)
        if not self.attributes:
            raise ValueError("`on` must name at least one attribute; got none")
        if not names("order", self.order):
            raise ValueError("`order` must name the column(s) of the arrival order; got none")
        self.windows = pair_of(self.window)
        self.limit, self.distance = distance_of(self.within, self.attributes, self.metric)
        if self.imputation is not None:
            self._check_imputation(self.imputation)

    def sides(self, *frames: Frame) -> list[JoinSide]:
        """Both sides, of two frames, or of one that is joined with itself."""
        self.max_alternatives = frames[0].max_alternatives
        if self.imputation is not None:
            self.imputation = self.imputation.bounded(self.max_alternatives)
        imputed = None if self.imputation is None else self.imputation.settings.names
        timed = any(window.span is not None for window in self.windows)
        how: dict[str, Any] = {"alone": len(frames) == 1, "timed": timed, "imputed": imputed}
        how["metric"] = self.distance
        given = (self.attributes, self.order, self.key)
        for frame in frames:
            warn_of_shared("self_join" if len(frames) == 1 else "similarity_join", frame.shared())
        return [
            JoinSide(frames[i % len(frames)], side, *given, **how) for i, side in enumerate(SIDES)
        ]

    def outputs(self, sides: Sequence[JoinSide]) -> list[Output]:
        """Return the columns of the result."""
        said = {SHARED: PAIRS}
        found = [Output(s.name, (s.name,), row_of(s.frame, s.passed)) for s in sides]
        found.append(Output("probability", ("probability",), NUMBER, said))
        if self.alternatives:
            pairs = pairs_of(*(side.fields for side in sides))
            found.append(Output(ALTERNATIVES, (ALTERNATIVES,), pairs, said))
        if self.output == "changes":
            found.append(Output("change", ("change",), TEXT))
        return found

    def config(
        self, sides: Sequence[JoinSide], idle_timeout: str | timedelta | None
    ) -> JoinTableConfig:
        """The configuration of the join of two frames; a repository is looked at last."""
        chosen = self._chosen(sides[0]) | _alignment(sides, idle_timeout)
        if self.imputation is None:
            return SimilarityJoinTableConfig(**chosen, **self._compared(sides[0]))
        imputer = self.imputation.prepared(sides[0].frame)
        units = dict(zip(self.attributes, self.distance.scales, strict=bool(self.distance.scales)))
        return IncompleteJoinTableConfig(
            imputer=imputer,
            on=tuple(self.attributes),
            units=tuple(units[name] for name in self.imputation.settings.attributes if units),
            **chosen,
        )

    def config_alone(self, side: JoinSide) -> SelfJoinTableConfig:
        """The configuration of the join of a frame with itself."""
        chosen = self._chosen(side) | self._compared(side)
        never_behind = side.frame.never_behind(side.orders, [])
        return SelfJoinTableConfig(
            **chosen, marks_late=side.marks_late, one_controller=never_behind
        )

    def _check_imputation(self, imputation: ImputationArguments) -> None:
        """Raise ValueError for arguments that do not go with `impute`."""
        attributes, called = list(imputation.settings.attributes), imputation.function
        if set(self.attributes) != set(attributes):
            raise ValueError(
                f"`impute` must have as `attributes` those of `on`, {self.attributes}; got "
                f"{attributes}: to impute others, use {called} before the join"
            )
        if self.strategy != "auto":
            raise ValueError(
                "`strategy` has no meaning with `impute`, whose join is its own; got "
                f"{self.strategy!r}"
            )
        if self.distance.name != "euclidean":
            raise ValueError(
                f"`metric` of a join with `impute` must be euclidean; got {self.metric!r}: use "
                f"{called} before the join"
            )
        if self.tasks not in (None, 1):
            raise ValueError(
                f"`tasks` has no meaning with `impute`, whose tasks would each impute what the "
                f"others do; got {self.tasks!r}: use {called} before the join"
            )

    def _chosen(self, side: JoinSide) -> dict[str, Any]:
        """Of all configurations, by one of the sides."""
        order, keys = side.orders[0], side.keys
        return {
            "within": self.limit,
            "probability": finite("probability", self.probability),
            "windows": self.windows,
            "output": self.output,
            "alternatives": flag("alternatives", self.alternatives),
            "max_alternatives": self.max_alternatives,
            "orders": len(side.orders),
            "keys": len(keys),
            "forget_after": forget_after_of(side.frame, order, keys, self.forget_after),
        }

    def _compared(self, side: JoinSide) -> dict[str, Any]:
        """Of joins of rows without missing values: how they are compared, by how many tasks."""
        tasks, keys = self.tasks, len(side.keys)
        return {
            "strategy": self.strategy,
            "metric": self.distance,
            "on": tuple(f"on{i}" for i in range(len(self.attributes))),
            "tasks": tasks_for(self.windows, keys) if tasks is None else tasks_of(tasks),
        }


def _alignment(sides: Sequence[JoinSide], idle_timeout: str | timedelta | None) -> dict[str, Any]:
    """Whether rows wait for the slower side, and what else concerns time."""
    scopes = [side.controlled_by for side in sides]
    if any(scope is None for scope in scopes):
        if idle_timeout is not None:
            raise ValueError(
                "`idle_timeout` is for two sides with punctuations: put "
                f"{sides[0].frame.prefix}reorder before both, with no key or one that is part of "
                "`key`"
            )
        return {"pace_matters": all(side.frame.streams for side in sides)}
    idle = None if idle_timeout is None else microseconds("idle_timeout", idle_timeout)
    return {
        "aligned": tuple(tuple(scope or ()) for scope in scopes),
        "idle_timeout": None if idle is None else max(1, idle // 1000),
        "one_controller": all(side.never_behind for side in sides),
    }
