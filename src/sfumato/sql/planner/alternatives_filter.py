"""A WHERE on uncertain attributes: a filter on alternatives, before Spark sees the query."""

from collections.abc import Iterator

from sfumato.api.where import where
from sfumato.sql.plan.block import Block
from sfumato.sql.plan.measures import Measures, outside_measures
from sfumato.sql.plan.nodes import Where, at
from sfumato.sql.plan.sources import Frame, Source
from sfumato.sql.text.edits import Edits
from sfumato.sql.text.references import Reference, nested_queries, references
from sfumato.sql.text.syntax import Clause, start_of


def filter_alternatives(block: Block, *, always: bool) -> Clause | None:
    """Apply a WHERE that mentions uncertain attributes; it is then no longer in the text.

    always : apply any WHERE: what follows is not a clause of Spark's
    """
    clause = block.clause("WHERE")
    mentioned = [] if clause is None else list(_attributes(block, clause))
    if clause is None or not (always or mentioned):
        return None
    reference, source = mentioned[0] if mentioned else (None, block.sources[0])
    _refuse_beside(block, clause, reference)
    local = Edits(block.text)
    measures = Measures(block.text, block.sources, local)
    measures.replace_in(clause.items, named=False, distributions=False)
    before = list(source.extra)
    measures.add()
    block.unqualify(clause.items, source, local)
    condition = local.render(start_of(clause.items[0]), clause.end, braces=False)
    frame = source.frame
    df = block.checked(lambda: where(frame.df, condition), clause, frame)
    added = [name for name in source.extra if name not in before]
    source.frame = Frame(df.drop(*added), Where(frame.step, condition))
    source.extra, source.changed = before, True
    block.edits.remove(clause.start, clause.end)
    return clause


def _refuse_beside(block: Block, clause: Clause, reference: Reference | None) -> None:
    """Raise SqlError where a filter on alternatives cannot be separated from the rest."""
    obstacle = (
        "a pipe |>"
        if block.is_piped()
        else "several tables"
        if not block.has_one_table()
        else "a nested query"
        if any(nested_queries(clause.items))
        else None
    )
    if obstacle is None:
        return
    what = "before a window's aggregates"
    if reference is not None:
        what = f"on the uncertain {reference.parts[-1]}"
    raise at(
        block.text,
        clause if reference is None else reference.words[0],
        f"a filter {what} beside {obstacle} is not supported: filter in a subquery, "
        "FROM (SELECT ... WHERE ...)",
    )


def _attributes(block: Block, clause: Clause) -> Iterator[tuple[Reference, Source]]:
    """The uncertain attributes that a clause mentions outside our measures."""
    for reference in references(clause.items, enter=outside_measures(block.sources)):
        for source in block.sources:
            if reference.call is None and source.meant(reference.parts):
                yield reference, source
