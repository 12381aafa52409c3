"""Text from outside is a query or an expression, and nothing else.

Spark SQL has functions that call any Java method, table names that are paths, names made up while
a query runs, and variables of the environment. A text that may come from someone else must not
reach them: they are refused, unless the session says that its texts are to be trusted.
"""

import re
from collections.abc import Iterator

from pyspark.sql import SparkSession

TRUST = "sfumato.trustText"
"""Setting of a session: "true" lets texts do whatever Spark can."""

# They call Java methods, read files on the driver, or name what they are given as text.
REACHING = ("reflect", "try_reflect", "java_method", "from_protobuf", "to_protobuf", "identifier")
FORMATS = ("text", "csv", "json", "xml", "parquet", "orc", "avro", "binaryfile", "delta", "iceberg")

GAP = r"(?:\s|--[^\n]*\n|/\*.*?\*/)*"
# In any text, within strings and comments too: what Spark takes for these is not ours to guess.
CALL = re.compile(rf"\b({'|'.join(REACHING)})\b[`\"']?{GAP}\(", re.IGNORECASE | re.DOTALL)
VARIABLE = re.compile(r"\$\{[^}]*\}")  # Spark puts settings and the environment in its place
PATH = re.compile(
    rf"(?:\b(?:{'|'.join(FORMATS)})\b|`(?:{'|'.join(FORMATS)})`){GAP}\.{GAP}`[^`]*`",
    re.IGNORECASE | re.DOTALL,
)
BEFORE_TABLE = re.compile(rf"(?:\b(?:from|join|table)\b|\(){GAP}$", re.IGNORECASE | re.DOTALL)
PIECE = re.compile(
    r"r'[^']*'|r\"[^\"]*\"|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`]|``)*`"
    r"|--[^\n]*|/\*(?:[^*]|\*(?!/))*\*/|[()\[\];]",
    re.IGNORECASE | re.DOTALL,
)
CLOSES = {")": "(", "]": "["}


def is_trusted(spark: SparkSession) -> bool:
    """Whether the session's texts may do whatever Spark can."""
    return str(spark.conf.get(TRUST, "false")).lower() == "true"


def reaching(text: str) -> Iterator[tuple[int, int, str]]:
    """Calls and variables in a text that reach beyond its data: from, to, and what it is."""
    for call in CALL.finditer(text):
        yield call.start(1), call.end(1), call.group(1)
    for variable in VARIABLE.finditer(text):
        yield variable.start(), variable.end(), variable.group()


def path_tables(text: str) -> Iterator[tuple[int, int, str]]:
    """Tables that are paths, csv.`/tmp/a`, in a query or expression: from, to, the format."""
    for path in PATH.finditer(text):
        in_list = any(sign in path.group() for sign in "/:")  # after a comma: a column otherwise
        if in_list or BEFORE_TABLE.search(text[: path.start()]):
            yield path.start(), path.end(), path.group().partition(".")[0].strip("` \n\t")


def refusal(what: str) -> str:
    """Why a text that does something more than query is refused, and who may allow it."""
    return (
        f"{what}, which a query may not; in a session whose texts you trust set "
        f'spark.conf.set("{TRUST}", "true")'
    )


def check_expression(argument: str, text: str, spark: SparkSession) -> None:
    """Raise ValueError unless a text is one expression that only computes.

    Its parentheses must close what they open, for a text like "x > 9) or (true" would leave the
    place that it is put in.
    """
    opened: list[str] = []
    for piece in PIECE.finditer(text):
        sign = piece.group()
        if sign in ("(", "["):
            opened.append(sign)
        elif sign == ";" or (sign in CLOSES and (not opened or opened.pop() != CLOSES[sign])):
            raise ValueError(
                f"`{argument}` must be one SQL expression; got {text!r}: its {sign!r} at "
                f"{piece.start() + 1} ends it"
            )
    if opened:
        raise ValueError(
            f"`{argument}` must be one SQL expression; got {text!r}: a {opened[-1]!r} is not closed"
        )
    if is_trusted(spark):
        return
    for _, _, name in reaching(text):
        raise ValueError(f"`{argument}`: {refusal(f'{name} reaches beyond the data')}")
    for start, end, _ in path_tables(text):
        raise ValueError(f"`{argument}`: {refusal(f'{text[start:end]} reads files by their path')}")
