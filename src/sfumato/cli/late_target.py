"""Which share of late rows a query allows: what its text, or that of a query it reads, asks for."""

from collections.abc import Mapping

from sfumato.language.errors import SqlError
from sfumato.language.planner import parsed
from sfumato.language.syntax import Body
from sfumato.language.table_functions import tables_read


def late_target(texts: Mapping[str, str], name: str) -> float | None:
    """The largest DRATIO in a query and those that it reads; None where there is none."""
    by_name = {query.lower(): query for query in texts}
    open_, seen, found = [name.lower()], set[str](), list[float]()
    while open_:
        query = open_.pop()
        if query in seen or query not in by_name:
            continue
        seen.add(query)
        try:
            statements = parsed(texts[by_name[query]], trusted=True).statements
        except SqlError:
            continue
        for statement in statements:
            found += _ratios(statement.body)
            open_ += [table.parts[-1].strip("`").lower() for table in tables_read(statement.body)]
    return max(found, default=None)


def _ratios(body: Body) -> list[float]:
    options = [
        relation.bracket.get("DRATIO")
        for part in body.bodies()
        for relation in part.relations
        if relation.bracket is not None
    ]
    return [option.measures[0].value for option in options if option and option.measures]
