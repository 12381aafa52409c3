"""Tables as frames: the session's, and those of a FROM clause with their attributes and aliases."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from sfumato.near_misses import near
from sfumato.spark.model.entrance import require_frame
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.outside_text import is_known, is_path, is_trusted
from sfumato.sql.plan.nodes import Step, Table, at
from sfumato.sql.text.errors import SqlError
from sfumato.sql.text.syntax import Name, Node, Option, Relation, quoted
from sfumato.windows import Delta, Range, Rows

ALTERNATIVES = "alternatives"


@dataclass(frozen=True)
class Frame:
    """A frame and how it came about; the rows in order by the text of what was asked for that."""

    df: DataFrame
    step: Step
    ordered: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def attributes(self) -> list[str]:
        """The uncertain attributes: the fields of its alternatives."""
        try:
            return SparkFrame(self.df).attributes
        except TypeError:  # a column `alternatives` that is something else
            return []


@dataclass
class Source:
    """One table of a FROM clause as the rest of the query sees it.

    start, end : where it stands in the text;  written : what follows its frame there, its alias
    aliases : the names that qualify its columns; of a join of ours two, and `sides` says which
        side each means
    window, order : for an aggregate or a ranking over the frame, and the columns it goes by
    node : what to point at
    of_operator : FORGET and NAMED of its bracket, for what is asked of the window
    extra : columns added for this query alone, which a star does not mean
    changed : it is not the table any more and must be replaced in the text
    """

    start: int
    end: int
    frame: Frame
    aliases: tuple[str, ...]
    written: str
    node: Node
    window: Rows | Range | Delta | None = None
    order: list[str] = field(default_factory=list)
    of_operator: tuple[Option, ...] = ()
    sides: dict[str, str] = field(default_factory=dict)
    extra: list[str] = field(default_factory=list)
    changed: bool = False

    def goes_by(self, qualifier: str) -> bool:
        """Whether a qualifier is one of its aliases."""
        return qualifier.lower() in [alias.lower() for alias in self.aliases]

    def attribute(self, parts: tuple[str, ...]) -> str | None:
        """The uncertain attribute a name (of one or two parts) means here, or None."""
        if len(parts) == 1:
            return found(parts[0], self.frame.attributes)
        if not self.goes_by(parts[0]):
            return None
        side = next((s for a, s in self.sides.items() if a.lower() == parts[0].lower()), None)
        return found(parts[1] if side is None else f"{side}_{parts[1]}", self.frame.attributes)

    def meant(self, parts: tuple[str, ...]) -> str | None:
        """The uncertain attribute that the first two parts of a name mean, or the first alone."""
        return self.attribute(parts[:2]) or self.attribute(parts[:1])


def found(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that is `name`; case counts only where it must to tell two apart."""
    listed = list(names)
    if name in listed:
        return name
    same = [other for other in listed if other.lower() == name.lower()]
    return same[0] if len(same) == 1 else None


def free(name: str, taken: Iterable[str]) -> str:
    """The name, with as many `_` behind it as it takes to be none of those taken."""
    known = {other.lower() for other in taken}
    while name.lower() in known:
        name += "_"
    return name


def column(
    name: Name, columns: Iterable[str], of: str, text: str, *, qualified: bool = False
) -> str:
    """The one of the columns of `of` that a name means.

    qualified : the name may have several parts; the last one is the column's
    Raises SqlError, with the likely one, if there is none.
    """
    listed, last = list(columns), name.parts[-1]
    match = found(last, listed) if qualified or len(name.parts) == 1 else None
    if match is None:
        reason = f"{of} has no column {name}"
        raise at(text, name, reason, expected=listed, suggestion=near(last, listed))
    return match


def existence_said(frame: Frame, given: str | None = None) -> str:
    """Describe for EXPLAIN how probably the rows of a table exist.

    given : the column that EXISTENCE names
    """
    column = found("existence", frame.df.columns) if given is None else given
    said = SparkFrame(frame.df).independence(column)
    shared = "" if said is None else f"; {said}"
    if frame.attributes:
        return f"the sum of a row's probabilities{shared}"
    if column is not None:
        return f"with the probability in column {column}{shared}"
    return "every row exists for sure: the table has no column existence"


def called(relation: Relation) -> str:
    """What messages call a relation."""
    return str(relation.head) if isinstance(relation.head, Name) else "the query"


class Tables:
    """Looks tables up, each once; for the queries of one text.

    given : frames by name, that go before the session's tables
    """

    def __init__(self, spark: SparkSession, text: str, given: Mapping[str, DataFrame]) -> None:
        for name, df in given.items():
            require_frame(name, df)
        self.spark, self.text = spark, text
        self._given = {name.lower(): df for name, df in given.items()}
        self._frames: dict[tuple[str, ...], Frame | None] = {}

    def frame(self, name: Name) -> Frame | None:
        """The table or view of that name, or None if the session has none."""
        if name.parts not in self._frames:
            self._frames[name.parts] = self._look_up(name)
        return self._frames[name.parts]

    def _look_up(self, name: Name) -> Frame | None:
        try:
            df = self._given[name.parts[0].lower()] if self.is_given(name) else None
            if df is None and not self._may_read(name):
                return None
            if df is None:
                df = self.spark.table(".".join(quoted(part) for part in name.parts))
            columns = tuple((f.name, f.dataType.simpleString()) for f in df.schema.fields)
        except AnalysisException:
            return None
        return Frame(df, Table(str(name), df.isStreaming, columns))

    def _may_read(self, name: Name) -> bool:
        """Whether a name is a table's: Spark would read csv.`/a` as a file."""
        if len(name.parts) == 1 or is_trusted(self.spark):
            return True
        return not is_path(name.parts) and is_known(self.spark, name.parts)

    def is_given(self, name: Name) -> bool:
        """Whether a name means a frame that came with the text."""
        return len(name.parts) == 1 and name.parts[0].lower() in self._given

    def is_uncertain(self, name: Name) -> bool:
        """Whether a table has uncertain attributes."""
        frame = self.frame(name)
        return frame is not None and bool(frame.attributes)

    def unknown(self, name: Name, also: Iterable[str] = ()) -> SqlError:
        """The error about a stream that neither the query (`also`) nor the session has."""
        known = [*also, *self._given, *(table.name for table in self.spark.catalog.listTables())]
        likely = near(name.parts[-1], known)
        reason = f"there is no stream, table or view {name}"
        return at(self.text, name, reason, expected=known, suggestion=likely)
