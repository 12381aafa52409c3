"""The validated arguments of an imputation; subclasses define the kinds of repositories."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

from sfumato.limits import MAX_ALTERNATIVES, check_alternatives
from sfumato.operators.arguments import one_of, whole
from sfumato.operators.imputation.dependency import Dependency, as_dependencies
from sfumato.operators.imputation.imputer import FALLBACKS, IMPUTATION_METHODS
from sfumato.tables.imputation.table_imputation import ImputationSettings
from sfumato.tables.reading.frame import Frame, names
from sfumato.tables.reading.tuples import ALTERNATIVES

IMPUTED_BY, FAR_DONORS, FEW_ROWS = "imputed_by", "far_donors", "few_rows"


@dataclass(frozen=True, eq=False)
class ImputationArguments(ABC):
    """The arguments of `sf.Imputation`. Raises ValueError or TypeError; reads no repository."""

    called: ClassVar = "sf.Imputation"
    function: ClassVar = "sf.impute"

    repository: Any
    dependencies: str | Dependency | Sequence[Dependency | str]
    attributes: str | Sequence[str]
    joint: bool = False
    max_alternatives: int | None = None
    fallback: str = "marginal"
    scaling: Mapping[str, tuple[float, float]] | None = None
    method: str = "calibrated"
    least_donors: int | None = None

    def __post_init__(self) -> None:
        attributes = tuple(names("attributes", self.attributes))
        if not attributes:
            raise ValueError("`attributes` must name at least one attribute; got none")
        if "prob" in attributes:
            raise ValueError(
                "`attributes` names `prob`, which is what an alternative's probability is called: "
                "rename the column"
            )
        one_of("fallback", self.fallback, FALLBACKS)
        one_of("method", self.method, IMPUTATION_METHODS)
        if self.least_donors is not None:
            whole("least_donors", self.least_donors)
        dependencies = tuple(as_dependencies(self.dependencies))
        if not dependencies:
            raise ValueError(
                "`dependencies` must hold at least one, like 'humidity -> temperature : 0.05 -> "
                "0.1'; got none: every value would be drawn from all of the repository. "
                "sf.discover_dependencies finds some, or says what came nearest"
            )
        # Dependencies found by `discover_dependencies` for other attributes are ignored.
        asked = tuple(d for d in dependencies if d.dependent in attributes)
        if asked:
            dependencies = tuple(d for d in dependencies if d.confidence is None or d in asked)
        for dependency in dependencies:
            if dependency.dependent not in attributes:
                raise ValueError(
                    f"`dependencies`: `{dependency}` infers `{dependency.dependent}`, which is "
                    f"not one of the `attributes` {list(attributes)}"
                )
        object.__setattr__(self, "attributes", attributes)
        object.__setattr__(self, "dependencies", dependencies)

    @classmethod
    def of(cls, given: Any) -> Self:
        """Return the arguments given to `impute`: unchanged, or from a dict."""
        if isinstance(given, cls):
            return given
        if not isinstance(given, Mapping):
            kind = type(given).__name__
            raise TypeError(f"`impute` must be {cls.called}(...) or a dict; got {kind}")
        try:
            return cls(**given)
        except TypeError as error:
            raise TypeError(f"`impute` must have the arguments of {cls.called}: {error}") from None

    @abstractmethod
    def prepared(self, frame: Frame) -> bytes:
        """Read the repository; return its imputer for the rows of a frame."""

    def bounded(self, bound: int) -> Self:
        """Return these arguments for rows with at most `bound` alternatives.

        Raises ValueError if `max_alternatives` exceeds the bound.
        """
        check_alternatives("max_alternatives", self.max_alternatives, bound)
        if self.max_alternatives is None and bound < MAX_ALTERNATIVES:
            return replace(self, max_alternatives=bound)
        return self

    def check(self, frame: Frame) -> None:
        """Raise ValueError or TypeError for a frame that cannot be imputed."""
        frame.require_free([ALTERNATIVES, IMPUTED_BY])
        frame.require_tuples()
        names, wanted = self.settings.names, self.settings.attributes
        frame.require_numbers("attributes", wanted)
        frame.require_numbers("dependencies", names[len(wanted) :])

    @property
    def settings(self) -> ImputationSettings:
        """Return the arguments without the repository."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "repository"}
        determinants = {name for d in as_dependencies(self.dependencies) for name in d.names}
        scaling = ((n, float(a), float(b)) for n, (a, b) in (self.scaling or {}).items())
        names = (*self.attributes, *sorted(determinants.difference(self.attributes)))
        return ImputationSettings(**{**given, "names": names, "scaling": tuple(scaling)})
