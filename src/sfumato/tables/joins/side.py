"""One of the two frames of a join: what it offers, and which of its columns the operator reads."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.tables.joins.metric import PLAIN, Metric
from sfumato.tables.reading.controlled import MARKS
from sfumato.tables.reading.frame import NUMBERS, Frame
from sfumato.tables.reading.input import Cells, Doubles, Reading, Rule, Samples, Ties, marks_of
from sfumato.tables.reading.outputs import NUMBER, Part
from sfumato.tables.reading.tuples import ALTERNATIVES


class JoinSide:
    """A frame of uncertain tuples; without alternatives each row is one, of its plain columns.

    on : the attributes that span the distance    alone : the other side is the same frame, which
        errors do not call left or right
    timed : whether a window goes by the order, which is a time
    imputed : the attributes and determinants, in the imputer's order, of a frame with missing
        values; None: there are none
    metric : what the distance is, which may bound the attributes
    """

    def __init__(
        self,
        frame: Frame,
        name: str,
        on: Sequence[str],
        order: str | Sequence[str],
        key: str | Sequence[str] | None,
        *,
        alone: bool = False,
        timed: bool = False,
        imputed: Sequence[str] | None = None,
        metric: Metric = PLAIN,
    ) -> None:
        self.frame, self.name, self.on, self.timed = frame, name, list(on), timed
        called = f"the {name} {frame.noun}"
        of = "" if alone else f" of {called}"
        if imputed is not None:
            self._require_plain(called)
        frame.require_late()
        frame.require_tuples()
        frame.require_described()
        self.orders = frame.resolved(f"order{of}", order)
        self.keys = frame.keys(f"key{of}", key)
        frame.require_orders(f"order{of}", self.orders)
        frame.require_event_time(f"order{of}", self.orders)
        self.attributes = frame.attributes if frame.uncertain else self.on
        lacking = [a for a in self.on if a not in self.attributes]
        if lacking:
            raise ValueError(
                f"`on` names {lacking}, which the alternatives{of} lack; "
                f"they have {self.attributes}"
            )
        self.points = self.on if frame.uncertain else frame.resolved(f"on{of}", self.on)
        self._check_points(f"on{of}")
        self.bounds = metric.bounds(self.points)
        if timed and not (len(self.orders) == 1 and frame.is_time(self.orders[0])):
            kinds = ", ".join(map(frame.shown, self.orders))
            raise TypeError(
                "`order` must be one timestamp, or whole microseconds, where `window` goes by "
                f"time; {'got' if alone else f'{called} has'} {kinds}"
            )
        if timed:
            frame.look_at_time("order", self.orders[0])
        self.imputed = None
        if imputed is not None:
            frame.require_numbers(f"impute, for {called}", imputed)
            self.imputed = frame.resolved(f"impute, for {called}", list(imputed))
        self.passed = [column for column in frame.columns if column != ALTERNATIVES]

    def _check_points(self, argument: str) -> None:
        """Raise TypeError for attributes that are not numbers."""
        if not self.frame.uncertain:
            self.frame.require_numbers(argument, self.points)
            return
        for name in self.points:
            if self.frame.attribute_kind(name) not in (*NUMBERS, "truth", "timestamp"):
                raise TypeError(
                    f"`{argument}`: attribute `{name}` must be of numbers; it is "
                    f"{self.frame.attribute_shown(name)}: cast it before"
                )

    @property
    def fields(self) -> list[Part]:
        """The fields of this side's attributes in the alternatives of a pair."""
        found = []
        for i, attribute in enumerate(self.attributes):
            near = attribute in self.on
            fixed = f"on{self.on.index(attribute)}" if near else f"a{i}"
            kind = NUMBER if near else self.frame.attribute_type(attribute)
            fixed = attribute if self.imputed is not None else fixed
            found.append(Part(f"{self.name}_{attribute}", kind, f"{self.name}_{fixed}"))
        return found

    def _require_plain(self, called: str) -> None:
        for taken in (ALTERNATIVES, "existence"):
            if taken in self.frame.columns:
                raise ValueError(
                    f"`impute`: {called} has a column `{taken}`, but joins of incomplete "
                    f"rows take rows that exist, with plain values: drop it, or use "
                    f"{self.frame.prefix}impute before the join"
                )

    def reading(self, aligned: bool) -> Reading:
        """How the operator reads the frame; `aligned`: with late rows and punctuations.

        Late rows are counted as late, and need not be valid.
        """
        values: list[tuple[str, Cells]]
        if self.imputed is None:
            values = [(ALTERNATIVES, Samples(tuple(self.points)))]
        else:
            values = [(f"value{i}", Doubles(name)) for i, name in enumerate(self.imputed)]
        values += marks_of(MARKS) if aligned else []
        orders = [f"order{i}" for i in range(len(self.orders))]
        rule = Rule(
            probabilities=self.imputed is None,
            attributes=() if self.imputed is not None else tuple(self.points),
            complete=(*orders, *(f"key{i}" for i in range(len(self.keys)))),
            timed=self.timed,
            bounds=() if self.imputed is not None else tuple(self.bounds),
            unless_late=aligned,
            max_alternatives=self.frame.max_alternatives,
        )
        passed, order, key = map(tuple, (self.passed, self.orders, self.keys))
        return Reading(passed, order, key, tuple(values), rule, Ties(self.frame.tied))

    @property
    def marks_late(self) -> bool:
        """Whether a controller marks the rows that came too late: these take no part."""
        return self.frame.marks_late(self.orders)

    @property
    def never_behind(self) -> bool:
        """Whether the rows are said to be those of one controller, see `reading.controlled`."""
        return self.frame.never_behind(self.orders, self.keys)

    @property
    def controlled_by(self) -> list[int] | None:
        """Numbers of the keys for each of which a controller stands before; None: of none."""
        found = self.frame.controller(self.orders, self.keys)
        return None if found is None else [self.keys.index(key) for key in found]
