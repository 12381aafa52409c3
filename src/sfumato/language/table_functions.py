"""Table functions: `FROM reorder(s, event_time => ts, drop_ratio => 1%)`.

Every public function from frames to a frame can stand in FROM, and so can a function that
`sfumato.api.calls.public` decorates or that is passed to `sf.sql` by name. Its arguments are those
of the Python function. Tables are names, queries in parentheses or calls of table functions. The
text is parsed into values and never run as Python. A table argument is never a path: only names
that the query or the session knows are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import Parameter, signature
from pkgutil import iter_modules
from typing import Any, NoReturn

from lark import Token

from sfumato import api
from sfumato.api.calls import PUBLIC
from sfumato.api.imputation import Imputation
from sfumato.language.block import Scope
from sfumato.language.errors import SqlError, at
from sfumato.language.imputation import unquoted
from sfumato.language.options import argument_in, called
from sfumato.language.steps import Step, one_line
from sfumato.language.syntax import (
    Body,
    Clause,
    Group,
    Item,
    Name,
    Node,
    end_of,
    is_name,
    is_type,
    is_word,
    plain,
    split,
    start_of,
)
from sfumato.language.tables import PlannedFrame, Tables, checked_by_spark
from sfumato.near_misses import near
from sfumato.queries import Top
from sfumato.spark.model.validation import require_frame
from sfumato.spark.runtime.lineage import steps_of
from sfumato.windows import Delta, Range, Rows

REPOSITORY = "repository"
"""The argument that names a table wherever it stands, so that a text never names a path."""
CLASSES: Mapping[str, Callable[..., Any]] = {
    "rows": Rows,
    "range": Range,
    "delta": Delta,
    "top": Top,
    "imputation": Imputation,
}
"""What a value can be beside literals, arrays and maps."""
CONSTANTS = {"true": True, "false": False, "null": None}
NAMED_PARAMETERS = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)

Items = tuple[Item, ...]


@cache
def public_functions() -> Mapping[str, Callable[..., Any]]:
    """Return the public functions by name: their modules, once imported, note them in `PUBLIC`."""
    for module in iter_modules(api.__path__):
        import_module(f"{api.__name__}.{module.name}")
    return PUBLIC


def function_of(name: Name, tables: Tables | None = None) -> Callable[..., Any] | None:
    """Return the table function of a name: one passed with the text, or a public one; or None."""
    if len(name.parts) > 1:
        return None
    word = name.parts[0].lower()
    if tables is not None and word in tables.functions:
        return tables.functions[word]
    function = PUBLIC.get(word) or public_functions().get(word)
    gives = str(signature(function).return_annotation) if function is not None else "tuple"
    return None if gives.startswith("tuple") else function


def tables_read(body: Body) -> list[Name]:
    """Return the tables that a statement reads, those in calls of public functions included."""
    names = {name.parts: name for name in body.tables()}
    common = {plain(cte.name).lower() for part in body.bodies() for cte in part.ctes}
    for part in body.bodies():
        for relation in part.relations if part.is_query else ():
            for name in _tables_in(relation.head, relation.call):
                if len(name.parts) > 1 or name.parts[0].lower() not in common:
                    names.setdefault(name.parts, name)
    return list(names.values())


def _tables_in(head: Any, call: Group | None) -> Iterator[Name]:
    function = function_of(head) if call is not None else None
    if function is None or call is None:
        return
    parameters = list(signature(function).parameters)
    for place, items in enumerate(_argument_lists(call)):
        word, value = _named(items)
        at_place = parameters[place] if place < len(parameters) else ""
        if str(word or at_place).lower() not in _table_parameters(function):
            continue
        nested = _call_in(value)
        if nested is not None:
            yield from _tables_in(*nested)
        elif (name := _name(value)) is not None:
            yield name


def table_function(
    name: Name,
    call: Group,
    scope: Scope,
    tables: Tables,
    query: Callable[[Body, Scope], PlannedFrame],
) -> PlannedFrame | None:
    """Return the frame of a call in FROM; None for a function that is not ours."""
    function = function_of(name, tables)
    if function is None:
        return None
    return _Reader(scope, tables, query).frame(function, name, call)


@dataclass
class _Reader:
    """Reads the arguments of calls.

    scope : the common tables;  query : plans a query in parentheses
    """

    scope: Scope
    tables: Tables
    query: Callable[[Body, Scope], PlannedFrame]

    def frame(self, function: Callable[..., Any], name: Name, call: Group) -> PlannedFrame:
        """Return what a function gives of its tables."""
        inputs: dict[str, PlannedFrame] = {}
        made, places = self._bound(function, name, call, inputs)
        df = checked_by_spark(
            lambda: called(made, lambda message: self._placed(message, name, places)),
            self.tables.spark,
            self.tables.script,
            Node(name.start, call.end),
            known=[column for frame in inputs.values() for column in frame.df.columns],
        )
        try:
            require_frame(str(name), df)
        except TypeError:
            reason = f"{name} does not give one table, but {type(df).__name__}"
            raise at(self.tables.text, name, reason) from None
        lines = [
            (argument, one_line(self.tables.text[node.start : node.end]))
            for argument, node in places.items()
            if argument not in inputs
        ]
        steps = {n if len(inputs) > 1 else "": frame.step for n, frame in inputs.items()}
        facts = {"controlled": True} if function is PUBLIC.get("reorder") else {}
        return PlannedFrame(df, Step(f"{name} of rows", lines, steps, facts, runs=steps_of(df)))

    def _bound(
        self,
        function: Callable[..., Any],
        name: Name,
        call: Group,
        inputs: dict[str, PlannedFrame] | None = None,
    ) -> tuple[Callable[[], Any], dict[str, Node]]:
        """Return the call of a function or class, and where each argument stands in the text.

        inputs : takes the tables among the arguments, by argument
        """
        text, parameters = self.tables.text, signature(function).parameters
        known = [p.name for p in parameters.values() if p.kind in NAMED_PARAMETERS]
        any_name = any(p.kind is Parameter.VAR_KEYWORD for p in parameters.values())
        positional = [n for n in known if parameters[n].kind is not Parameter.KEYWORD_ONLY]
        values: dict[str, Any] = {}
        places: dict[str, Node] = {}
        by_name = False
        for place, items in enumerate(_argument_lists(call)):
            node = Node(start_of(items[0]), end_of(items[-1])) if items else call
            word, value = _named(items)
            if not value:
                raise at(text, node, f"an argument of {name} is empty")
            if word is None and by_name:
                raise at(
                    text, node, f"an argument of {name} without a name follows one with a name"
                )
            if word is None and place >= len(positional):
                expected = [f"{n} => ..." for n in known if n not in values]
                raise at(text, node, f"this argument of {name} needs a name", expected=expected)
            by_name = word is not None
            argument = positional[place] if word is None else plain(word).lower()
            if word is not None and argument not in known and not any_name:
                reason = f"{name} has no argument {word}"
                raise at(text, word, reason, expected=known, suggestion=near(str(word), known))
            if argument in values:
                raise at(text, node, f"{argument} is given twice")
            places[argument] = Node(start_of(value[0]), end_of(value[-1]))
            if argument in _table_parameters(function):
                values[argument] = self._tables(argument, value, inputs)
            else:
                values[argument] = self._value(value)
        for argument in known:
            if parameters[argument].default is Parameter.empty and argument not in values:
                reason = f"{name} needs the argument {argument}"
                raise at(text, name, reason, expected=(f"{argument} => ...",))
        return lambda: function(**values), places

    def _placed(self, message: str, name: Node, places: Mapping[str, Node]) -> SqlError:
        """Return the error of a function about its arguments as one about the text."""
        blamed = argument_in(message, places)
        return at(self.tables.text, name if blamed is None else places[blamed], message)

    # ---- tables

    def _tables(self, argument: str, items: Items, inputs: dict[str, PlannedFrame] | None) -> Any:
        """Return the frame of a table argument; of `map('a', a, 'b', b)` several by name."""
        call = _call_in(items)
        if call is not None and call[0].parts == ("map",):
            parts = _argument_lists(call[1])
            names = [self._value(part) for part in parts[::2]]
            return {
                name: self._table(f"{argument}.{name}", part, inputs)
                for name, part in zip(names, parts[1::2], strict=False)
            }
        return self._table(argument, items, inputs)

    def _table(self, argument: str, items: Items, inputs: dict[str, PlannedFrame] | None) -> Any:
        frame = self._frame(items)
        if inputs is not None:
            inputs[argument] = frame
        return frame.df

    def _frame(self, items: Items) -> PlannedFrame:
        first = items[0]
        body = first.body if len(items) == 1 and isinstance(first, Group) else None
        if body is not None and body.is_query:
            return self.query(body, self.scope)
        if (call := _call_in(items)) is not None:
            function = function_of(call[0], self.tables)
            if function is not None:
                return self.frame(function, *call)
            known = sorted({*public_functions(), *self.tables.functions})
            reason, likely = f"there is no table function {call[0]}", near(str(call[0]), known)
            raise at(self.tables.text, call[0], reason, expected=known, suggestion=likely)
        name = _name(items)
        if name is None:
            node = Node(start_of(first), end_of(items[-1]))
            expected = ("the name of a table", "(SELECT ...)", "a table function")
            raise at(self.tables.text, node, "a table is wanted here", expected=expected)
        common = self.scope.get(name.parts[0].lower()) if len(name.parts) == 1 else None
        frame = common or self.tables.frame(name)
        if frame is None:
            raise self.tables.unknown(name, self.scope)
        return frame

    # ---- values

    def _value(self, items: Items) -> Any:
        """Return a literal, duration, array, map, window or column name."""
        call = _call_in(items)
        if call is not None:
            return self._constructed(*call)
        first = items[0]
        if len(items) == 1 and is_type(first, "STRING"):
            return unquoted(first)
        if len(items) == 1 and is_word(first, *map(str.upper, CONSTANTS)):
            return CONSTANTS[first.lower()]
        if (name := _name(items)) is not None:
            return str(name)
        duration = _duration(items)
        if duration is not None:
            return duration
        number = _number(items)
        if number is None:
            self._refuse_value(items)
        return number

    def _constructed(self, name: Name, call: Group) -> Any:
        kind, text = str(name).lower(), self.tables.text
        parts = _argument_lists(call)
        if kind == "array":
            return [self._value(part) for part in parts]
        if kind == "map":
            if len(parts) % 2:
                raise at(text, call, "map takes keys and values in turn", expected=("map('a', 1)",))
            keys = [self._value(part) for part in parts[::2]]
            return {
                key: self._frame(part).df if key == REPOSITORY else self._value(part)
                for key, part in zip(keys, parts[1::2], strict=True)
            }
        if kind not in CLASSES:
            known = ("array", "map", *CLASSES)
            reason, likely = f"{name} is not a value of an argument", near(kind, known)
            raise at(text, name, reason, expected=known, suggestion=likely)
        made, places = self._bound(CLASSES[kind], name, call)
        return called(made, lambda message: self._placed(message, name, places))

    def _refuse_value(self, items: Items) -> NoReturn:
        node = Node(start_of(items[0]), end_of(items[-1]))
        written = one_line(self.tables.text[node.start : node.end])
        reason = f"{written} is not a value of an argument; an expression is written as text"
        expected = ("a literal", "a column", "array(...)", "map(...)", *CLASSES)
        raise at(self.tables.text, node, reason, expected=expected)


def _table_parameters(function: Callable[..., Any]) -> set[str]:
    """Return the arguments of a function or class that are tables."""
    parameters = signature(function).parameters
    frames = {n for n, p in parameters.items() if "DataFrame" in str(p.annotation)}
    first = () if isinstance(function, type) else tuple(parameters)[:1]
    return {REPOSITORY, *(getattr(function, "frames", ()) or (*first, *frames))}


def _argument_lists(call: Group) -> list[Items]:
    """Return the words of each argument of a call; WHERE may be the name of a function there."""
    items: list[Item] = []
    for clause in call.body.clauses if call.body is not None else ():
        if isinstance(clause, Clause):
            items += [clause.keyword] if clause.keyword is not None else []
            items += clause.items
        elif isinstance(clause.keyword, Token):
            items.append(clause.keyword)
    return split(items) if items else []


def _named(items: Items) -> tuple[Token | None, Items]:
    """Return the name and the value of `name => value`; None and the value without a name."""
    if len(items) > 2 and str(items[1]) == "=" and str(items[2]) == ">":
        word = items[0]
        if isinstance(word, Token) and end_of(items[1]) == start_of(items[2]):
            return word, items[3:]
    return None, items


def _call_in(items: Items) -> tuple[Name, Group] | None:
    """Return the name and arguments of a call that is all of an argument, or None."""
    word, call = items if len(items) == 2 else (None, None)
    if isinstance(call, Group) and (is_name(word) or is_word(word, "WHERE")):
        return Name(start_of(word), end_of(word), (word,)), call
    return None


def _name(items: Items) -> Name | None:
    """Return `x` or `a.x`; None for anything else."""
    dotted = [is_type(i, "DOT") if n % 2 else is_name(i) for n, i in enumerate(items)]
    if not all(dotted) or len(items) % 2 == 0:
        return None
    words = tuple(item for item in items[::2] if isinstance(item, Token))
    return Name(start_of(items[0]), end_of(items[-1]), words)


def _number(items: Items) -> float | int | None:
    """Return `-1`, `0.5` or `50%`; None for anything else."""
    negative, percent = is_type(items[0], "MINUS"), is_type(items[-1], "PERCENT")
    digits = items[negative : len(items) - percent]
    if len(digits) != 1 or not is_type(digits[0], "NUMBER"):
        return None
    value = float(digits[0]) * (-1 if negative else 1)
    if percent:
        return value / 100
    return int(digits[0]) * (-1 if negative else 1) if digits[0].isdigit() else value


def _duration(items: Items) -> str | None:
    """Return `5 MINUTES`, `INTERVAL 5 MINUTES` or `INTERVAL '5' MINUTE` as text, or None."""
    interval = is_word(items[0], "INTERVAL")
    words = items[interval:]
    if interval and words and is_type(words[0], "STRING"):
        words = (Token("NUMBER", unquoted(words[0])), *words[1:])
        if len(words) == 1:
            return str(words[0])
    kinds = ("NUMBER", "NAME")
    if (
        not words
        or len(words) % 2
        or not all(is_type(word, kinds[n % 2]) for n, word in enumerate(words))
    ):
        return None
    return " ".join(str(word) for word in words)
