"""What is known of the groups of an extent aggregate and of the scopes that share punctuations."""

import numpy as np

from sfumato.kernels.windows.extents import NEVER, SCOPE, number_tuples
from sfumato.operators.arrays import Ints, longer
from sfumato.operators.state.declared import Array
from sfumato.operators.state.stateful import Stateful
from sfumato.operators.state.tuple_batch import GroupedBatch

SCOPE_FIELDS = SCOPE.names or ()
WITHIN = {"low": NEVER, "high": 3 - NEVER}  # of restored times and numbers of extents
NEW = {"scope_of": -1, "arrived": 0, "previous": NEVER, "reach": NEVER}


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
            self.scopes = longer(self.scopes, scopes + scopes // 4, NEVER)
        self.scope_of[group] = scope

    def closed(self, group: Ints) -> Ints:
        """Number of the last complete extent of each group's scope."""
        return self.scopes["closed"][self.scope_of[group]]

    def forget(self, codes: Ints, *, scopes: bool = False) -> None:
        """Be as if no row of these groups had come; scopes : nor of the scopes with these codes."""
        for name, value in NEW.items():
            getattr(self, name)[codes] = value
        if scopes:
            for name in SCOPE_FIELDS:
                self.scopes[name][codes] = NEVER

    def number(self, tuples: GroupedBatch, judged: np.ndarray) -> None:
        """Give tuples that an extent takes their index in their group; judged : JUDGED[n]."""
        number_tuples(tuples.group, judged, self.arrived, self.reach, tuples.index)
