"""Functions in FROM, `FROM function(table, name => value)`, as calls of public functions."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from typing import Any

from sfumato.api import alternatives as columns
from sfumato.api.calls import PUBLIC, public_functions
from sfumato.api.imputation import Imputation
from sfumato.language.construct_options import argument_in, with_located_errors
from sfumato.language.impute_clause import string_value
from sfumato.language.steps import Step, one_line
from sfumato.language.syntax import (
    Body,
    Group,
    Item,
    Items,
    Name,
    Node,
    SqlError,
    Token,
    at,
    is_name,
    is_type,
    is_word,
    name_in,
    number_in,
    span_of,
    split,
)
from sfumato.language.tables import PlannedFrame, Tables
from sfumato.near_misses import near
from sfumato.queries import Top
from sfumato.spark.model.untrusted_sql import COLUMN_FUNCTIONS
from sfumato.spark.model.validation import require_frame
from sfumato.spark.runtime.fuse import describe_fusion
from sfumato.sql_tokens import unquote_name
from sfumato.windows import Delta, Range, Rows, Session

REPOSITORY = "repository"
"""An argument that must name a table in every function, so that a string never names a path."""
CLASSES: Mapping[str, Callable[..., Any]] = {
    "rows": Rows,
    "range": Range,
    "session": Session,
    "delta": Delta,
    "top": Top,
    "imputation": Imputation,
}
"""Classes allowed as values, in addition to literals, arrays and maps."""
NAMED_KINDS = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
CONSTANTS = {"true": True, "false": False, "null": None}


def _build_table_function(build: Callable[..., Any]) -> Callable[..., Any]:
    """Return a table function that adds the column `alternatives` as built by `build`."""

    @wraps(build)
    def add(df: Any, **arguments: Any) -> Any:
        if columns.ALTERNATIVES in df.columns:
            raise ValueError(
                f"the table of {build.__name__} has a column `{columns.ALTERNATIVES}` already; for "
                "several uncertain attributes give all columns in one call, with array(...)"
            )
        return df.withColumn(columns.ALTERNATIVES, build(**arguments))

    frame = Parameter("df", Parameter.POSITIONAL_OR_KEYWORD)
    add.__signature__ = Signature([frame, *signature(build).parameters.values()])  # type: ignore[attr-defined]
    return add


TABLE_FUNCTIONS = {name: _build_table_function(getattr(columns, name)) for name in COLUMN_FUNCTIONS}
"""Functions that add the column of alternatives, in addition to the public functions of frames."""


def function_of(name: Name, tables: Tables | None = None) -> Callable[..., Any] | None:
    """Return the table function (passed with the text, or public) with a name, or None."""
    if len(name.parts) > 1:
        return None
    word = name.parts[0].lower()
    if tables is not None and word in tables.functions:
        return tables.functions[word]
    function = TABLE_FUNCTIONS.get(word) or PUBLIC.get(word) or public_functions().get(word)
    gives = str(signature(function).return_annotation) if function is not None else "tuple"
    return None if gives.startswith("tuple") else function


def tables_read(body: Body) -> list[Name]:
    """Return the tables and views that a statement reads, except its common tables.

    Arguments of public functions are included.
    """
    common = {unquote_name(cte.name).lower() for part in body.bodies() for cte in part.ctes}
    names: dict[tuple[str, ...], Name] = {}
    for part in body.bodies():
        for relation in part.relations if part.is_query else ():
            for name in _tables_in(relation.head, relation.call):
                if len(name.parts) > 1 or name.parts[0].lower() not in common:
                    names.setdefault(name.parts, name)
    return list(names.values())


def _tables_in(head: Name | Group | None, call: Group | None) -> Iterator[Name]:
    if not isinstance(head, Name) or call is None:
        yield from [head] if isinstance(head, Name) else ()
    elif (function := function_of(head)) is not None:
        parameters = list(signature(function).parameters)
        for place, items in enumerate(_arguments(call)):
            word, value = _named(items)
            argument = str(word or (*parameters[place : place + 1], "")[0]).lower()
            if argument in _table_parameters(function):
                yield from _tables_in(*(_call_in(value) or (name_in(value), None)))


@dataclass
class TableFunctions:
    """Planner of calls in FROM. query : function that plans a query in parentheses"""

    tables: Tables
    query: Callable[[Body, Tables], PlannedFrame]

    def frame(self, name: Name, call: Group) -> PlannedFrame | None:
        """Return the result of a call, or None if it is not a table function."""
        function, text = function_of(name, self.tables), self.tables.text
        if function is None:
            return None
        inputs: dict[str, PlannedFrame] = {}
        make, places = self._bound(function, name, call, inputs)
        known = [column for frame in inputs.values() for column in frame.df.columns]
        df = self.tables.build_frame(make, Node(name.start, call.end), known)
        try:
            require_frame(str(name), df)
        except TypeError:
            reason = f"{name} must return one table; it returns {type(df).__name__}"
            raise at(name, reason) from None
        given = {n: one_line(text[p.start : p.end]) for n, p in places.items() if n not in inputs}
        steps = {n if len(inputs) > 1 else "": frame.step for n, frame in inputs.items()}
        facts = {"controlled": True} if function is PUBLIC.get("reorder") else {}
        step = Step(str(name), [*given.items()], steps, facts, runs=describe_fusion(df))
        return PlannedFrame(df, step)

    def _bound(
        self, function: Callable[..., Any], name: Name, call: Group, inputs: dict[str, PlannedFrame]
    ) -> tuple[Callable[[], Any], dict[str, Node]]:
        """Return a bound call of a function or class, and its arguments' nodes; fill `inputs`."""
        parameters = signature(function).parameters
        kinds = {n: p.kind for n, p in parameters.items()}
        known = [n for n, kind in kinds.items() if kind in NAMED_KINDS]
        positional = [n for n in known if kinds[n] is Parameter.POSITIONAL_OR_KEYWORD]
        values: dict[str, Any] = {}
        places: dict[str, Node] = {}
        by_name = False
        for place, items in enumerate(_arguments(call)):
            node, (word, value) = span_of(items) if items else call, _named(items)
            argument = (
                unquote_name(word).lower() if word else (*positional[place : place + 1], "")[0]
            )
            if not value:
                raise at(node, f"an argument of {name} is empty")
            if word is None and (by_name or not argument):
                expected = [f"{n} => ..." for n in known if n not in values]
                reason = f"this argument of {name} must be given by name"
                if by_name:
                    reason = f"arguments of {name} without a name must come before named ones"
                raise at(node, reason, *([] if by_name else expected))
            takes_any = Parameter.VAR_KEYWORD in kinds.values()
            if word is not None and argument not in known and not takes_any:
                likely, reason = near(word, known), f"{name} has no argument {word}"
                raise at(word, reason, *known, suggestion=likely)
            if argument in values:
                raise at(node, f"{argument} is given twice")
            by_name, places[argument] = word is not None, span_of(value)
            is_table = argument in _table_parameters(function)
            read = partial(self._tables, argument, inputs) if is_table else self._value
            values[argument] = read(value)
        for argument in known:
            if parameters[argument].default is Parameter.empty and argument not in values:
                raise at(name, f"{name} needs the argument {argument}", f"{argument} => ...")

        def locate(message: str) -> SqlError:
            blamed = argument_in(message, places)
            return at(name if blamed is None else places[blamed], message)

        return lambda: with_located_errors(partial(function, **values), locate), places

    # ---- tables

    def _tables(self, argument: str, inputs: dict[str, PlannedFrame], items: Items) -> Any:
        """Return the frame of a table argument, or frames by name for `map('a', a, 'b', b)`."""
        call = _call_in(items)
        if call is None or call[0].parts != ("map",):
            inputs[argument] = self._frame(items)
            return inputs[argument].df
        parts = _arguments(call[1])
        named = {
            self._value(n): self._frame(t) for n, t in zip(parts[::2], parts[1::2], strict=False)
        }
        inputs.update({f"{argument}.{name}": frame for name, frame in named.items()})
        return {name: frame.df for name, frame in named.items()}

    def _frame(self, items: Items) -> PlannedFrame:
        first = items[0]
        if len(items) == 1 and isinstance(first, Group) and first.query is not None:
            return self.query(first.query, self.tables)
        if (call := _call_in(items)) is not None:
            frame = self.frame(*call)
            if frame is None:
                known = sorted({*public_functions(), *TABLE_FUNCTIONS, *self.tables.functions})
                likely, reason = near(str(call[0]), known), f"there is no table function {call[0]}"
                raise at(call[0], reason, *known, suggestion=likely)
            return frame
        if (name := name_in(items)) is None:
            expected = ("the name of a table", "(SELECT ...)", "a table function")
            raise at(span_of(items), "a table is expected here", *expected)
        return self.tables.find_table(name)

    # ---- values

    def _value(self, items: Items) -> Any:
        """Return a literal, duration, array, map, window or column name."""
        if (call := _call_in(items)) is not None:
            return self._constructed(*call)
        first = items[0]
        if len(items) == 1 and is_type(first, "STRING"):
            return string_value(first)
        if len(items) == 1 and is_type(first, "NAME") and first.lower() in CONSTANTS:
            return CONSTANTS[first.lower()]
        values = (name_in(items), _duration(items), number_in(items))
        value = next((value for value in values if value is not None), None)
        if value is None:
            node = span_of(items)
            written = one_line(self.tables.text[node.start : node.end])
            reason = f"{written} is not a valid argument; write an expression as a string"
            expected = ("a literal", "a column", "array(...)", "map(...)", *CLASSES)
            raise at(node, reason, *expected)
        return str(value) if isinstance(value, Name) else value

    def _constructed(self, name: Name, call: Group) -> Any:
        kind = str(name).lower()
        parts = _arguments(call)
        if kind == "array":
            return [self._value(part) for part in parts]
        if kind == "map":
            if len(parts) % 2:
                reason = f"map needs pairs of a key and a value; got {len(parts)} arguments"
                raise at(call, reason, "map('a', 1)")
            keys = [self._value(part) for part in parts[::2]]
            return {
                key: self._frame(part).df if key == REPOSITORY else self._value(part)
                for key, part in zip(keys, parts[1::2], strict=True)
            }
        if kind not in CLASSES:
            known = ("array", "map", *CLASSES)
            reason, likely = f"{name} is not a valid argument", near(kind, known)
            raise at(name, reason, *known, suggestion=likely)
        return self._bound(CLASSES[kind], name, call, {})[0]()


def _table_parameters(function: Callable[..., Any]) -> set[str]:
    parameters = signature(function).parameters
    frames = {n for n, p in parameters.items() if "DataFrame" in str(p.annotation)}
    first = () if isinstance(function, type) else tuple(parameters)[:1]
    return {REPOSITORY, *(getattr(function, "frames", ()) or (*first, *frames))}


def _arguments(call: Group) -> list[Items]:
    """Return a call's arguments, which may include calls of the function WHERE."""
    items: list[Item] = []
    for clause in call.body.clauses if call.body is not None else ():
        items += [clause.keyword] if clause.keyword is not None else []
        items += clause.items
    return split(items) if items else []


def _named(items: Items) -> tuple[Token | None, Items]:
    """Return the name and value of `name => value`, or (None, value) without a name."""
    word, signs = (*items, None)[0], items[1:3]
    if isinstance(word, Token) and [str(sign) for sign in signs] == ["=", ">"]:
        is_arrow = signs[0].end == signs[1].start
        return (word, items[3:]) if is_arrow else (None, items)
    return None, items


def _call_in(items: Items) -> tuple[Name, Group] | None:
    """Return the name and arguments if an argument is a single call; otherwise None."""
    word, call = items if len(items) == 2 else (None, None)
    if isinstance(call, Group) and (is_name(word) or is_word(word, "WHERE")):
        return Name(word.start, word.end, (word,)), call
    return None


def _duration(items: Items) -> str | None:
    """Return `5 MINUTES`, `INTERVAL 5 MINUTES` or `INTERVAL '5' MINUTE` as a string, or None."""
    interval = is_word(items[0], "INTERVAL")
    words = items[interval:]
    if interval and words and is_type(words[0], "STRING"):
        words = (Token("NUMBER", string_value(words[0])), *words[1:])
        if len(words) == 1:
            return str(words[0])
    kinds = [is_type(word, ("NUMBER", "NAME")[n % 2]) for n, word in enumerate(words)]
    return " ".join(map(str, words)) if kinds and len(kinds) % 2 == 0 and all(kinds) else None
