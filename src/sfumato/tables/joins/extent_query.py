"""What a join of extents is asked for, and the configuration that follows, whatever holds rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from sfumato.duration import microseconds
from sfumato.tables.joins.extent_join import ExtentJoinTableConfig
from sfumato.tables.joins.join import SIDES
from sfumato.tables.reading.forgetting import check_keys
from sfumato.tables.reading.frame import Frame
from sfumato.tables.reading.input import Alternatives, Cells, Column, Reading
from sfumato.tables.reading.names import names
from sfumato.tables.reading.outputs import NUMBER, Output, Part, pairs_of, row_of
from sfumato.tables.reading.shared_rows import PAIRS, SHARED
from sfumato.tables.reading.tuples import ALTERNATIVES
from sfumato.tables.scope import joined_scope


class ExtentJoinQuery:
    """Both frames of `extent_join`, the keys of each, and the attributes `on`, checked.

    Raises ValueError for frames without extents, or that lack attributes.
    """

    def __init__(
        self,
        frames: Sequence[Frame],
        key: str | Sequence[str] | None,
        on: str | Sequence[str] | None,
        within: float | None,
        probability: float | None,
    ) -> None:
        self.frames = dict(zip(SIDES, frames, strict=True))
        self.attributes = names("on", on)
        self.within, self.probability = within, probability
        similar = [value is not None for value in (on, within, probability)]
        if any(similar) and not all(similar):
            raise ValueError("`on`, `within` and `probability` go together: give all three or none")
        for side, frame in self.frames.items():
            called = f"the {side} {frame.noun}"
            if not frame.is_extents:
                raise ValueError(
                    f"{called} has no column `window` of extents: make it with "
                    f"{frame.prefix}window_aggregate(..., window=sf.Range(...))"
                )
            lacking = [a for a in self.attributes if a not in frame.attributes]
            if lacking:
                raise ValueError(
                    f"`on` names {lacking}, which the alternatives of {called} lack; they "
                    f"have {frame.attributes}"
                )
        self.keys = {s: f.keys(f"key of the {s} {f.noun}", key) for s, f in self.frames.items()}

    def reading(self, side: str) -> Reading:
        """How the operator reads the frame of a side."""
        values: list[tuple[str, Cells]] = [("window", Column("window"))]
        values += [(ALTERNATIVES, Alternatives())] if self.attributes else []
        passed, key = tuple(self.frames[side].columns), tuple(self.keys[side])
        return Reading(passed, key=key, values=tuple(values), tie=None)

    @property
    def outputs(self) -> list[Output]:
        """The columns of the result."""
        left = self.frames["left"]
        found = [Output("window", ("window",), left.type("window"), left.metadata("window"))]
        for side, frame in self.frames.items():
            found.append(Output(side, (side,), row_of(frame, frame.columns)))
        if self.attributes:
            pairs = pairs_of(
                *(
                    [Part(f"{side}_{a}", frame.attribute_type(a)) for a in frame.attributes]
                    for side, frame in self.frames.items()
                )
            )
            said = {SHARED: PAIRS}
            found.append(Output(ALTERNATIVES, (ALTERNATIVES,), pairs, said))
            found.append(Output("probability", ("probability",), NUMBER, said))
        return found

    def config(self, forget_after: str | timedelta | None) -> ExtentJoinTableConfig:
        """The operator's configuration."""
        keys, forgotten = self.keys["left"], None
        if forget_after is not None:
            check_keys(keys)
            forgotten = float(microseconds("forget_after", forget_after))
        return ExtentJoinTableConfig(
            keys=len(keys),
            scope=joined_scope(keys, *(f.says("window") or [] for f in self.frames.values())),
            on=tuple(self.attributes),
            within=self.within,
            probability=self.probability,
            forget_after=forgotten,
            max_alternatives=self.frames["left"].max_alternatives,
        )
