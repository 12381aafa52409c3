"""Imputation of missing attributes from a repository of complete rows."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.imputation import dependency_choice, imputation
from sfumato.kernels.imputation.dependency_choice import IMPUTED as IMPUTED
from sfumato.kernels.imputation.imputation import (
    CLOSE_DONORS,
    DEFAULT_MAX_ALTERNATIVES,
    MOST_NEAREST_PRODUCTS,
)
from sfumato.kernels.imputation.repository import WEIGHTING, Choice, DependencySets, Repository
from sfumato.operators.arguments import NO_LIMIT, one_of, whole
from sfumato.operators.arrays import Bools, Floats, Ints
from sfumato.operators.imputation import prepared_repository
from sfumato.operators.imputation.dependency import Dependency, as_dependencies, check_dependencies
from sfumato.operators.imputation.lattice import (
    Combination,
    build_lattice,
    combine,
    donor_estimator,
    tightest_dependencies,
)
from sfumato.operators.imputation.repository_columns import (
    checked_attributes,
    columns_of,
    matrix_of,
    scaling_of,
)
from sfumato.operators.state.columns import Columns
from sfumato.operators.state.config import as_json, from_json
from sfumato.operators.state.snapshot import SavedState, pack, unpack

FALLBACKS = ("marginal", "reject")
DEFAULT_DONORS = {"calibrated": 20, "plain": 1}  # of `least_donors`, from measurements; see docs
IMPUTATION_METHODS = tuple(DEFAULT_DONORS)


@dataclass(frozen=True)
class ImputerSettings:
    """Validated settings of an `Imputer`. Raises ValueError."""

    joint: bool = False
    max_alternatives: int | None = None
    fallback: str = "marginal"
    method: str = "calibrated"
    least_donors: int | None = None
    categories: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.joint, bool):
            raise ValueError(f"`joint` must be True or False; got {self.joint!r}")
        one_of("fallback", self.fallback, FALLBACKS)
        one_of("method", self.method, IMPUTATION_METHODS)
        if self.max_alternatives is not None:
            whole("max_alternatives", self.max_alternatives)
        least = DEFAULT_DONORS[self.method] if self.least_donors is None else self.least_donors
        object.__setattr__(self, "least_donors", whole("least_donors", least))

    def choice(self, rows: int) -> Choice:
        """Return the kernels' settings for choosing donors among `rows` rows."""
        least, marginal = self.least_donors or 1, self.fallback == "marginal"
        if self.method == "plain":
            return Choice(least, marginal, 0)
        # Rows used for calibration are excluded from the donors.
        return Choice(min(least, max(rows - 1, 1)), marginal, 2 * least)


ReasonCodes = npt.NDArray[np.uint8]

IMPUTATION_REASONS = (
    "complete",
    "imputed",
    "no dependency with its determinants present",
    "no donors",
    "not finite",
)


@dataclass(frozen=True)
class Imputed(Columns, flat=("prob", "values"), begins="offsets"):
    """Imputation of n objects; m alternatives of T attributes.

    offsets : int64[n + 1] of each object's alternatives; an object not imputed has no alternatives
    prob : float64[m] in (0, 1], sum 1 per object
    values : float64[m, T], sorted by the missing attributes in order, unless merged jointly
    rules_used : int64[n, T], the used dependencies: bit i for number i of
        `Imputer.dependencies_of`, or PRESENT, MARGINAL, NO_RULE (-1, -2, -3)
    reason : uint8[n], place in IMPUTATION_REASONS; at least 2 if the object could not be imputed
    donors : int64[n, T], number of donor rows    spread : float64[n, T], range of donor values
    beyond : bool[n, T], whether the spread exceeds twice the smallest epsilon of the dependencies,
        so that these do not hold; False for categories
    error : float64[n, T], largest distance by which values were moved to limit the alternatives
    joint : bool[n], whether several attributes were imputed together, from the same rows
    """

    offsets: Ints
    prob: Floats
    values: Floats
    rules_used: Ints
    reason: ReasonCodes
    donors: Ints
    spread: Floats
    beyond: Bools
    error: Floats
    joint: Bools

    @property
    def counts(self) -> dict[str, int]:
        """Number of objects by reason; the sum is n."""
        found = np.bincount(self.reason, minlength=len(IMPUTATION_REASONS))
        return dict(zip(IMPUTATION_REASONS, found.tolist(), strict=True))


KIND, IMPUTER_VERSION = "imputer", 8
CATEGORY_SPAN = 2.0**-20  # span of category codes; their scaled distances exceed every epsilon


class Imputer:
    """Imputation of incomplete objects from a complete repository, by differential dependencies.

    Parameters
    ----------
    repository, names
        {name: float64[N]}, or float64[N, D] with the names of its columns; finite
    dependencies
        `Dependency` or strings, possibly none; epsilons refer to scaled attributes
    attributes
        Names of the T attributes to impute and return (None: all). The others are only determinants
    joint
        Whether several missing attributes are taken from the same rows, their common donors, which
        preserves their correlation. Without common donors, and by default, values are independent
    max_alternatives
        int >= 1 or None, the maximum per object; values are merged, see `Imputed.error`. Always at
        most 1,024 for several independent attributes ("plain": 65,536); by default, at most 10,000.
        Below 100 for two attributes, 1,000 for three and so on, "calibrated" imputes the
        missing values from the same rows, as with `joint`, if all have donors
    method
        "calibrated": a range of probability p contains the true value in a share p of cases.
        "plain": the distinct values of the donors, with their shares
    fallback
        The result without donors: "marginal", the attribute's distribution; "reject", only a reason
    scaling
        {name: (shift, span)}: scaled = (value - shift) / span. Default: minimum, range (1 if 0)
    least_donors
        int >= 1, minimum number of donors; None: 20 for "calibrated", 1 for "plain"
    categories
        Columns of codes 0, 1, ...: only equal codes are near; Pr(code) is its share of the donors
    max_combinations
        Largest number of combinations of dependencies that "plain" tries per attribute. `left_out`
        counts the other combinations, and dependencies beyond an attribute's 62 tightest

    Raises
    ------
    ValueError
        For arguments outside these ranges.

    Notes
    -----
    Donors of an object o are rows s with |s[x] - o[x]| <= epsilon_x on all scaled determinants x.
    A distance of exactly epsilon is included, even if rounding moves it above epsilon.
    If values are merged or left out, Pr(dist <= e) lies between the results with all values for
    e - f and e + f, where f is the sum of the lengths of both objects' error vectors.
    An imputer is deterministic and stateless; threads may share an instance.
    Cost: O(T N log N) for the constructor, which for "calibrated" also imputes about 10,000
    objects; 8 * T * (D + 3) * N bytes; microseconds per object.
    More: page reference/semantics/imputation of the documentation.

    References
    ----------
    Ren et al. (2019), sections 2.2 and 3, for "plain". CIKM.

    Examples
    --------
    >>> repository = {"a": [0.0, 0.1, 1.0], "b": [5.0, 6.0, 9.0]}
    >>> imputer = Imputer(repository, ["a -> b : 0.2 -> 1"], method="plain")
    >>> done = imputer.impute([[0.0, np.nan]])
    >>> done.values.tolist(), done.prob.tolist()
    ([[0.0, 5.0], [0.0, 6.0]], [0.5, 0.5])
    """

    prepared: Repository

    def __init__(
        self,
        repository: Mapping[str, npt.ArrayLike] | npt.ArrayLike,
        dependencies: Iterable[Dependency | str],
        attributes: Sequence[str] | None = None,
        *,
        names: Sequence[str] | None = None,
        scaling: Mapping[str, tuple[float, float]] | None = None,
        max_combinations: int = 128,
        joint: bool = False,
        max_alternatives: int | None = None,
        fallback: str = "marginal",
        method: str = "calibrated",
        least_donors: int | None = None,
        categories: Sequence[str] = (),
    ) -> None:
        self.names, rows = columns_of(repository, names)
        by_name = np.argsort(np.array(self.names))[::-1]
        rows = rows[np.lexsort(rows.T[by_name])]  # the order of rows has no effect
        self.attributes = checked_attributes(attributes, self.names)
        self.dependencies = tuple(as_dependencies(dependencies))
        check_dependencies(self.dependencies, self.attributes, self.names)
        self._apply_settings(
            ImputerSettings(
                joint, max_alternatives, fallback, method, least_donors, tuple(categories)
            )
        )
        apart = dict.fromkeys(self.settings.categories, (0.0, CATEGORY_SPAN))
        self._shift, self._span = scaling_of(rows, self.names, {**(scaling or {}), **apart})
        self._check_categories(rows)
        self._rows, most = rows, whole("max_combinations", max_combinations)
        scaled = (rows - self._shift) / self._span
        self._ordered = [tightest_dependencies(self.dependencies, name) for name in self.attributes]
        self._orders = prepared_repository.tree_orders(scaled, self.names, self._ordered)
        self._tried: list[list[Combination]] = []
        self.left_out = len(set(self.dependencies)) - sum(map(len, self._ordered))
        expected = donor_estimator(scaled, self.names)
        for own in self._ordered:
            wanted = own if method == "plain" else ()
            tried, left_out = build_lattice(wanted, expected, max(most, len(own)))
            self._tried.append(tried)
            self.left_out += left_out
        self._prepare(prepared_repository.no_calibration(len(self.attributes)))
        if method == "calibrated" and len(rows) > 1:
            rank = np.argsort(np.argsort(np.array(self.names)))
            for t, order in enumerate(
                prepared_repository.order_rules_by_score(self.prepared, rows, rank)
            ):
                self._ordered[t] = [self._ordered[t][i] for i in order]
            self.prepared = self.prepared._replace(sets=self._dependency_sets())
            coded = [name in self.settings.categories for name in self.attributes]
            calibration = prepared_repository.calibrate(self.prepared, rows, rank, coded)
            self.prepared = self.prepared._replace(**calibration)

    def impute(self, values: Mapping[str, npt.ArrayLike] | npt.ArrayLike) -> Imputed:
        """Impute objects, each independently of the others.

        values : float64[n, D] in the order of `names`, or {name: float64[n]}; NaN is missing. An
            object with an infinite attribute is not imputed
        """
        objects = matrix_of(values, self.names)
        offsets, prob, points, chosen, reason, donors, spread, error, joint = (
            imputation.impute_batch(self.prepared, self.joint, self.max_alternatives, objects)
        )
        bound = np.full(chosen.shape, np.inf)  # the smallest epsilon of each choice
        for t, own in enumerate(self._ordered):
            for i, each in enumerate(own):
                asked = (chosen[:, t] > 0) & (chosen[:, t] >> i & 1 > 0)
                bound[asked, t] = np.minimum(bound[asked, t], each.epsilon)
        # Allow for rounding: the distance is compared as a rounded quotient.
        span = self._span[self.prepared.column_of]
        beyond = spread / span > 2.0 * bound * (1.0 + 1e-12)
        beyond[:, [name in self.settings.categories for name in self.attributes]] = False
        return Imputed(offsets, prob, points, chosen, reason, donors, spread, beyond, error, joint)

    def explain(self, imputed: Imputed, i: int) -> str:
        """Describe how object i was imputed, as in the column `imputed_by`."""
        if imputed.reason[i] != IMPUTED:
            return IMPUTATION_REASONS[imputed.reason[i]]
        parts = []
        for t, (name, chosen) in enumerate(
            zip(self.attributes, imputed.rules_used[i].tolist(), strict=True)
        ):
            if chosen == dependency_choice.MARGINAL:
                parts.append(f"{name} from its distribution in the repository")
            elif chosen > 0:
                parts.append(str(combine(self.chosen_dependencies(t, chosen))))
        return "; ".join(parts)

    @property
    def rows(self) -> int:
        return len(self._rows)

    def column(self, name: str) -> Floats:
        return self._rows[:, self.names.index(name)]

    @property
    def scaling(self) -> dict[str, tuple[float, float]]:
        """The pair (shift, span) of every column: scaled = (value - shift) / span."""
        pairs = zip(self._shift.tolist(), self._span.tolist(), strict=True)
        return dict(zip(self.names, pairs, strict=True))

    def dependencies_of(self, t: int) -> tuple[Dependency, ...]:
        """Return the dependencies of attribute number t, in the order in which they are used."""
        return tuple(self._ordered[t])

    def chosen_dependencies(self, t: int, chosen: int) -> list[Dependency]:
        """Return the dependencies encoded by a value of `Imputed.rules_used`."""
        return [each for i, each in enumerate(self._ordered[t]) if chosen >> i & 1]

    @property
    def combinations(self) -> tuple[Combination, ...]:
        """Combinations that "plain" tries, by attribute, in order."""
        return tuple(each for own in self._tried for each in own)

    @cached_property
    def fingerprint(self) -> int:
        """Checksum of the repository and all settings. O(D N)."""
        return zlib.crc32(self.to_bytes())

    def to_bytes(self) -> bytes:
        """Serialise the prepared repository and all settings, without pickle."""
        values: dict[str, Any] = {
            "names": list(self.names),
            "attributes": list(self.attributes),
            "dependencies": [str(dependency) for dependency in self.dependencies],
            "settings": as_json(self.settings),
            "ordered": [list(map(str, own)) for own in self._ordered],
            "tried": [
                [[list(map(str, each.parts)), each.expected] for each in own] for own in self._tried
            ],
            "left_out": self.left_out,
        }
        of = self.prepared
        arrays = {"rows": self._rows, "orders": self._orders, "shift": of.shift, "span": of.span}
        arrays |= {"curve": of.curve, "tails": of.tails, "far": of.far}
        arrays |= {name: of.weighting[name] for name in WEIGHTING.names or ()}
        return pack(KIND, IMPUTER_VERSION, SavedState(values=values, arrays=arrays))

    @classmethod
    def from_bytes(cls, data: bytes) -> Imputer:
        """Restore an imputer with bit-identical results, without searching again. O(T D N). Raises
        SnapshotError for bytes that are damaged or of a different kind."""
        saved = unpack(data, KIND, IMPUTER_VERSION)
        values, arrays = saved.values, saved.arrays
        imputer = cls.__new__(cls)
        imputer.names = tuple(values["names"])
        imputer.attributes = tuple(values["attributes"])
        imputer.dependencies = tuple(as_dependencies(values["dependencies"]))
        imputer._apply_settings(from_json(ImputerSettings, values["settings"]))
        imputer._shift, imputer._span = arrays["shift"], arrays["span"]
        imputer._rows, imputer._orders = arrays["rows"], arrays["orders"]
        imputer._ordered = [as_dependencies(own) for own in values["ordered"]]
        imputer._tried = [
            [Combination(tuple(as_dependencies(parts)), expected) for parts, expected in own]
            for own in values["tried"]
        ]
        imputer.left_out = values["left_out"]
        weighting = np.empty(len(imputer.attributes), WEIGHTING)
        for name in WEIGHTING.names or ():
            weighting[name] = arrays[name]
        known = {name: arrays[name] for name in ("curve", "tails", "far")}
        imputer._prepare({**known, "weighting": weighting})
        imputer.__dict__["fingerprint"] = zlib.crc32(data)
        return imputer

    def _apply_settings(self, settings: ImputerSettings) -> None:
        self.settings, self.joint, self.fallback = settings, settings.joint, settings.fallback
        self.method, self.least_donors = settings.method, settings.least_donors or 1
        self.max_alternatives = settings.max_alternatives or NO_LIMIT

    def _check_categories(self, rows: Floats) -> None:
        """Raise ValueError if codes of an imputed category could be merged."""
        imputed = [name for name in self.attributes if name in self.settings.categories]
        if imputed and (self.joint or self.method == "plain"):
            raise ValueError(
                f'`attributes` names `{imputed[0]}`, which is text and needs method="calibrated" '
                f"and joint=False; got method={self.method!r} and joint={self.joint}"
            )
        together = len(self.attributes)
        most = min(
            self.max_alternatives,
            MOST_NEAREST_PRODUCTS if together > 1 else DEFAULT_MAX_ALTERNATIVES,
        )
        donors = self.settings.choice(len(rows)).least_donors
        for name in imputed:
            found = len(np.unique(rows[:, self.names.index(name)]))
            if found > 1 and 2 * found >= donors:
                raise ValueError(
                    f"`attributes` names `{name}`, which has {found} different strings in the "
                    f"repository, but with {donors} donors at most {(donors - 1) // 2} can be "
                    "imputed: raise `least_donors`, or replace rare strings with one common string"
                )
            if max(found, CLOSE_DONORS) ** together > most:
                raise ValueError(
                    f"`attributes` names `{name}` with {found} strings and {together - 1} more "
                    f"attributes, which may need more than the {most} alternatives allowed per "
                    f"row: impute `{name}` in a separate call, or raise `max_alternatives`"
                )

    def _dependency_sets(self) -> DependencySets:
        tried = [
            [sum(1 << own.index(part) for part in each.parts) for each in tried]
            for own, tried in zip(self._ordered, self._tried, strict=True)
        ]
        room = prepared_repository.rounding_errors(self._rows, self._shift, self._span)
        return prepared_repository.dependency_sets(self._ordered, tried, self.names, room)

    def _prepare(self, calibration: dict[str, Any]) -> None:
        columns = np.array([self.names.index(name) for name in self.attributes], np.int64)
        self.prepared = prepared_repository.prepare(
            self._rows, self._shift, self._span, columns, self._dependency_sets(), self._orders,
            self.settings.choice(len(self._rows)), calibration,
        )  # fmt: skip
