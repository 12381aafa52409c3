"""What earlier values and dependencies are asked of, whatever holds rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from sfumato.operators.imputation.discovery import MOST_TOLD, NothingDiscovered
from sfumato.tables.disorder.released import ARRIVAL
from sfumato.tables.imputation.earlier_values import EarlierValuesTableConfig
from sfumato.tables.operator import ROW
from sfumato.tables.reading.controlled import ARRIVED, MARKS
from sfumato.tables.reading.forgetting import forget_after_of
from sfumato.tables.reading.frame import ADDED, NUMBERS, Frame
from sfumato.tables.reading.input import Cells, Column, Doubles, Reading, Ties, marks_of
from sfumato.tables.reading.names import names
from sfumato.tables.reading.outputs import NUMBER, Output, passed
from sfumato.tables.reading.shared_rows import calls_from_user
from sfumato.tables.scope import scope_of


class EarlierValuesQuery:
    """The columns that the arguments of `earlier_values` name.

    added : fixed name -> what the column is called in the result
    """

    def __init__(
        self,
        frame: Frame,
        attributes: str | Sequence[str],
        order: str,
        key: str | Sequence[str] | None,
    ) -> None:
        self.frame = frame
        self.attributes = frame.resolved("attributes", attributes)
        if not self.attributes:
            raise ValueError("`attributes` must name at least one column of numbers; got none")
        frame.require_numbers("attributes", self.attributes)
        self.order, self.keys = frame.one("order", order), frame.keys("key", key)
        if not frame.is_time(self.order) and frame.kind(self.order) not in NUMBERS:
            raise TypeError(
                f"`order` must be a timestamp or a number; `{self.order}` is "
                f"{frame.shown(self.order)}"
            )
        self.added: dict[str, str] = {}
        for i, attribute in enumerate(self.attributes):
            self.added |= {f"earlier{i}": f"earlier_{attribute}", f"age{i}": f"age_{attribute}"}
        frame.require_free([*self.added.values()])
        frame.require_late()
        frame.require_described()
        frame.require_event_time("order", [self.order])
        self.controlled = frame.marks_late([self.order])
        known = frame.says("punctuation") or []
        self.scope = scope_of(self.keys, known, "values cannot be known") if self.controlled else ()
        self.arrival = self._arrival() if self.controlled else None

    def _arrival(self) -> str:
        """The column by which the controller took the rows. Raises ValueError where it is gone."""
        found = self.frame.with_role(ARRIVED)
        if found:
            return found[0]
        raise ValueError(
            f"the rows were reordered, but the {self.frame.noun} does not have the column of their "
            "arrival any more, in whose order late rows become known: keep it, or leave the late "
            "rows out and drop `late` and `punctuation`"
        )

    @property
    def reading(self) -> Reading:
        """How the operator reads the frame."""
        values: list[tuple[str, Cells]] = []
        values += [(f"value{i}", Doubles(name)) for i, name in enumerate(self.attributes)]
        if self.arrival is not None:
            values += [*marks_of(MARKS), (ARRIVAL, Column(self.arrival))]
        passed, tie = tuple(self.frame.columns), Ties(self.frame.tied)
        return Reading(passed, (self.order,), tuple(self.keys), tuple(values), tie=tie)

    @property
    def outputs(self) -> list[Output]:
        """The columns of the result."""
        added = [
            Output(name, (fixed,), NUMBER, {ADDED: "true"}) for fixed, name in self.added.items()
        ]
        return [*passed(self.frame, self.frame.columns, ROW), *added]

    def config(self, forget_after: str | timedelta | float | None) -> EarlierValuesTableConfig:
        """The operator's configuration."""
        return EarlierValuesTableConfig(
            attributes=len(self.attributes),
            keys=len(self.keys),
            scope=self.scope if self.controlled else None,
            by_source=self.controlled and self.frame.by_source,
            forget_after=forget_after_of(self.frame, self.order, self.keys, forget_after),
        )


def discovered_of(frame: Frame, attributes: str | Sequence[str] | None, max_rows: int) -> list[str]:
    """The columns among which dependencies are looked for, by `discover_dependencies`."""
    if isinstance(max_rows, bool) or not isinstance(max_rows, int) or max_rows < 2:
        raise ValueError(f"`max_rows` must be a whole number of at least 2; got {max_rows!r}")
    wanted = names("attributes", attributes)
    if not wanted:
        wanted = [name for name in frame.columns if frame.kind(name) in NUMBERS]
    if len(wanted) < 2:
        raise ValueError(f"`attributes` must be at least two columns of numbers; got {wanted}")
    frame.require_numbers("attributes", wanted)
    return wanted


def with_values(wanted: Sequence[str], known: Mapping[str, int]) -> list[str]:
    """Return the columns in which some value is a finite number; warn of the others.

    known : how many rows have one, for each column
    """
    empty = [name for name in wanted if not known[name]]
    if empty:
        said = ", ".join(f"`{name}`" for name in empty)
        _warn(f"{said} left out: no row has a finite number there")
    return [name for name in wanted if known[name]]


def warn_of_gaps(wanted: Sequence[str], known: Mapping[str, int], rows: int, complete: int) -> None:
    """Warn where less than half of the rows, or fewer than two, have all columns.

    known : as for `with_values`    complete : rows that have all
    """
    if len(wanted) < 2:
        _warn("no dependency found: fewer than two columns have values")
        return
    if 2 * complete >= rows and complete > 1:
        return
    emptiest = sorted(wanted, key=lambda name: known[name])[:MOST_TOLD]
    gaps = ", ".join(
        f"`{name}` ({1 - known[name] / rows:.0%} missing)"
        for name in emptiest
        if known[name] < rows
    )
    hint = f": {gaps}. Name `attributes` without them to look at more rows" if gaps else ""
    have = f"{complete:,} of {rows:,} rows have a finite number in every column{hint}"
    _warn(f"no dependency found: {have}" if complete < 2 else f"only {have}")


def dependents_left(
    dependents: Iterable[str] | None, wanted: Sequence[str], left: Sequence[str]
) -> list[str] | None:
    """Return the dependents but for the columns of `wanted` that are not `left`."""
    if dependents is None:
        return None
    gone = set(wanted) - set(left)
    return [name for name in dependents if name not in gone]


def _warn(text: str) -> None:
    warnings.warn(
        f"discover_dependencies: {text}", NothingDiscovered, stacklevel=calls_from_user() + 1
    )
