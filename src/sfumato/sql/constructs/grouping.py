"""GROUP BY over a window: the columns that are its keys."""

from sfumato.sql.plan.nodes import at
from sfumato.sql.plan.sources import Source, column
from sfumato.sql.text.references import is_name, split
from sfumato.sql.text.syntax import Clause, Name, end_of, start_of


def grouped_by(clause: Clause | None, source: Source, text: str) -> list[str]:
    """The columns of a GROUP BY, as the frame spells them. Raises SqlError for anything else."""
    if clause is None:
        return []
    keys = []
    columns = source.frame.df.columns
    for items in split(clause.items):
        parts = [item for item in items if is_name(item)]
        dotted = [is_name(item) or item == "." for item in items] == [True] * len(items)
        if not parts or not dotted or len(items) > 3:
            reason = "over a window, GROUP BY takes columns: compute others in a subquery"
            raise at(text, items[0] if items else clause, reason)
        name = Name(start_of(items[0]), end_of(items[-1]), (parts[-1],))
        keys.append(column(name, columns, "the stream", text))
    return keys
