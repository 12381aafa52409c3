"""Missing attributes as distributions: donors from a repository, chosen by dependencies."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.imputation import dependency_choice
from sfumato.kernels.imputation import imputation as kernel
from sfumato.operators.arguments import NO_LIMIT, whole
from sfumato.operators.imputation.dependency import Dependency, as_dependencies
from sfumato.operators.imputation.donor_index import MOST_ATTRIBUTES, finite
from sfumato.operators.imputation.lattice import (
    Combination,
    Lattice,
    build_lattice,
    correlation_dimension,
    expected_donors,
)
from sfumato.operators.imputation.prepared_repository import prepare, tree_orders
from sfumato.operators.state.snapshot import Snapshot, pack, unpack

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Reasons = npt.NDArray[np.uint8]

KIND, VERSION = "imputer", 1
FALLBACKS = ("marginal", "reject")
PRESENT, MARGINAL, NOTHING = (
    dependency_choice.PRESENT,
    dependency_choice.MARGINAL,
    dependency_choice.NOTHING,
)
REASONS = (
    "complete",
    "imputed",
    "no dependency with its determinants present",
    "no donors",
    "not finite",
)


@dataclass(frozen=True)
class Imputed:
    """What became of n objects; m alternatives of T attributes.

    offsets : int64[n + 1], of each object's alternatives; one that cannot be imputed has none
    prob : float64[m] in (0, 1], an object's sum to 1    values : float64[m, T], ascending by the
        first missing attribute, then the next, unless merged jointly; present ones as they were
    chosen : int64[n, T], number in `Imputer.combinations`, or PRESENT, MARGINAL, NOTHING (-1, -2,
        -3)
    reason : uint8[n], place in REASONS; from 2 on the object could not be imputed
    donors : int64[n, T], rows that lent values    spread : float64[n, T], how far those lie apart
    beyond : bool[n, T], donors lie farther apart than twice the combination's epsilon: it
        does not hold
    error : float64[n, T], how far values were moved to have few enough alternatives
    joint : bool[n], several attributes were taken together, from the same rows
    """

    offsets: Ints
    prob: Floats
    values: Floats
    chosen: Ints
    reason: Reasons
    donors: Ints
    spread: Floats
    beyond: Bools
    error: Floats
    joint: Bools

    @property
    def counts(self) -> dict[str, int]:
        """Objects by reason; they add up to n."""
        found = np.bincount(self.reason, minlength=len(REASONS))
        return dict(zip(REASONS, found.tolist(), strict=True))


class Imputer:
    """Imputes objects from a complete repository by differential dependencies.

    repository : {name: float64[N]}, or float64[N, D] with `names`; finite
    dependencies : `Dependency` or their texts, at least none; epsilons are of scaled attributes
    attributes : names of those to impute and put out, T of them (None: all). Other columns, like a
        time of day, may be determinants but are never imputed
    joint : take several missing attributes from the same rows, the donors of all of them, which
        keeps their correlation; where no row is, and by default, as independent (product)
    max_alternatives : int >= 1 or None, alternatives of one object; near values are merged, see
        `Imputed.error`. Independent attributes never make more than 65,536
    fallback : where no dependency has donors: "marginal" takes the attribute's distribution in the
        repository, "reject" gives the object back without alternatives, with the reason
    scaling : {name: (shift, span)} or None: scaled = (value - shift) / span. By default, and for
        names not given, minimum and extent in the repository, an extent of 0 counting as 1;
        `scaling` tells what is used
    least_donors : int >= 1, a dependency with fewer is passed over
    max_combinations : of dependencies, tried for an attribute; `left_out` are beyond that

    An object is imputed by the first of its `combinations` for an attribute (all dependencies,
    then all but one, ... each alone; see `build_lattice`) whose determinants are present and that
    has donors: rows s with |s[x] - o[x]| <= epsilon_x for all x of scaled attributes, edges
    included, also where rounding puts a distance of just epsilon beyond it (see `rounding`). Each
    distinct value of the donors has their share as probability.
    Where values are merged, Pr(dist <= e) lies between the unmerged ones of e - f and e + f, with f
    the length of the errors of both sides together.

    Deterministic; no state; an instance may be shared by threads.
    Cost: O(T N log N) to make, 8 * T * (D + 3) * N bytes; microseconds to impute an object.
    Raises ValueError for arguments outside these ranges.
    Source: E, sections 2.2 and 3; the number of donors is tested exactly in place of estimated.

    >>> imputer = Imputer({"a": [0.0, 0.1, 1.0], "b": [5.0, 6.0, 9.0]}, ["a -> b : 0.2 -> 1"])
    >>> done = imputer.impute([[0.0, np.nan]])
    >>> done.values.tolist(), done.prob.tolist()
    ([[0.0, 5.0], [0.0, 6.0]], [0.5, 0.5])
    """

    def __init__(
        self,
        repository: Mapping[str, npt.ArrayLike] | npt.ArrayLike,
        dependencies: Iterable[Dependency | str],
        attributes: Sequence[str] | None = None,
        *,
        names: Sequence[str] | None = None,
        joint: bool = False,
        max_alternatives: int | None = None,
        fallback: str = "marginal",
        scaling: Mapping[str, tuple[float, float]] | None = None,
        least_donors: int = 1,
        max_combinations: int = 128,
    ) -> None:
        self.names, rows = columns_of(repository, names)
        self.attributes = self._known(
            "attributes", self.names if attributes is None else attributes
        )
        self.dependencies = tuple(as_dependencies(dependencies))
        self._check_dependencies()
        self._settings(joint, max_alternatives, fallback, least_donors)
        self._scale(rows, scaling)
        scaled = (rows - self._shift) / self._span
        self._lattices = self._build(scaled, whole("max_combinations", max_combinations))
        self._finish(rows, None)

    def impute(self, values: Mapping[str, npt.ArrayLike] | npt.ArrayLike) -> Imputed:
        """Alternatives of objects.

        values : float64[n, D] in the order of `names`, or {name: float64[n]}; NaN is missing
        An object with an infinite attribute is not imputed: reason "not finite".
        Results of an object depend on nothing but the object.
        """
        objects = self.objects(values)
        chosen, reason = self.judge(objects)[:2]
        offsets, (prob, points), (donors, spread, error), joined = kernel.impute_batch(
            self.prepared, kernel.Completion(self.joint, self.most), objects, chosen, reason
        )
        span = self._span[[self.names.index(name) for name in self.attributes]]
        bound = np.append(self._bounds, [np.inf] * 3)[chosen]  # the three codes below 0 come last
        return Imputed(
            offsets=offsets,
            prob=prob,
            values=points,
            chosen=chosen,
            reason=reason,
            donors=donors,
            spread=spread,
            # An epsilon is met with a little room: it is compared with a rounded quotient.
            beyond=spread / span > 2.0 * bound * (1.0 + 1e-12),
            error=error,
            joint=joined,
        )

    def judge(self, objects: Floats, boxes: bool = False) -> tuple[Ints, Reasons, Floats, Floats]:
        """How objects are to be imputed: the first step of `impute`.

        objects : float64[n, D], as `objects` gives them
        Returns (chosen, reason, low, high): the first two as in `Imputed`; with boxes=True low and
        high, float64[n, T], enclose every value that each attribute would be imputed to.
        """
        shape = (len(objects) if boxes else 0, len(self.attributes))
        low, high = np.empty(shape), np.empty(shape)
        choice = dependency_choice.Choice(self.least_donors, self.fallback == "marginal")
        chosen, reason = dependency_choice.judge_batch(self.prepared, choice, objects, low, high)
        return chosen, reason, low, high

    def objects(self, values: Mapping[str, npt.ArrayLike] | npt.ArrayLike) -> Floats:
        """Values as the matrix [n, D] that kernels take. Raises ValueError for another shape."""
        if isinstance(values, Mapping):
            missing = [name for name in self.names if name not in values]
            if missing:
                raise ValueError(f"`values` must have all of {list(self.names)}; {missing} lack")
            values = np.column_stack([np.asarray(values[n], np.float64) for n in self.names])
        matrix = np.require(values, np.float64, ["C", "W"])
        if matrix.ndim != 2 or matrix.shape[1] != len(self.names):
            raise ValueError(
                f"`values` must have shape (n, {len(self.names)}), a column for each of "
                f"{', '.join(self.names)}; got {matrix.shape}"
            )
        return matrix

    def explain(self, imputed: Imputed, i: int) -> str:
        """How object i was imputed, in words: `imputed_by`."""
        if imputed.reason[i] != dependency_choice.IMPUTED:
            return REASONS[imputed.reason[i]]
        parts = []
        for name, chosen in zip(self.attributes, imputed.chosen[i].tolist(), strict=True):
            if chosen == MARGINAL:
                parts.append(f"{name} by its distribution in the repository")
            elif chosen >= 0:
                parts.append(str(self.combinations[chosen].dependency))
        return "; ".join(parts)

    @property
    def scaling(self) -> dict[str, tuple[float, float]]:
        """(shift, span) of every column: scaled = (value - shift) / span."""
        pairs = zip(self._shift.tolist(), self._span.tolist(), strict=True)
        return dict(zip(self.names, pairs, strict=True))

    @property
    def combinations(self) -> tuple[Combination, ...]:
        """All combinations, attribute after attribute, each attribute's in order of choice."""
        return tuple(each for lattice in self._lattices for each in lattice.combinations)

    @property
    def left_out(self) -> int:
        """Combinations of dependencies that `max_combinations` keeps from being tried."""
        return sum(lattice.left_out for lattice in self._lattices)

    @cached_property
    def fingerprint(self) -> int:
        """A checksum of the repository and all settings: equal for equal imputers. O(D N)."""
        return zlib.crc32(self.to_bytes())

    def to_bytes(self) -> bytes:
        """The prepared repository and all settings, for other processes. No pickle."""
        values: dict[str, Any] = {
            "names": list(self.names),
            "attributes": list(self.attributes),
            "dependencies": [str(dependency) for dependency in self.dependencies],
            "joint": self.joint,
            "max_alternatives": self.max_alternatives,
            "fallback": self.fallback,
            "least_donors": self.least_donors,
            "lattices": [
                {
                    "combinations": [
                        [str(c.dependency), c.level, c.expected] for c in lattice.combinations
                    ],
                    "left_out": lattice.left_out,
                }
                for lattice in self._lattices
            ],
        }
        arrays = {
            "rows": self._rows,
            "orders": self._orders,
            "shift": self._shift,
            "span": self._span,
        }
        return pack(KIND, VERSION, Snapshot(values=values, arrays=arrays))

    @classmethod
    def from_bytes(cls, data: bytes) -> Imputer:
        """The imputer that `to_bytes` saved; it imputes the same, to the last bit.

        Orders and combinations are not searched for again: O(T D N).
        Raises SnapshotError for bytes that are damaged or of something else.
        """
        saved = unpack(data, KIND, VERSION)
        values, arrays = saved.values, saved.arrays
        imputer = cls.__new__(cls)
        imputer.names = tuple(values["names"])
        imputer.attributes = tuple(values["attributes"])
        imputer.dependencies = tuple(as_dependencies(values["dependencies"]))
        imputer._settings(
            values["joint"], values["max_alternatives"], values["fallback"], values["least_donors"]
        )
        imputer._shift, imputer._span = arrays["shift"], arrays["span"]
        imputer._lattices = tuple(
            Lattice(
                tuple(
                    Combination(Dependency.parse(text), level, expected)
                    for text, level, expected in lattice["combinations"]
                ),
                lattice["left_out"],
            )
            for lattice in values["lattices"]
        )
        imputer._finish(arrays["rows"], arrays["orders"])
        return imputer

    def _settings(self, joint: Any, most: Any, fallback: Any, least: Any) -> None:
        if not isinstance(joint, bool):
            raise ValueError(f"`joint` must be True or False; got {joint!r}")
        if fallback not in FALLBACKS:
            raise ValueError(f"`fallback` must be one of {', '.join(FALLBACKS)}; got {fallback!r}")
        self.joint, self.fallback = joint, fallback
        self.max_alternatives = None if most is None else whole("max_alternatives", most)
        self.least_donors = whole("least_donors", least)
        self.most = NO_LIMIT if self.max_alternatives is None else self.max_alternatives

    def _known(self, argument: str, chosen: Sequence[str]) -> tuple[str, ...]:
        if isinstance(chosen, str):
            chosen = [chosen]
        unknown = [name for name in chosen if name not in self.names]
        if unknown or not len(chosen) or len(set(chosen)) < len(chosen):
            raise ValueError(
                f"`{argument}` must be different names of the repository's columns "
                f"{list(self.names)}; got {list(chosen)}"
            )
        return tuple(chosen)

    def _check_dependencies(self) -> None:
        for dependency in self.dependencies:
            unknown = [n for n in dependency.names if n not in self.names]
            if unknown or dependency.dependent not in self.attributes:
                raise ValueError(
                    f"`dependencies`: in `{dependency}` the dependent must be one of the "
                    f"attributes {list(self.attributes)}, the determinants columns of the "
                    f"repository {list(self.names)}"
                )

    def _scale(self, rows: Floats, scaling: Mapping[str, tuple[float, float]] | None) -> None:
        given = dict(scaling or {})
        unknown = [name for name in given if name not in self.names]
        if unknown:
            raise ValueError(f"`scaling` names {unknown}, which the repository lacks")
        shift, span = rows.min(axis=0), rows.max(axis=0) * 0.5 - rows.min(axis=0) * 0.5
        span = 2.0 * np.minimum(span, np.finfo(np.float64).max / 4)
        span[span == 0.0] = 1.0
        for a, name in enumerate(self.names):
            if name in given:
                shift[a], span[a] = given[name]
        bad = np.flatnonzero(~np.isfinite(shift) | ~np.isfinite(span) | ~(span > 0.0))
        if bad.size:
            a = int(bad[0])
            raise ValueError(
                f"`scaling` of `{self.names[a]}` must be a finite shift and a finite span above 0; "
                f"got ({shift[a]}, {span[a]})"
            )
        self._shift, self._span = shift, span

    def _build(self, scaled: Floats, most: int) -> tuple[Lattice, ...]:
        dimensions: dict[tuple[str, ...], float] = {}

        def expected(dependency: Dependency) -> float:
            chosen = dependency.names
            if chosen not in dimensions:
                columns = [self.names.index(name) for name in chosen]
                dimensions[chosen] = correlation_dimension(scaled[:, columns])
            return expected_donors(dependency, len(scaled), dimensions[chosen])

        lattices = []
        for name in self.attributes:
            own = [d for d in self.dependencies if d.dependent == name]
            lattices.append(build_lattice(own, expected, max(most, len(own))))
        return tuple(lattices)

    def _finish(self, rows: Floats, orders: Ints | None) -> None:
        """Trees and flat arrays for the kernels."""
        boxes = [
            [
                ([self.names.index(n) for n in each.dependency.names],
                 [epsilon for _, epsilon in each.dependency.determinants])
                for each in lattice.combinations
            ]
            for lattice in self._lattices
        ]  # fmt: skip
        self._rows = rows
        columns = np.array([self.names.index(name) for name in self.attributes], np.int64)
        scaled = (rows - self._shift) / self._span
        self._orders = tree_orders(scaled, boxes) if orders is None else orders
        self.prepared = prepare(rows, scaled, columns, boxes, self._orders, self._shift, self._span)
        self._bounds = np.array([each.dependency.epsilon for each in self.combinations])


def columns_of(
    repository: Mapping[str, npt.ArrayLike] | npt.ArrayLike, names: Sequence[str] | None
) -> tuple[tuple[str, ...], Floats]:
    """Names and rows float64[N, D] of a repository given either way. Raises ValueError."""
    if isinstance(repository, Mapping):
        if names is None:
            names = list(repository)
        lacking = [name for name in names if name not in repository]
        if lacking or not names:
            raise ValueError(f"`repository` must have the columns {list(names)}; {lacking} lack")
        columns = [np.asarray(repository[name], np.float64) for name in names]
        if len({column.shape for column in columns}) > 1 or columns[0].ndim != 1:
            shapes = [column.shape for column in columns]
            raise ValueError(f"`repository` must have columns of one length; got {shapes}")
        repository = np.column_stack(columns)
    elif names is None:
        raise ValueError("`names` must name the columns of a `repository` given as a matrix")
    rows = finite("repository", repository)
    if len(names) != rows.shape[1] or len(set(names)) < len(names):
        raise ValueError(
            f"`names` must be {rows.shape[1]} different names, one a column; got {list(names)}"
        )
    if len(names) > MOST_ATTRIBUTES:
        raise ValueError(f"`repository` must have at most {MOST_ATTRIBUTES} columns")
    return tuple(names), rows
