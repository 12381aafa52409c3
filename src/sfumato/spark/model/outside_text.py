"""Texts from outside: queries and expressions that compute from given tables, and nothing else.

Every text on its way to Spark passes through `for_spark` or `query_for_spark`. What Spark gets is
written from our own tokens (`sfumato.sql_tokens`), a query stands where Spark's grammar takes only
a query, its functions are in `ALLOWED_FUNCTIONS`, and its tables are names that the catalog knows.
A session that trusts its texts hands them to Spark as they are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sfumato.spark.model.allowed_functions import ALLOWED_FUNCTIONS, SYNTAX_BEFORE_PARENTHESIS
from sfumato.sql_tokens import NAME, SIGN, SqlToken, TokenError, render, tokenize

TRUST = "sfumato.trustText"
"""Setting of a session: "true" lets texts do whatever Spark can."""

DOUBLE_QUOTED_NAMES = "spark.sql.ansi.doubleQuotedIdentifiers"
PLAIN_ESCAPES = "spark.sql.parser.escapedStringLiterals"
OWN_CLASSES = "org.apache.spark.sql.catalyst."

BEFORE_TABLE = ("from", "join", "table", "stream", "lateral", "apply")
NO_LIST = ("where", "having", "qualify", "limit", "offset")
BEFORE_BY = ("group", "order", "sort", "cluster", "distribute", "partition")
SET_OPERATORS = ("union", "intersect", "except", "minus", "setminus")
QUERY_BEGINS = ("select", "with", "from", "values", "table")
PATH_SIGNS = frozenset("/\\:")


def is_trusted(spark: SparkSession) -> bool:
    """Return whether the session's texts may do whatever Spark can."""
    return str(spark.conf.get(TRUST, "false")).lower() == "true"


def refusal(what: str) -> str:
    """Return why a text that does more than compute is refused, and who may allow it."""
    return (
        f"{what}, which is not allowed in a query; in a session whose texts you trust set "
        f'spark.conf.set("{TRUST}", "true")'
    )


def check_expression(argument: str, text: str, spark: SparkSession) -> None:
    """Raise ValueError unless a text is one expression that only computes."""
    if is_trusted(spark):
        return
    try:
        tokens = _known(text, spark)
        if ends := [token for token in tokens if token.is_sign(";")]:
            raise TokenError("a ; ends it", ends[0].start, ends[0].end)
        check_tokens(tokens, spark)
    except TokenError as error:
        raise ValueError(
            f"`{argument}` must be one SQL expression; got {_shortened(text)!r}: {error} "
            f"(character {error.start + 1})"
        ) from None


def for_spark(text: str, spark: SparkSession) -> str:
    """Return an expression that `check_expression` has passed as the text that Spark gets."""
    return text if is_trusted(spark) else render(_selecting_all(tokenize(text)))


def query_for_spark(text: str, spark: SparkSession, *, frames: bool = False) -> str:
    """Return a query as the text that Spark gets.

    Parameters
    ----------
    text : str
        One statement; `{d0}`, `{d1}`, ... stand for frames.
    frames : bool
        Whether there are frames, so that Spark's formatter gets the text.

    Raises
    ------
    TokenError
        For what is not a known token, and for what reaches beyond the data.
    """
    if is_trusted(spark):
        return text
    tokens = _known(text, spark, frames=frames)
    check_tokens(tokens, spark)
    # Nothing but a query can stand there: no INSERT, no command, no script.
    return f"SELECT * FROM ( {render(_selecting_all(tokens), braces=frames)} )"


def check_statement(tokens: Sequence[SqlToken], text: str, spark: SparkSession) -> None:
    """Raise TokenError for what `query_for_spark` will refuse, with its place in the user's text.

    tokens : those of one statement of the text. They may be of constructs of our language, whose
        words Spark never sees
    """
    if not is_trusted(spark):
        _check_quotes(tokens, text, spark)
        check_tokens(tokens, spark, constructs=True)


def _known(text: str, spark: SparkSession, *, frames: bool = False) -> list[SqlToken]:
    tokens = tokenize(text, frames=frames)
    _check_quotes(tokens, text, spark)
    return tokens


def _check_quotes(tokens: Sequence[SqlToken], text: str, spark: SparkSession) -> None:
    # Both settings change what a text in quotes means, and would change what we have read.
    quotes = [t for t in tokens if t.kind == "string"]
    if quotes and str(spark.conf.get(PLAIN_ESCAPES, "false")).lower() == "true":
        raise TokenError(f"texts are not read while {PLAIN_ESCAPES} is true", 0, len(text))
    double = next((t for t in quotes if text[t.end - 1] == '"'), None)
    if double and str(spark.conf.get(DOUBLE_QUOTED_NAMES, "false")).lower() == "true":
        reason = f"write names in backquotes while {DOUBLE_QUOTED_NAMES} is true"
        raise TokenError(reason, double.start, double.end)


def _selecting_all(tokens: Sequence[SqlToken]) -> Iterator[SqlToken]:
    """Write SELECT ALL for SELECT.

    A SELECT alone can be an alias, as in `FROM a select (x), b`, or begin a script with TRANSFORM.
    """
    for place, token in enumerate(tokens):
        yield token
        following = tokens[place + 1] if place + 1 < len(tokens) else None
        if (
            token.is_word("select")
            and not _after_dot(tokens, place)
            and not (following is not None and following.is_word("all", "distinct"))
        ):
            yield SqlToken(NAME, "ALL", token.end, token.end)


def _after_dot(tokens: Sequence[SqlToken], place: int) -> bool:
    return place > 0 and tokens[place - 1].is_sign(".")


# ---- what a text names ---------------------------------------------------------------------------


def check_tokens(
    tokens: Sequence[SqlToken], spark: SparkSession, *, constructs: bool = False
) -> None:
    """Raise TokenError for a function, table or clause that reaches beyond the data.

    constructs : whether words of our language may stand there; functions that do not exist are
        then not judged
    """
    called: dict[str, SqlToken] = {}
    for call in _Walk(tokens, constructs).calls():
        called.setdefault(call.lower, call)
    for name, token in called.items():
        if name not in ALLOWED_FUNCTIONS:
            exists = name == "identifier" or spark.catalog.functionExists(token.value)
            if exists or not constructs:
                raise _not_allowed(token, exists)
        elif _is_hidden(name, spark):
            reason = f"{token.value} is a function of the session that hides Spark's own"
            raise TokenError(refusal(reason), token.start, token.end)
    for parts in _Walk(tokens, constructs).tables():
        _check_table(parts, spark)


def _not_allowed(token: SqlToken, exists: bool) -> TokenError:
    reason = f"there is no function {token.value}"
    if exists:
        reason = f"{token.value} is a function of the session, or one that reaches beyond the data"
        reason = refusal(reason)
    error = TokenError(reason, token.start, token.end)
    error.function = None if exists else token.value
    return error


def _is_hidden(name: str, spark: SparkSession) -> bool:
    """Return whether a function of the session has the name of a function of Spark."""
    try:
        found = spark.catalog.getFunction(name).className or OWN_CLASSES
    except PySparkException:  # a form of the grammar, such as cast
        return False
    return not found.startswith(OWN_CLASSES)


def _check_table(parts: Sequence[SqlToken], spark: SparkSession) -> None:
    start, end = parts[0].start, parts[-1].end
    name = ".".join(part.value for part in parts)
    if is_path(part.value for part in parts):
        raise TokenError(refusal(f"{name} reads files by their path"), start, end)
    if len(parts) > 1 and not is_known(spark, [part.value for part in parts]):
        reason = f"there is no table or view {name}, and it would be read as a file"
        raise TokenError(refusal(reason), start, end)


def is_path(parts: Iterator[str] | Sequence[str]) -> bool:
    """Return whether a table's name has a part that is a path."""
    return any(PATH_SIGNS & set(part) for part in parts)


def is_known(spark: SparkSession, parts: Sequence[str]) -> bool:
    """Return whether the catalog has a table of that name; files and formats are not asked."""
    quoted = ".".join("`" + part.replace("`", "``") + "`" for part in parts)
    try:
        return bool(spark.catalog.tableExists(quoted))
    except PySparkException:
        return False


@dataclass
class _Level:
    """What is known inside one pair of brackets.

    kind : "table" where a table stands in parentheses, "call" for arguments, else "group"
    tables : whether a name after a comma may be a table
    query : whether it begins as a query does
    no_list : the clause in which a comma cannot stand, if any
    with_ : whether the names of common tables stand there
    """

    kind: str
    tables: bool = False
    query: bool = False
    no_list: str = ""
    with_: bool = False
    empty: bool = True


class _Walk:
    """Walks over tokens and says where a function is called, and where a table may be named.

    Where Spark's grammar could take a table, the name counts as one, even if our reading is
    another: after FROM, JOIN, TABLE, LATERAL and STREAM; after a comma or parenthesis that follows
    a FROM or JOIN with nothing in between that ends the list of tables.
    """

    def __init__(self, tokens: Sequence[SqlToken], constructs: bool) -> None:
        self.tokens, self.constructs = tokens, constructs
        self.levels = [_Level("group")]

    def calls(self) -> Iterator[SqlToken]:
        """Yield the names of the functions that are called."""
        for place, token in self._walked():
            following = self._at(place + 1)
            if not token.is_name or following is None or not following.is_sign("("):
                continue
            before = self._at(place - 1)
            if before is not None and before.is_sign("."):
                whole = self._at(place - 2) or token
                reason = f"{whole.value}.{token.value} is a function with a qualified name"
                raise TokenError(refusal(reason), token.start, token.end)
            if token.kind == NAME and token.lower in SYNTAX_BEFORE_PARENTHESIS:
                continue
            if before is not None and before.is_word("as"):
                continue  # an alias with its columns, or a type
            if self.levels[-1].with_ and before is not None and self._names_common_table(before):
                continue
            yield token

    def tables(self) -> Iterator[list[SqlToken]]:
        """Yield the names that may be tables, as their parts."""
        for place, token in self._walked():
            if not token.is_name or self._is_dot(place - 1) or not self._may_be_table(place):
                continue
            parts, at = [token], place
            while self._is_dot(at + 1) and (part := self._at(at + 2)) is not None and part.is_name:
                parts.append(part)
                at += 2
            after = self._at(at + 1)
            if after is None or not after.is_sign("("):
                yield parts

    def _walked(self) -> Iterator[tuple[int, SqlToken]]:
        for place, token in enumerate(self.tokens):
            level = self.levels[-1]
            if level.empty and token.kind == NAME:
                level.query = token.lower in QUERY_BEGINS
                level.with_ = token.lower == "with" and level.kind != "call"
            yield place, token
            level.empty = False
            if token.kind == SIGN:
                self._sign(place, token, level)
            elif token.kind == NAME and not self._is_dot(place - 1):
                self._word(place, token, level)

    def _at(self, place: int) -> SqlToken | None:
        return self.tokens[place] if 0 <= place < len(self.tokens) else None

    def _is_dot(self, place: int) -> bool:
        token = self._at(place)
        return token is not None and token.is_sign(".")

    def _names_common_table(self, before: SqlToken) -> bool:
        return before.is_sign(",") or before.is_word("with", "recursive")

    def _may_be_table(self, place: int) -> bool:
        before, level = self._at(place - 1), self.levels[-1]
        if before is None:
            return False
        if before.is_sign(","):
            return level.tables
        if before.is_sign("("):
            return level.kind == "table"
        if before.is_word("from"):
            return not self._is_operand_word(place - 1, level)
        return before.is_word(*BEFORE_TABLE) and not self._is_dot(place - 2)

    def _is_operand_word(self, place: int, level: _Level) -> bool:
        """Return whether a FROM is part of an expression: IS DISTINCT FROM, or in a function."""
        if level.kind == "call" and not level.query:
            return True
        distinct, is_ = self._at(place - 1), self._at(place - 2)
        operand = self._at(place - 3)
        if is_ is not None and is_.is_word("not"):
            is_, operand = self._at(place - 3), self._at(place - 4)
        if distinct is None or not distinct.is_word("distinct"):
            return False
        if is_ is None or not is_.is_word("is") or operand is None:
            return False
        # After SELECT, a comma or a dot, `is` can be a column with the alias `distinct`.
        if operand.kind == SIGN:
            return operand.value in (")", "]")
        return not operand.is_word(
            *("select", "all", "distinct", "by", "and", "or", "not", "case", "when", "then"),
            *("else", "on", "where", "having", "qualify", "between", "in", "like", "values"),
        )

    def _sign(self, place: int, token: SqlToken, level: _Level) -> None:
        if token.value in ("(", "["):
            self.levels.append(self._opened(place, level))
        elif token.value in (")", "]"):
            self.levels.pop()
        elif token.value == "|>":
            level.tables, level.no_list = False, ""
        elif token.value == "," and level.no_list:
            reason = f"a comma does not belong to {level.no_list.upper()}"
            raise TokenError(reason, token.start, token.end)

    def _opened(self, place: int, level: _Level) -> _Level:
        before = self._at(place - 1)
        if before is None or self.tokens[place].value == "[":
            return _Level("group")
        in_list = before.is_sign(",") and level.tables
        nested = before.is_sign("(") and level.kind == "table"
        word = before.is_word(*BEFORE_TABLE) and not self._is_dot(place - 2)
        operand = before.is_word("from") and self._is_operand_word(place - 1, level)
        if in_list or nested or (word and not operand):
            return _Level("table", tables=True)
        is_word = before.kind == NAME and before.lower in SYNTAX_BEFORE_PARENTHESIS
        if before.is_name and (not is_word or before.is_word("trim", "extract", "position")):
            return _Level("call")
        return _Level("group")

    def _is_list_or_ours(self, following: SqlToken | None) -> bool:
        if following is None:
            return False
        return following.is_sign("(") or (self.constructs and following.kind == NAME)

    def _word(self, place: int, token: SqlToken, level: _Level) -> None:
        word, following = token.lower, self._at(place + 1)
        if word == "using" and not self._is_list_or_ours(following):
            reason = refusal("USING without a list of columns runs a script")
            raise TokenError(reason, token.start, token.end)
        if word == "with" and following is not None and following.is_sign("("):
            reason = refusal("WITH gives options to a table")
            raise TokenError(reason, token.start, token.end)
        if word == "from":
            if not self._is_operand_word(place, level):
                level.tables, level.no_list = True, ""
        elif word == "join":
            level.tables, level.no_list = True, ""
        elif word == "by":
            before = self._at(place - 1)
            if before is not None and before.is_word(*BEFORE_BY):
                level.tables, level.no_list = False, ""
        elif word in NO_LIST and level.tables:
            level.tables, level.no_list = False, word
        elif word == "select" or word in SET_OPERATORS:
            level.tables, level.no_list = False, ""
        elif word == "window" and (as_ := self._at(place + 2)) is not None and as_.is_word("as"):
            level.no_list = ""
        if word in QUERY_BEGINS and word != "with":
            level.with_ = False


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}..."
