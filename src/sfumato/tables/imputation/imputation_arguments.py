"""The validated arguments of an imputation; a subclass defines each kind of repository."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

from sfumato.limits import MAX_ALTERNATIVES, check_alternatives
from sfumato.operators.arguments import scaling_pairs, whole
from sfumato.operators.imputation.dependency import Dependency, as_dependencies
from sfumato.operators.imputation.imputer import ImputerSettings
from sfumato.operators.imputation.stream_imputer import MAX_CHANGING, MAX_CHOSEN, change_names
from sfumato.tables.imputation.repositories import ImputationSettings
from sfumato.tables.imputation.table_earlier_values import require_ages
from sfumato.tables.reading.frame import Frame, column_names
from sfumato.tables.reading.tuples import ALTERNATIVES

IMPUTED_BY = "imputed_by"
KEY_KINDS = ("text", "whole", "date", "truth")
UNTYPED_KINDS = ("null", "void")  # types of columns without any values
DEFAULT_LEAST_ROWS = 200  # 199 rows support a 99% probability range


@dataclass(frozen=True, eq=False)
class ImputationArguments(ABC):
    """The arguments of `sf.Imputation`. Raises ValueError or TypeError if they are invalid."""

    function: ClassVar = "sf.impute"

    repository: Any
    dependencies: str | Dependency | Sequence[Dependency | str] | None
    attributes: str | Sequence[str]
    joint: bool = False
    max_alternatives: int | None = None
    fallback: str = "marginal"
    scaling: Mapping[str, tuple[float, float]] | None = None
    method: str = "calibrated"
    least_donors: int | None = None
    key: str | Sequence[str] | None = None
    least_rows: int = DEFAULT_LEAST_ROWS
    order: str | None = None

    def __post_init__(self) -> None:
        attributes = tuple(column_names("attributes", self.attributes))
        if not attributes:
            raise ValueError("`attributes` must name at least one attribute; got none")
        if "prob" in attributes:
            raise ValueError(
                "`attributes` must not name `prob`, which is reserved for the probabilities of "
                "alternatives: rename the column"
            )
        ImputerSettings(self.joint, None, self.fallback, self.method, self.least_donors)  # checks
        whole("least_rows", self.least_rows)
        scaling_pairs(self.scaling)
        object.__setattr__(self, "key", tuple(column_names("key", self.key)))
        dependencies = tuple(as_dependencies(self.dependencies or ()))
        if not dependencies and self.order is None:
            raise ValueError(
                "`dependencies` must contain at least one dependency, like 'humidity -> "
                "temperature : 0.05 -> 0.1'; got none, so every value would be drawn from the "
                "whole repository. sf.discover_dependencies finds dependencies, or names the "
                "closest candidate. With `order`, values are imputed from past changes"
            )
        # Dependencies found by `discover_dependencies` for other attributes are ignored.
        asked = tuple(d for d in dependencies if d.dependent in attributes)
        if asked:
            dependencies = tuple(d for d in dependencies if not d.is_discovered or d in asked)
        for dependency in dependencies:
            if dependency.dependent not in attributes:
                raise ValueError(
                    f"`dependencies` must infer only `attributes`, {list(attributes)}; "
                    f"`{dependency}` infers `{dependency.dependent}`"
                )
        object.__setattr__(self, "attributes", attributes)
        object.__setattr__(self, "dependencies", dependencies)
        if self.order is not None:
            self._check_order(dependencies)

    def _check_order(self, dependencies: Sequence[Dependency]) -> None:
        if not isinstance(self.order, str):
            raise TypeError(f"`order` must be the name of one column; got {self.order!r}")
        if self.order in (*self.attributes, *(self.key or ())):
            raise ValueError(
                f"`order` must differ from the attributes and the key; got {self.order!r}"
            )
        given = {"scaling": bool(self.scaling), "method": self.method != "calibrated"}
        for name in (name for name, is_given in given.items() if is_given):
            raise ValueError(
                f"`{name}` and `order` cannot be combined, because with `order` values are imputed "
                f"from past changes; got {getattr(self, name)!r}. Leave out one of the two"
            )
        most = MAX_CHOSEN if dependencies else MAX_CHANGING
        if len(self.attributes) > most:
            raise ValueError(
                f"`attributes` must name at most {most} attributes with "
                f"`order`{' and `dependencies`' * bool(dependencies)}; got "
                f"{len(self.attributes)}. Impute the attributes in several calls"
            )
        known = change_names(self.attributes)[len(self.attributes) :]
        for dependency in dependencies:
            own = {f"{kind}{dependency.dependent}" for kind in ("change_", "value_")}
            unknown = [name for name in dependency.names if name not in known or name in own]
            if unknown:
                raise ValueError(
                    "with `order`, the determinants of `dependencies` must be columns age_ and "
                    f"earlier_ of the `attributes` {list(self.attributes)}, or change_ and value_ "
                    f"of a different attribute, like `age_{dependency.dependent}`; got "
                    f"`{unknown[0]}` in `{dependency}`. sf.discover_dependencies with an `order` "
                    "finds such dependencies"
                )

    @classmethod
    def of(cls, given: Any) -> Self:
        if isinstance(given, cls):
            return given
        if not isinstance(given, Mapping):
            kind = type(given).__name__
            raise TypeError(f"`impute` must be sf.Imputation(...) or a dict; got {kind}")
        try:
            return cls(**given)
        except TypeError as error:
            raise TypeError(f"`impute` must have the arguments of sf.Imputation: {error}") from None

    @abstractmethod
    def prepared(self, frame: Frame) -> bytes:
        """Read the repository; return its serialised imputers for the rows of a frame."""

    def with_bound(self, bound: int) -> Self:
        """Return the arguments for rows with at most `bound` alternatives."""
        check_alternatives("max_alternatives", self.max_alternatives, bound)
        if self.max_alternatives is None and bound < MAX_ALTERNATIVES:
            return replace(self, max_alternatives=bound)
        return self

    def check(self, frame: Frame) -> None:
        frame.require_free([ALTERNATIVES, IMPUTED_BY])
        frame.require_tuples()
        names, wanted = self.settings.names, self.settings.attributes
        if self.order is None:
            require_numbers_or_texts(frame, "attributes", wanted)
            require_numbers_or_texts(frame, "dependencies", names[len(wanted) :])
        else:
            frame.require_numbers("attributes", wanted)
            require_ages(frame, frame.single_column("order", self.order))
        require_keys(frame, "key", self.settings.key)

    @property
    def settings(self) -> ImputationSettings:
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "repository"}
        determinants = {name for d in as_dependencies(self.dependencies or ()) for name in d.names}
        scaling = ((name, *pair) for name, pair in scaling_pairs(self.scaling).items())
        names = (*self.attributes, *sorted(determinants.difference(self.attributes)))
        names = names if self.order is None else tuple(self.attributes)
        given |= {"names": names, "scaling": tuple(scaling), "order": self.order or ""}
        return ImputationSettings(**given)


def require_numbers_or_texts(frame: Frame, argument: str, columns: Sequence[str]) -> None:
    texts = [name for name in frame.resolve(argument, list(columns)) if frame.kind(name) == "text"]
    frame.group_columns(argument, texts)  # raises for columns with a collation
    frame.require_numbers(argument, [name for name in columns if name not in texts])


def require_same_kinds(frame: Frame, past: Frame, columns: Sequence[str]) -> None:
    for name in columns:
        given, known = (of.resolve("repository", name)[0] for of in (frame, past))
        if frame.type_name(given) not in UNTYPED_KINDS and (frame.kind(given) == "text") != (
            past.kind(known) == "text"
        ):
            raise TypeError(
                f"column `{name}` must have the same type in `repository` and in the "
                f"{frame.noun}; it is {past.type_name(known)} in the repository and "
                f"{frame.type_name(given)} in the {frame.noun}: cast one of the two"
            )


def require_keys(frame: Frame, argument: str, key: Sequence[str]) -> None:
    for name in frame.group_columns(argument, key):
        if frame.kind(name) not in KEY_KINDS and frame.type_name(name) not in UNTYPED_KINDS:
            raise TypeError(
                f"`{argument}` must name columns of text, integers, dates or booleans, "
                f"because it is the key of a repository; `{name}` is {frame.type_name(name)}: "
                "cast it first"
            )
