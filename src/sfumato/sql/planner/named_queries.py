"""Queries with names that may read one another's answers, their TOP queries planned together."""

from collections.abc import Callable, Iterable, Mapping

from pyspark.sql import SparkSession

from sfumato.spark.model.outside_text import is_trusted
from sfumato.spark.runtime.run import operators_of
from sfumato.sql.plan.ranking_groups import RankingGroup, RankingGroups
from sfumato.sql.plan.sources import Frame
from sfumato.sql.planner.first_look import table_names
from sfumato.sql.planner.planner import Planner, folds_case, parsed
from sfumato.sql.text.errors import SqlError
from sfumato.sql.text.syntax import Body, Script


class NamedQueries:
    """Texts by name. Each becomes frames when the views that it reads are there, in its turn; the
    TOP queries of all that are wanted, over the same table, window, filter and ranking, are planned
    together before.

    wanted : names whose answers go somewhere; those they read are wanted too
    share : see RankingGroups
    """

    def __init__(
        self,
        spark: SparkSession,
        texts: Mapping[str, str],
        wanted: Iterable[str],
        share: Callable[[RankingGroup, Frame], Frame] | None = None,
    ) -> None:
        self.spark, self.texts = spark, texts
        self.rankings = RankingGroups(fold=folds_case(spark), share=share)
        trusted = is_trusted(spark)
        scripts = {name: _readable(text, trusted) for name, text in texts.items()}
        self._scripts = scripts
        needed = _needed(scripts, wanted)
        for name, script in scripts.items():
            if script is not None and name in needed:
                for statement in script.statements:
                    self._gather(statement.body, texts[name], name)

    def frames(self, name: str) -> list[Frame]:
        """The statements of a text as frames; EXPLAIN of one as a frame with its plan.

        Raises SqlError and Spark's errors, as `sql` does.
        """
        text = self.texts[name]
        with operators_of(name):
            statements = parsed(text, trusted=is_trusted(self.spark)).statements
            return Planner(self.spark, text, self.rankings).answers(statements)

    def read_by(self, name: str) -> set[str]:
        """The names of the queries that are read for one of them, itself among them."""
        return _needed(self._scripts, [name])

    def with_(self, name: str) -> list[str]:
        """The names of the queries that are answered with one, itself among them; or none."""
        groups = [group.members for group in self.rankings.groups() if name in group.members]
        return next((list(dict.fromkeys(members)) for members in groups if len(members) > 1), [])

    def _gather(self, body: Body, text: str, name: str) -> None:
        try:
            self.rankings.gather(body, text, name)
        except SqlError:
            return  # its turn comes, and an error then has its place


def _readable(text: str, trusted: bool) -> Script | None:
    try:
        return parsed(text, trusted=trusted)
    except SqlError:
        return None


def _needed(scripts: Mapping[str, Script | None], wanted: Iterable[str]) -> set[str]:
    """The wanted names, and those that these read."""
    by_name = {name.lower(): name for name in scripts}
    open_, needed = [name for name in wanted if name in scripts], set[str]()
    while open_:
        name = open_.pop()
        script = scripts[name]
        if name in needed or script is None:
            continue
        needed.add(name)
        for statement in script.statements:
            for table in table_names(statement.body):
                other = by_name.get(table.parts[-1].lower())
                if other is not None:
                    open_.append(other)
    return needed
