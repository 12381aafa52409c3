"""A query only queries: it calls nothing outside the data, and reads no file by its path."""

from sfumato.spark.model.expression_text import FORMATS, is_trusted, path_tables, reaching, refusal
from sfumato.sql.plan.nodes import at
from sfumato.sql.plan.sources import Tables
from sfumato.sql.planner.first_look import bodies, relations, table_names
from sfumato.sql.text.syntax import Body, Name, Node


def refuse_reaching(body: Body, tables: Tables) -> None:
    """Raise SqlError for what reaches beyond the session's tables, unless its texts are trusted."""
    if is_trusted(tables.spark):
        return
    text = tables.text[body.start : body.end]
    for start, end, name in reaching(text):
        place = Node(body.start + start, body.start + end)
        raise at(tables.text, place, refusal(f"{name} reaches beyond the data"))
    for table in _tables(body):
        if len(table.parts) > 1 and _is_path(table, tables):
            raise at(tables.text, table, refusal(f"{table} reads files by their path"))
    for start, end, form in path_tables(text):  # what is a table only to Spark: TABLE csv.`a`
        if not tables.spark.catalog.databaseExists(form):
            place = Node(body.start + start, body.start + end)
            what = refusal(f"{text[start:end]} reads files by their path")
            raise at(tables.text, place, what)


def _tables(body: Body) -> list[Name]:
    """The tables that a statement reads, repositories included."""
    repositories = [
        relation.imputation.repository
        for part in bodies(body)
        for relation in relations(part)
        if relation.imputation is not None
    ]
    return [*table_names(body), *repositories]


def _is_path(table: Name, tables: Tables) -> bool:
    first, last = table.parts[0], table.parts[-1]
    if first.lower() not in FORMATS and "/" not in last:
        return False
    return not tables.spark.catalog.databaseExists(first)
