"""Columns of a result are called as the query writes them, where it gives them no name."""

from sfumato.sql.text.edits import Edits
from sfumato.sql.text.references import alias_of, is_word, list_items, stars
from sfumato.sql.text.syntax import Clause, end_of, quoted, start_of


def name_columns(select: Clause, edits: Edits) -> None:
    """Name the parts of a SELECT list that have become something else in the text for Spark.

    Those that are one call of ours have got their name with it.
    """
    for item in list_items(select.items):
        if not item or any(True for _ in stars(item)) or any(is_word(i, "AS") for i in item):
            continue
        start, end = start_of(item[0]), end_of(item[-1])
        if alias_of(item)[0] is None and edits.changes_within(start, end):
            edits.insert(end, f" AS {quoted(' '.join(edits.text[start:end].split()))}")
