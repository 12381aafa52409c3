"""Extents of groups, and the rows that miss them."""

from dataclasses import dataclass

import numpy as np

from sfumato.kernels.windows.extents import NO_EXTENT, SCOPE, late_of_extents, number_tuples
from sfumato.operators.arrays import Ints, longer
from sfumato.operators.laws.aggregate import Measured
from sfumato.operators.state.declared import Array
from sfumato.operators.state.stateful import Stateful
from sfumato.operators.state.tuple_batch import GroupedBatch

MAX_TIME_US = 2**60  # microseconds; event times lie within this, so that sums of them fit in int64


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
    if value > MAX_TIME_US:
        raise ValueError(f"`{name}` must be at most 2**60 microseconds; got {value}")
    return int(value)


def check_codes(group: Ints, scope: Ints, time: Ints) -> None:
    if group.size and min(int(group.min()), int(scope.min())) < 0:
        raise ValueError("`group` and `scope` must be codes 0, 1, 2, ...; got a negative one")
    if time.size and max(int(time.max()), -int(time.min())) > MAX_TIME_US:
        raise ValueError(
            f"`event_time` must lie within 2**60 microseconds of 1970; got {int(time.min())} to "
            f"{int(time.max())}: reject such rows first"
        )


SCOPE_FIELDS = SCOPE.names or ()
WITHIN = {"low": NO_EXTENT, "high": 3 - NO_EXTENT}  # of restored times and numbers of extents
NEW = {"scope_of": -1, "arrived": 0, "previous": NO_EXTENT, "reach": NO_EXTENT}


class ExtentGroups(Stateful):
    """Groups and scopes by code, with room for more at the end.

    scopes : SCOPE[scopes]    scope_of : int64[groups], -1: no row has come yet
    arrived, reach : int64[groups], see `number_tuples`
    previous : int64[groups], number of each group's last extent
    """

    state = {
        "saved_scopes": Array(int, len(SCOPE_FIELDS), "scopes", **WITHIN),
        "scope_of": Array(int, "groups", low=-1, high="scopes"),
        "arrived": Array(int, "groups", low=0),
        "previous": Array(int, "groups", **WITHIN),
        "reach": Array(int, "groups", **WITHIN),
    }

    def __init__(self) -> None:
        self.scopes = np.empty(0, SCOPE)
        self.scope_of, self.arrived, self.previous, self.reach = np.empty((4, 0), np.int64)

    @property
    def saved_scopes(self) -> Ints:
        """int64[fields, scopes]: the scopes as they are saved."""
        return np.array([self.scopes[name] for name in SCOPE_FIELDS]).reshape(len(SCOPE_FIELDS), -1)

    @saved_scopes.setter
    def saved_scopes(self, saved: Ints) -> None:
        self.scopes = np.empty(saved.shape[1], SCOPE)
        for name, column in zip(SCOPE_FIELDS, saved, strict=True):
            self.scopes[name] = column

    def check(self, group: Ints, scope: Ints) -> None:
        """Raise ValueError if a group changes its scope.  O(n), with new groups O(n log n)."""
        seen = not group.size or int(group.max()) < len(self.scope_of)
        if seen and (self.scope_of[group] == scope).all():
            return
        groups, first, rows = np.unique(group, return_index=True, return_inverse=True)
        wanted = scope[first]
        old = groups < len(self.scope_of)
        known = self.scope_of[groups[old]]
        wanted[old] = np.where(known < 0, wanted[old], known)
        wrong = np.flatnonzero(wanted[rows.reshape(-1)] != scope)
        if wrong.size:
            raise ValueError(
                f"`scope` must be the same for all rows of a group; got {scope[wrong[0]]} for "
                f"group {group[wrong[0]]} after {wanted[rows[wrong[0]]]}"
            )

    def take(self, group: Ints, scope: Ints) -> None:
        """Know the groups and scopes of some rows."""
        groups, scopes = int(group.max(initial=-1)) + 1, int(scope.max(initial=-1)) + 1
        if groups > len(self.scope_of):
            for name, value in NEW.items():
                setattr(self, name, longer(getattr(self, name), groups + groups // 4, value))
        if scopes > len(self.scopes):
            self.scopes = longer(self.scopes, scopes + scopes // 4, NO_EXTENT)
        self.scope_of[group] = scope

    def closed(self, group: Ints) -> Ints:
        """Number of the last complete extent of each group's scope."""
        return self.scopes["closed"][self.scope_of[group]]

    def forget(self, codes: Ints, *, scopes: bool = False) -> None:
        """Reset these groups; scopes : also the scopes with these codes."""
        for name, value in NEW.items():
            getattr(self, name)[codes] = value
        if scopes:
            for name in SCOPE_FIELDS:
                self.scopes[name][codes] = NO_EXTENT

    def number(self, tuples: GroupedBatch, judged: np.ndarray) -> None:
        """Give tuples that an extent takes their index in their group; judged : JUDGED[n]."""
        number_tuples(tuples.group, judged, self.arrived, self.reach, tuples.index)


class MissedRows(Stateful):
    """For each such row its group, and the first and last extent that has missed it.

    table : int64[3, k], in order of group
    """

    state = {"table": Array(int, 3, "missed", **WITHIN)}

    def __init__(self) -> None:
        self.table = np.empty((3, 0), np.int64)

    def add(self, group: Ints, first: Ints, last: Ints) -> None:
        """Rows missed by extents first ... last (those with first > last by none)."""
        some = first <= last
        if some.any():
            fresh = np.stack([group[some], first[some], last[some]])
            both = np.concatenate([self.table, fresh], axis=1)
            self.table = np.ascontiguousarray(both[:, np.argsort(both[0], kind="stable")])

    def of(self, extents: np.ndarray, groups: Ints) -> Ints:
        """int64[m]: how many rows each extent has missed."""
        group, first, last = self.table
        sides = [np.searchsorted(group, groups, side) for side in ("left", "right")]
        starts = np.stack(sides, axis=1)
        return np.diff(late_of_extents(extents, starts, first, last, np.empty(0, np.int64)))

    def leave(self, groups: Ints) -> None:
        """No extent of these groups comes out any more."""
        self.table = np.ascontiguousarray(self.table[:, ~np.isin(self.table[0], groups)])

    def forget(self, out: Ints) -> None:
        """out : int64[k], for each row the last extent of its group that cannot come out again."""
        if out.size:
            self.table = np.ascontiguousarray(self.table[:, self.table[2] > out])
