"""A query computes from its tables and does nothing else."""

from pyspark.sql import SparkSession

from sfumato.near_misses import near
from sfumato.spark.model.allowed_functions import ALLOWED_FUNCTIONS
from sfumato.spark.model.outside_text import check_statement
from sfumato.sql.plan.nodes import at
from sfumato.sql.plan.spark_errors import where_named
from sfumato.sql.text.errors import SqlError
from sfumato.sql.text.references import MEASURES
from sfumato.sql.text.syntax import Body, Node
from sfumato.sql_tokens import TokenError


def refuse_reaching(body: Body, text: str, spark: SparkSession) -> None:
    """Raise SqlError for what reaches beyond the session's tables, unless its texts are trusted."""
    try:
        check_statement(text[body.start : body.end], spark)
    except TokenError as error:
        start, end = body.start + error.start, body.start + error.end
        raise SqlError(str(error), text=text, start=start, end=end) from None


def refused(error: TokenError, node: Node, text: str) -> SqlError:
    """Return the SqlError for what was refused in a text made from a node of the user's text."""
    if error.function is None:
        return at(text, node, str(error))
    start, end = where_named(error.function, text, node) or (node.start, node.end)
    likely = near(error.function, [*MEASURES, *sorted(ALLOWED_FUNCTIONS)])
    return SqlError(str(error), text=text, start=start, end=end, suggestion=likely)
