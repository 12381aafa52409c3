"""What a query asks of our operators: plan nodes that refuse to be built wrong.

Steps, and the arguments of the functions that do the work, with the same names and defaults. Column
names are as written; the planner resolves them when it knows the tables.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from lark import Token

from sfumato.sql.text.errors import SqlError
from sfumato.sql.text.syntax import (
    Node,
    end_of,
    start_of,
)
from sfumato.windows import Delta, Range, Rows

ESTIMATORS = ("normal", "conformal")
STRATEGIES = ("auto", "nested", "index", "sort")
OUTPUTS = ("append", "changes")


class PlanError(ValueError):
    """An argument that cannot be; `word` is the option that gave it."""

    def __init__(self, word: str, reason: str) -> None:
        super().__init__(reason)
        self.word, self.reason = word, reason


def require(holds: bool, word: str, reason: str) -> None:
    """Raise PlanError about an option unless it holds."""
    if not holds:
        raise PlanError(word, reason)


# ---- arguments of the operators ------------------------------------------------------------------


@dataclass(frozen=True)
class Extent:
    """Time extents: `length` and `slide` in microseconds. Source: C, section 6."""

    length: int
    slide: int

    def __post_init__(self) -> None:
        require(self.length > 0, "RANGE", "a RANGE must be longer than nothing")
        require(self.slide > 0, "SLIDE", "a SLIDE must be longer than nothing")


@dataclass(frozen=True)
class Disorder:
    """The arguments of `sf.reorder`, and the extents the rows are for, if there are any.

    `arrival` is None while it is not known: the planner then takes a column of that name.
    """

    event_time: str
    arrival: str | None = None
    key: tuple[str, ...] = ()
    drop_ratio: float | None = None
    slack: int | None = None
    estimator: str = "normal"
    max_buffer: int | None = None
    idle_timeout: str | None = None
    extent: Extent | None = None

    def __post_init__(self) -> None:
        ratio, slack = self.drop_ratio, self.slack
        require(ratio is None or slack is None, "SLACK", "SLACK and DRATIO exclude each other")
        require(
            ratio is None or 0 < ratio <= 0.5,
            "DRATIO",
            "DRATIO is the share of rows that may come too late: above 0 and at most 0.5 (or 50%)",
        )
        require(slack is None or slack >= 0, "SLACK", "SLACK is a number of rows, 0 or more")
        require(
            self.max_buffer is None or self.max_buffer > 0,
            "BSIZE",
            "BSIZE is a number of rows, 1 or more",
        )
        require(
            self.estimator in (*ESTIMATORS, "max"),
            "ESTIMATOR",
            f"the estimator {self.estimator} is unknown",
        )


@dataclass(frozen=True)
class Count:
    """A window over arrivals and the columns that give their order (None: `arrival`)."""

    window: Rows | Delta
    order: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Earlier:
    """The arguments of `sf.earlier_values`; `order` is None for a column `arrival`."""

    attributes: tuple[str, ...]
    order: str | None = None
    key: tuple[str, ...] = ()


@dataclass(frozen=True)
class Join:
    """The arguments of `sf.similarity_join` that do not depend on the tables."""

    on: tuple[str, ...]
    within: float
    probability: float
    strategy: str = "auto"
    output: str = "append"

    def __post_init__(self) -> None:
        require(
            self.within > 0 and math.isfinite(self.within),
            "WITHIN",
            "WITHIN is the greatest distance of a match: a number above 0",
        )
        require(
            0 < self.probability <= 1,
            "PROBABILITY",
            "PROBABILITY is the least probability of a match: above 0 and at most 1 (or 100%)",
        )
        require(self.strategy in STRATEGIES, "USING", f"the strategy {self.strategy} is unknown")
        require(self.output in OUTPUTS, "OUTPUT", f"the output {self.output} is unknown")
        require(
            self.strategy != "sort" or len(self.on) == 1,
            "USING",
            "SORT compares one attribute; for several take INDEX",
        )


# ---- what is done, for the planner and for explain -----------------------------------------------


@dataclass(frozen=True)
class Table:
    """A table or view of the session."""

    name: str
    streaming: bool
    columns: tuple[tuple[str, str], ...]  # name and Spark type
    received: bool = False  # with a column `arrival` added: when Spark received the row


@dataclass(frozen=True)
class Reorder:
    """`sf.reorder` over its input."""

    input: Step
    arguments: Disorder
    row_bytes: int


@dataclass(frozen=True)
class JoinStep:
    """`sf.similarity_join` over two inputs."""

    left: Step
    right: Step
    arguments: Join
    window: Rows
    order: tuple[str, ...]
    key: tuple[str, ...]
    imputation: ImputeArguments | None = None


@dataclass(frozen=True)
class ExtentJoin:
    """`sf.extent_join` over two inputs."""

    left: Step
    right: Step
    key: tuple[str, ...]


@dataclass(frozen=True)
class Aggregated:
    """`sf.window_aggregate` over its input."""

    input: Step
    window: Rows | Range | Delta
    aggregates: tuple[str, ...]
    order: tuple[str, ...]
    key: tuple[str, ...]
    members: bool


@dataclass(frozen=True)
class ImputeArguments:
    """What IMPUTE says: attributes, repository and dependencies, as written, and its options."""

    attributes: tuple[str, ...]
    repository: str
    dependencies: tuple[str, ...]
    joint: bool = False
    max_alternatives: int | None = None
    fallback: str = "marginal"
    scaling: tuple[tuple[str, float, float], ...] = ()


@dataclass(frozen=True)
class Imputed:
    """`sf.impute` over its input."""

    input: Step
    arguments: ImputeArguments


@dataclass(frozen=True)
class Remembered:
    """`sf.earlier_values` over its input."""

    input: Step
    arguments: Earlier


@dataclass(frozen=True)
class Ranked:
    """`sf.top_k` over its input: all queries, as (name, k, every), and which of them is meant."""

    input: Step
    window: Range | Rows
    queries: tuple[tuple[str, int, int], ...]
    name: str
    by: str
    ascending: bool
    semantics: str
    rules: str | None
    order: tuple[str, ...]
    key: tuple[str, ...]


@dataclass(frozen=True)
class Where:
    """`sf.where` over its input: the filter on alternatives."""

    input: Step
    condition: str


@dataclass(frozen=True)
class Select:
    """Text handed to Spark; `{d0}`, `{d1}`, ... in it stand for the inputs."""

    text: str
    inputs: tuple[Step, ...] = field(default=())


Step: TypeAlias = (
    Table
    | Reorder
    | JoinStep
    | ExtentJoin
    | Aggregated
    | Imputed
    | Remembered
    | Ranked
    | Where
    | Select
)


def at(text: str, node: Node | Token, reason: str, **more: Any) -> SqlError:
    """A SqlError about a node or word."""
    return SqlError(reason, text=text, start=start_of(node), end=end_of(node), **more)
