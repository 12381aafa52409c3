"""Aggregates over sessions of uncertain tuples, driven by punctuations."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.windows import sessions
from sfumato.kernels.windows.extents import COMPLETION, NO_INDEX, SCOPE, ReleasedRows
from sfumato.kernels.windows.sessions import SESSION
from sfumato.limits import MAX_TIME_US
from sfumato.operators.arguments import microseconds
from sfumato.operators.arrays import Ints, pad
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.distributions.discrete_distributions import DistributionOptions
from sfumato.operators.distributions.independent_distribution import check_aggregates
from sfumato.operators.state.declared import Array, Record, Value
from sfumato.operators.state.tuple_batch import GroupedBatch, check_held
from sfumato.operators.windows.extent_aggregate import (
    EXTENT_COUNTERS,
    NO_SCOPE,
    SAVED_FIELDS,
    TIME_BOUNDS,
    Extents,
    ReleasedAggregate,
    as_numbers,
    extents_of_groups,
    restored,
    with_codes,
)

NO_SESSION = np.array((0,) * 5 + (NO_INDEX, 0, 0), SESSION)
SAVED_SESSION_FIELDS = 5  # leading fields of a session that are saved


@dataclass(frozen=True)
class SessionConfig:
    """Arguments of a `SessionAggregate`."""

    gap: int
    max_length: int | None
    aggregates: tuple[Aggregate, ...]
    members: bool = False
    attributes: int | None = None
    options: DistributionOptions = field(default_factory=DistributionOptions)

    def __post_init__(self) -> None:
        check_aggregates(self)
        microseconds("gap", self.gap)
        if self.max_length is not None:
            microseconds("max_length", self.max_length)


class SessionAggregate(ReleasedAggregate):
    """Aggregates over sessions: the rows of a group with less than `gap` between neighbours.

    gap, max_length : as for `sf.Session`, int > 0 microseconds; max_length may be None
    members, attributes, options, and groups, scopes and late rows : as for `ExtentAggregate`

    A session starts at its first row and ends `gap` after its last row, at most `max_length` after
    its start. A session is completed by punctuations, like an extent, and emitted once. Sessions
    are emitted in order of completion, then of (end, group).

    - A row joins and merges the open sessions that are less than `gap` away, while `max_length`
      permits; otherwise it starts a session. A late row does not join sessions that its own
      punctuation completes. A row is counted as `late` if a session of this row alone would
      already be complete.
    - Results are computed when a session is complete, from its tuples by (time, arrival).

    Cost: O(1) per tuple, and O(open sessions + held tuples) per call. Memory: the tuples of open
    sessions.
    """

    kind, version = "session_aggregate", 2
    flattened_records = ("options",)
    config: SessionConfig
    state = {
        "scopes": Array(int, "scopes", SAVED_FIELDS, **TIME_BOUNDS),
        "groups": Array(int, "groups", low=int(NO_INDEX)),
        "sessions": Array(int, "sessions", SAVED_SESSION_FIELDS, **TIME_BOUNDS),
        "held": Record(GroupedBatch),
        "counts": Array(int, len(EXTENT_COUNTERS), low=0),
        "next": Value(low=0),
    }

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._bounds = self.config.gap, self.config.max_length or MAX_TIME_US * 2
        self._scopes, self._sessions = np.empty(0, SCOPE), np.empty(0, SESSION)
        self.groups = np.empty(0, np.int64)  # scope of each group, NO_INDEX for unknown groups
        # Tuples of open sessions in order of arrival; `group` is the place of the session.
        self.held = GroupedBatch.empty(attributes=self.attributes)
        self._empty_result = self._results(self.held, np.empty(0, np.int64))

    def _process_rows(self, rows: ReleasedRows) -> tuple[Extents, int]:
        n, known = rows.number.size, len(self._sessions)
        self._scopes = with_codes(self._scopes, rows.scope, NO_SCOPE)
        self.groups = pad(self.groups, int(rows.group.max(initial=-1)) + 1, NO_INDEX)
        self.groups[rows.group] = rows.scope
        found = np.concatenate([self._sessions, np.zeros(n, SESSION)])
        found["changed"][:known] = -1
        heads, places = np.full(len(self.groups), NO_INDEX), np.empty(n, np.int64)
        completions = np.empty(2 * n, COMPLETION)
        count, closed, excluded = sessions.assign_sessions(
            rows, *self._bounds, self._scopes, heads, found, known, places, self.verdicts,
            completions,
        )  # fmt: skip
        completions, self._sessions = completions[:closed], found[:count]
        completions = completions[np.argsort(completions["scope"], kind="stable")]
        root, done, turn, at = sessions.find_complete(
            self._sessions, self._scopes, completions, *self._bounds
        )
        of = rows.offsets, rows.prob, rows.values, rows.number
        arrived = GroupedBatch(*of, places, rows.time, rows.number)
        held = GroupedBatch.concat([self.held, arrived.take(places != NO_INDEX)])
        self.held = replace(held, group=root[held.group]) if held.size else held
        return self._complete(done, turn, at), excluded

    def idle_groups(self) -> Ints:
        """Return groups without open sessions, for `forget`.  O(groups)."""
        known = np.flatnonzero(self.groups != NO_INDEX)
        return np.setdiff1d(known, self._sessions["group"])

    def forget(self, groups: Ints) -> None:
        """Delete the state of these groups, except their scopes; their codes may be reused."""
        self.groups[groups] = NO_INDEX

    def close(self, groups: Ints) -> Extents:
        """Complete the sessions of groups, and delete the groups and their scopes. Each group must
        be the only one in its scope, and have the code of the scope."""
        complete = self.idle(groups)
        self.groups[groups], self._scopes[groups] = NO_INDEX, NO_SCOPE
        return complete

    def idle(self, scopes: npt.ArrayLike | None = None) -> Extents:
        of = self._sessions["scope"]
        done = np.flatnonzero(np.full(of.size, True) if scopes is None else np.isin(of, scopes))
        ends, of = self._ends(done), of[done]
        np.maximum.at(self._scopes["closed"], of, ends)
        at = np.maximum(self._scopes["punctuation"], self._scopes["closed"] - 1)[of]
        return self._complete(done, np.zeros(done.size, np.int64), at)

    @property
    def held_tuples(self) -> int:
        return self.held.size

    @property
    def numbers(self) -> Ints:
        """Row numbers of the held tuples, counted over all rows so far, ascending."""
        return self.held.number

    def before_saving(self) -> None:
        self.scopes = as_numbers(self._scopes)[:, :SAVED_FIELDS]
        self.sessions = as_numbers(self._sessions)[:, :SAVED_SESSION_FIELDS]

    def after_loading(self) -> None:
        self._scopes = restored(self.scopes, NO_SCOPE)
        self._sessions = restored(self.sessions, NO_SESSION)
        held, of = self.held, self._sessions
        check_held(held.offsets, held.prob, held.values)
        codes = [(self.groups, len(self._scopes)), (of["group"], len(self.groups))]
        if any(code.size and code.max() >= known for code, known in codes):
            raise ValueError("groups must belong to known scopes, and sessions to known groups")
        if of.size and (of["group"].min() < 0 or (self.groups[of["group"]] != of["scope"]).any()):
            raise ValueError("sessions must belong to known groups")
        if (np.unique(held.group) != np.arange(len(of))).any() or len(of) > held.size:
            raise ValueError("every session must have tuples, and every tuple must have a session")
        early, late = of["start"][held.group], of["last"][held.group]
        if ((held.time < early) | (held.time > late)).any() or (np.diff(held.number) <= 0).any():
            raise ValueError("tuples must be inside their sessions, in order of arrival")

    def _ends(self, places: Ints) -> Ints:
        gap, most = self._bounds
        of = self._sessions[places]
        return np.minimum(of["last"] + gap, of["start"] + most)

    def _complete(self, done: Ints, turn: Ints, at: Ints) -> Extents:
        """Remove and return the sessions `done`, completed by rows `turn` and punctuations `at`."""
        left = self._sessions["into"] == NO_INDEX
        left[done] = False
        ends = self._ends(done)
        order = np.lexsort((self._sessions["group"][done], ends, turn))
        done, ends, at = done[order], ends[order], at[order]
        complete = self._empty_result
        if done.size:
            rank = np.full(left.size, NO_INDEX)
            rank[done] = np.arange(done.size)
            inside = rank[self.held.group] != NO_INDEX
            tuples = self.held.take(inside)
            code = rank[tuples.group]
            of, by = self._sessions[done], np.lexsort((tuples.time, code))
            found = self._results(tuples.take(by), code[by])
            complete = replace(
                found, start=of["start"].copy(), end=ends, group=of["group"].copy(),
                punctuation=at, late=of["late"].copy(),
            )  # fmt: skip
            self.held = self.held.take(~inside)
        if not left.all():
            place = np.cumsum(left) - 1
            self.held = replace(self.held, group=place[self.held.group])
            self._sessions = self._sessions[left]
        return complete

    def _results(self, tuples: GroupedBatch, code: Ints) -> Extents:
        """Return the results of sessions 0, 1, ...; each session is computed as one extent."""
        config = self.config
        found = extents_of_groups(
            code, tuples, config.aggregates, config.options, members=config.members
        )
        if found.members is None:
            return found
        return replace(found, members=tuples.number[found.members])
