"""TOP queries that share everything but k and FREQUENCY, grouped before any is answered."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sfumato.duration import spelled
from sfumato.sql.plan.ranking_words import Asked, asked
from sfumato.sql.plan.sources import Frame
from sfumato.sql.text.grammar import tokens
from sfumato.sql.text.syntax import Body, Clause, FromClause, start_of


@dataclass
class RankingGroup:
    """TOP queries over the same table, window, filter and ranking, and what answers them.

    wanted : (k, FREQUENCY in microseconds or None) of each;  members : the names of their
    statements, one a query, where these have names;  key : the words that say what is ranked
    """

    wanted: list[tuple[int, int | None]] = field(default_factory=list)
    members: list[str] = field(default_factory=list)
    key: tuple[str, ...] = ()
    frame: Frame | None = None

    def labels(self) -> dict[tuple[int, int | None], str]:
        """What each query is called in state and in files: the same whichever others there are."""
        return {
            (k, every): f"top_{k}" + (f" every {spelled(every)}" if every else "")
            for k, every in self.wanted
        }

    def names(self) -> dict[tuple[int, int | None], str]:
        """What the queries are called: top_3, and `top_3 every 2 min` to tell two apart."""
        several = {k for k, _ in self.wanted if sum(k == other for other, _ in self.wanted) > 1}
        return {
            (k, every): f"top_{k}" + (f" every {spelled(every)}" if k in several and every else "")
            for k, every in self.wanted
        }


class RankingGroups:
    """The TOP queries of one script, or of several that are planned one after the other."""

    def __init__(
        self, *, fold: bool, share: Callable[[RankingGroup, Frame], Frame] | None = None
    ) -> None:
        """fold : whether names that differ in case only are the same
        share : given a group's answers, what its queries are to read instead, so that a run whose
            parts go different ways need not be repeated; called once per group of named queries"""
        self.fold, self._share = fold, share
        self._groups: dict[tuple[str, ...], RankingGroup] = {}
        self._of: dict[
            tuple[str, int], RankingGroup
        ] = {}  # by text, and where the query's TOP stands

    def gather(self, body: Body, text: str, name: str = "") -> None:
        """Note the TOP queries of a statement. Those in nested queries, and those over common
        tables, which another statement may define otherwise, are planned by themselves."""
        if body.ctes or not body.is_query:
            return
        for block in body.blocks():
            wish = asked([clause for clause in block if isinstance(clause, Clause)], text)
            if wish is not None:
                key = self._signature(block, text)
                group = self._groups.setdefault(key, RankingGroup(key=key))
                self._add(group, wish, text, name)

    def group_of(self, wish: Asked, text: str) -> RankingGroup:
        """The queries that are planned with this one."""
        place = (text, start_of(wish.top[0]))
        if place not in self._of:
            self._add(RankingGroup(), wish, text, "")
        return self._of[place]

    def shared(self, group: RankingGroup, answers: Frame) -> Frame:
        """What the queries of a group read as the answers to all of them."""
        if self._share is None or not any(group.members):
            return answers
        return self._share(group, answers)

    def groups(self) -> list[RankingGroup]:
        """All that were gathered, in order."""
        return list(self._groups.values())

    def _add(self, group: RankingGroup, wish: Asked, text: str, name: str) -> None:
        if (wish.k, wish.every) not in group.wanted:
            group.wanted.append((wish.k, wish.every))
        group.members.append(name)
        self._of[text, start_of(wish.top[0])] = group

    def _signature(self, block: Sequence[Clause | FromClause], text: str) -> tuple[str, ...]:
        """The words that say what is ranked."""
        parts = []
        for word in ("FROM", "WHERE", "GROUP_BY", "HAVING", "RANK_BY"):
            for clause in block:
                if clause.word == word:
                    words = tokens(text[clause.start : clause.end])
                    exact = ("STRING",) if self.fold else ("STRING", "NAME", "BACKQUOTED")
                    parts += [str(t) if t.type in exact else t.lower() for t in words]
                    parts.append(";")
        return tuple(parts)
