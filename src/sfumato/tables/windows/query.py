"""What a window aggregate is asked for, and the configuration that follows, whatever holds rows."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from sfumato.tables.windows.extents import ExtentTableConfig
from sfumato.tables.windows.wanted import Wanted
from sfumato.tables.windows.window_aggregate import RowWindowTableConfig
from sfumato.windows import Delta, Range, Rows

ALTERNATIVES = "alternatives"


class WindowQuery(ABC):
    """The query over rows whose columns are known to a subclass.

    wanted : the aggregates    window : of the rows    distribution : see `window_aggregate`
    """

    wanted: list[Wanted]
    window: Rows | Range | Delta
    distribution: int | None

    @property
    @abstractmethod
    def orders(self) -> list[str]:
        """The columns of the order."""

    @property
    @abstractmethod
    def keys(self) -> list[str]:
        """The key columns."""

    @property
    @abstractmethod
    def scope(self) -> tuple[int, ...] | None:
        """Numbers of the keys that share a punctuation; None without a controller."""

    @property
    @abstractmethod
    def marks_late(self) -> bool:
        """Whether a window of rows leaves out those that a controller marked late."""

    @property
    @abstractmethod
    def never_behind(self) -> bool:
        """Whether rows are said to be those of one controller, see `reading.controlled`."""

    @property
    def one_controller(self) -> bool:
        """Whether rows in order that come behind others are an error: without a timeout, which
        goes by the clock."""
        timeout = self.window.timeout if isinstance(self.window, Range) else None
        return self.never_behind and timeout is None

    @property
    @abstractmethod
    def time(self) -> str:
        """The kind of the order: "timestamp", "timestamp_ntz" or "long"."""

    @property
    def expressions(self) -> list[str]:
        """The distinct expressions whose values the operator reads."""
        given = [w.expression for w in self.wanted if w.expression is not None]
        if isinstance(self.window, Delta):
            given.append(self.window.on)
        return list(dict.fromkeys(given))

    def number_of(self, expression: str | None) -> Any:
        """The number of an expression's values among the operator's attributes."""
        return None if expression is None else self.expressions.index(expression)

    def field(self, w: Wanted) -> str:
        """The field of a distribution's values."""
        if w.name != ALTERNATIVES:
            return w.name
        plain = w.expression is not None and w.expression.strip("`").isidentifier()
        return str(w.expression).strip("`") if plain else "value"

    @property
    def added(self) -> list[str]:
        """The columns of the answers that are neither the rows' nor results."""
        of_extents = ["window", "held", "punctuation", "late"]
        own = of_extents if isinstance(self.window, Range) else ["held"]
        return own if self.distribution is None else [*own, "accuracy"]

    def check_results(self, passed: Sequence[str]) -> None:
        """Raise ValueError for a result with the name of another column of the answer.

        passed : the columns of the rows that come out again
        """
        taken = [*passed, *self.added]
        for w in self.wanted:
            if w.name in taken:
                raise ValueError(
                    f"`aggregates` names a result `{w.name}`, but the answer has a column of that "
                    "name already: choose another"
                )

    def settings(
        self, members: bool = False, forget_after: float | None = None, **laws: Any
    ) -> RowWindowTableConfig | ExtentTableConfig:
        """The operator's configuration.

        members, and in `laws` quantiles, seed, samples, whole : see `window_aggregate`
        forget_after : in the unit of the order
        Raises ValueError or TypeError for what does not go together.
        """
        if members and not isinstance(self.window, Range):
            raise ValueError("`members` are those of an extent: it needs window=sf.Range(...)")
        common: dict[str, Any] = {
            "results": tuple(
                (f"result{i}", w.function, self.number_of(w.expression), w.argument)
                for i, w in enumerate(self.wanted)
            ),
            "fields": ("value",) * len(self.wanted),
            "distribution": self.distribution,
            "attributes": len(self.expressions),
            "orders": len(self.orders),
            "keys": len(self.keys),
            "forget_after": forget_after,
            "one_controller": self.one_controller,
            **laws,
        }
        if isinstance(self.window, Range):
            names = tuple(f"key{i}" for i in range(len(self.keys)))
            return ExtentTableConfig(
                window=self.window, scope=self.scope, members=members, time=self.time,
                key_names=names, **common,
            )  # fmt: skip
        on = self.number_of(self.window.on) if isinstance(self.window, Delta) else 0
        return RowWindowTableConfig(
            window=self.window, on_attribute=on, controlled=self.marks_late, **common
        )
