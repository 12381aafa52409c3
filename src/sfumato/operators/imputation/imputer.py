"""Impute missing attributes from a repository of complete rows."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.imputation import dependency_choice, imputation
from sfumato.kernels.imputation.repository import Choice
from sfumato.operators.arguments import NO_LIMIT, one_of, whole
from sfumato.operators.arrays import Bools, Floats, Ints
from sfumato.operators.imputation import prepared_repository
from sfumato.operators.imputation.dependency import Dependency, as_dependencies, check_dependencies
from sfumato.operators.imputation.donor_index import (
    checked_attributes,
    columns_of,
    matrix_of,
    scaling_of,
)
from sfumato.operators.imputation.lattice import (
    Choices,
    Combination,
    Lattice,
    all_choices,
    build_lattice,
    combine,
    donors_expected,
)
from sfumato.operators.imputation.prepared_repository import Calibration, Preparation
from sfumato.operators.state.config import as_json, from_json
from sfumato.operators.state.snapshot import Snapshot, pack, unpack

FALLBACKS = ("marginal", "reject")
LEAST_DONORS = {"calibrated": 20, "plain": 1}  # where nothing is said; measured, see docs
IMPUTATION_METHODS = tuple(LEAST_DONORS)


@dataclass(frozen=True)
class ImputerSettings:
    """Settings of an `Imputer`; see there. Raises ValueError for anything else."""

    joint: bool = False
    max_alternatives: int | None = None
    fallback: str = "marginal"
    method: str = "calibrated"
    least_donors: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.joint, bool):
            raise ValueError(f"`joint` must be True or False; got {self.joint!r}")
        one_of("fallback", self.fallback, FALLBACKS)
        one_of("method", self.method, IMPUTATION_METHODS)
        if self.max_alternatives is not None:
            whole("max_alternatives", self.max_alternatives)
        least = LEAST_DONORS[self.method] if self.least_donors is None else self.least_donors
        object.__setattr__(self, "least_donors", whole("least_donors", least))

    def choice(self, rows: int) -> Choice:
        """Return the choice of donors among `rows` rows, for kernels."""
        least, marginal = self.least_donors or 1, self.fallback == "marginal"
        if self.method == "plain":
            return Choice(least, marginal, 0)
        # The rows that calibrate are left out of the donors.
        return Choice(min(least, max(rows - 1, 1)), marginal, 2 * least)


Reasons = npt.NDArray[np.uint8]

IMPUTATION_REASONS = (
    "complete",
    "imputed",
    "no dependency with its determinants present",
    "no donors",
    "not finite",
)


@dataclass(frozen=True)
class Imputed:
    """Imputation of n objects; m alternatives of T attributes.

    offsets : int64[n + 1], of each object's alternatives; one that cannot be imputed has none
    prob : float64[m] in (0, 1], an object's sum to 1    values : float64[m, T], ascending by the
        first missing attribute, then the next, unless merged jointly; present ones as they were
    chosen : int64[n, T], which dependencies: bit i for number i of `Imputer.dependencies_of`, or
        PRESENT, MARGINAL, NOTHING (-1, -2, -3)
    reason : uint8[n], place in REASONS; from 2 on the object could not be imputed
    donors : int64[n, T], rows that lent values    spread : float64[n, T], how far these lie apart
    beyond : bool[n, T], donors lie farther apart than twice the least epsilon of the
        dependencies: they do not hold
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
        found = np.bincount(self.reason, minlength=len(IMPUTATION_REASONS))
        return dict(zip(IMPUTATION_REASONS, found.tolist(), strict=True))


KIND, VERSION = "imputer", 5


class Imputer:
    """Imputes objects from a complete repository by differential dependencies.

    repository : {name: float64[N]}, or float64[N, D] with `names`; finite
    dependencies : `Dependency` or their texts, at least none; epsilons are of scaled attributes
    attributes : names of those to impute and put out, T of them (None: all). Other columns, like a
        time of day, may be determinants but are never imputed
    joint : take several missing attributes from the same rows, the donors of all of them, which
        keeps their correlation; where no row is, and by default, as independent (product)
    max_alternatives : int >= 1 or None, alternatives of one object; values are merged, see below
        and `Imputed.error`. Independent attributes never make more than 1,024 ("plain": 65,536, and
        10,000 where nothing is given).
        Where that leaves them fewer than ten values each (below 100 for two, 1,000 for three),
        "calibrated" takes them from the same rows, as with `joint`
    method : "calibrated" or "plain", see below
    fallback : where no dependency has donors: "marginal" takes the attribute's distribution in the
        repository, "reject" gives the object back without alternatives, with the reason
    scaling : {name: (shift, span)} or None: scaled = (value - shift) / span. By default, and for
        names not given, minimum and extent in the repository, an extent of 0 counting as 1;
        `scaling` has what is used
    least_donors : int >= 1, fewer donors do not count; None: 20 for "calibrated", 1 for "plain"
    max_combinations : of dependencies, tried by "plain" for an attribute; `left_out` are beyond
        that, and dependencies of an attribute beyond its 62 tightest

    Donors are rows s with |s[x] - o[x]| <= epsilon_x for all x of scaled attributes, edges
    included, also where rounding puts a distance of just epsilon beyond it (see `rounding`).

    "calibrated" means that a value lies in a range of probability p in a share p of cases. A
    missing attribute's dependencies narrow a box, those first that alone impute rows of the
    repository best, as long as `least_donors` remain; of more than twice as many the nearest lend,
    near ones more, as far as that is better. Their values are moved along a line fitted to them to
    where the object is (`kernels.imputation.local_line`), unless many are equal. Their shares are
    corrected, and values beyond them added (`...calibration`), by what rows of the repository
    show, left out one by one: for each number of determinants that an object may lack their
    hidden values lie in such ranges as often as these say. A box with too few donors is widened.
    So it holds on average over objects that are like the repository's rows and lack as many
    attributes at random; that a stream drifts away from them is not noticed. With few rows ranges
    are wider for that, and may leave what the repository holds: 19 rows show a range of
    probability 90%, 199 that of 99%, wider ones are extrapolated. Of few different values a range
    often holds more than it says. Where there must be fewer alternatives, values
    at even levels of probability from 5% to 95% stay: the range of 90% is what it was. With 24
    values or more so is the range of 99%.

    "plain": an object is imputed by the first of its `combinations` for an attribute (all
    dependencies, then all but one, ... each alone; see `build_lattice`) whose determinants are
    present and that has donors. Each distinct value of the donors has their share as probability.
    More dependencies make it more certain, not more right.

    Where values are merged or left out, Pr(dist <= e) lies between those with all values of e - f
    and e + f, with f the length of the errors of both sides together.

    Deterministic; no state; an instance may be shared by threads.
    Cost: O(T N log N) to make, and for "calibrated" as imputing some 10,000 objects;
    8 * T * (D + 3) * N bytes; microseconds to impute an object.
    Raises ValueError for arguments outside these ranges.
    Source: "plain" is E, sections 2.2 and 3; the number of donors is tested exactly in place of
    estimated.

    >>> repository = {"a": [0.0, 0.1, 1.0], "b": [5.0, 6.0, 9.0]}
    >>> imputer = Imputer(repository, ["a -> b : 0.2 -> 1"], method="plain")
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
        scaling: Mapping[str, tuple[float, float]] | None = None,
        max_combinations: int = 128,
        joint: bool = False,
        max_alternatives: int | None = None,
        fallback: str = "marginal",
        method: str = "calibrated",
        least_donors: int | None = None,
    ) -> None:
        self.names, rows = columns_of(repository, names)
        by_name = np.argsort(np.array(self.names))[::-1]
        rows = rows[np.lexsort(rows.T[by_name])]  # rows in any order make the same imputer
        self.attributes = checked_attributes(attributes, self.names)
        self.dependencies = tuple(as_dependencies(dependencies))
        check_dependencies(self.dependencies, self.attributes, self.names)
        self._set(ImputerSettings(joint, max_alternatives, fallback, method, least_donors))
        self._shift, self._span = scaling_of(rows, self.names, scaling or {})
        most = whole("max_combinations", max_combinations)
        expected = donors_expected((rows - self._shift) / self._span, self.names)

        def build(own: Sequence[Dependency]) -> Lattice:
            wanted = own if self.method == "plain" else ()
            return build_lattice(wanted, expected, max(most, len(own)))

        self._choices = all_choices(self.dependencies, self.attributes, build)
        self._finish(rows, None, None)

    def impute(self, values: Mapping[str, npt.ArrayLike] | npt.ArrayLike) -> Imputed:
        """Alternatives of objects.

        values : float64[n, D] in the order of `names`, or {name: float64[n]}; NaN is missing
        An object with an infinite attribute is not imputed: reason "not finite".
        Results of an object depend on nothing but the object.
        """
        objects = self.objects(values)
        chosen, reason = dependency_choice.judge_batch(self.prepared, objects)
        offsets, (prob, points), (donors, spread, error), joined = imputation.impute_batch(
            self.prepared, imputation.Completion(self.joint, self.most), objects, chosen, reason
        )
        span = self._span[self.prepared.column_of]
        bound = np.stack([own.bounds(chosen[:, t]) for t, own in enumerate(self._choices)], axis=1)
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

    def objects(self, values: Mapping[str, npt.ArrayLike] | npt.ArrayLike) -> Floats:
        """Values as the matrix [n, D] that kernels take. Raises ValueError for another shape."""
        return matrix_of(values, self.names)

    def explain(self, imputed: Imputed, i: int) -> str:
        """Describe in words how object i was imputed: `imputed_by`."""
        if imputed.reason[i] != dependency_choice.IMPUTED:
            return IMPUTATION_REASONS[imputed.reason[i]]
        parts = []
        for t, (name, chosen) in enumerate(
            zip(self.attributes, imputed.chosen[i].tolist(), strict=True)
        ):
            if chosen == dependency_choice.MARGINAL:
                parts.append(f"{name} by its distribution in the repository")
            elif chosen > 0:
                parts.append(str(combine(self.chosen_dependencies(t, chosen))))
        return "; ".join(parts)

    @property
    def rows(self) -> int:
        """The number of rows of the repository."""
        return len(self._rows)

    @property
    def scaling(self) -> dict[str, tuple[float, float]]:
        """(shift, span) of every column: scaled = (value - shift) / span."""
        pairs = zip(self._shift.tolist(), self._span.tolist(), strict=True)
        return dict(zip(self.names, pairs, strict=True))

    def dependencies_of(self, t: int) -> tuple[Dependency, ...]:
        """The dependencies of attribute number t, in the order in which they are asked."""
        return self._choices[t].ordered

    def chosen_dependencies(self, t: int, chosen: int) -> list[Dependency]:
        """Dependencies of a set in `Imputed.chosen`."""
        return self._choices[t].chosen(chosen)

    @property
    def combinations(self) -> tuple[Combination, ...]:
        """All that "plain" tries, attribute after attribute, each attribute's in order."""
        return tuple(each for own in self._choices for each in own.lattice.combinations)

    @property
    def left_out(self) -> int:
        """Combinations beyond `max_combinations`, and dependencies beyond 62: never tried."""
        asked = sum(len(each.ordered) for each in self._choices)
        untried = sum(each.lattice.left_out for each in self._choices)
        return len(set(self.dependencies)) - asked + untried

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
            "settings": as_json(self.settings),
            "choices": [each.as_json() for each in self._choices],
        }
        arrays = {
            "rows": self._rows,
            "orders": self._orders,
            "shift": self._shift,
            "span": self._span,
            **self._calibration._asdict(),
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
        imputer._set(from_json(ImputerSettings, values["settings"]))
        imputer._shift, imputer._span = arrays["shift"], arrays["span"]
        imputer._choices = tuple(map(Choices.of_json, values["choices"]))
        known = Calibration(*(arrays[name] for name in Calibration._fields))
        imputer._finish(arrays["rows"], arrays["orders"], known)
        return imputer

    def _set(self, settings: ImputerSettings) -> None:
        self.settings, self.joint, self.fallback = settings, settings.joint, settings.fallback
        self.method, self.least_donors = settings.method, settings.least_donors or 1
        self.most = settings.max_alternatives or NO_LIMIT

    def _finish(self, rows: Floats, orders: Ints | None, calibration: Calibration | None) -> None:
        """Trees and flat arrays for the kernels."""
        self._rows, boxes = rows, [own.boxes(self.names) for own in self._choices]
        by_name = np.argsort(np.array(self.names))  # columns in any order make the same imputer
        rank = np.argsort(by_name)
        if orders is None:
            named = [own.boxes([self.names[a] for a in by_name]) for own in self._choices]
            scaled = (rows - self._shift) / self._span
            orders = prepared_repository.tree_orders(scaled[:, by_name], named)
        self._orders = orders
        self.prepared = prepared_repository.prepare(
            Preparation(
                rows=rows,
                shift=self._shift,
                span=self._span,
                columns=np.array([self.names.index(name) for name in self.attributes], np.int64),
                boxes=boxes,
                combinations=[own.sets() for own in self._choices],
                orders=orders,
                choice=self.settings.choice(len(rows)),
            )
        )
        if calibration is None and self.method == "calibrated" and len(rows) > 1:
            self._by_worth(rows, rank)
            calibration = prepared_repository.calibrated(self.prepared, rows, rank)
        self._calibration = calibration or Calibration.none(len(self.attributes))
        self.prepared = self.prepared._replace(**self._calibration.fields)

    def _by_worth(self, rows: Floats, rank: Ints) -> None:
        """Each attribute's dependencies in the order of what they are worth alone."""
        orders = prepared_repository.by_worth(self.prepared, rows, rank)
        self._choices = tuple(
            replace(own, ordered=tuple(own.ordered[i] for i in order))
            for own, order in zip(self._choices, orders, strict=True)
        )
        boxes = [own.boxes(self.names) for own in self._choices]
        room = prepared_repository.rounding(rows, self._shift, self._span)
        self.prepared = self.prepared._replace(**prepared_repository.box_arrays(boxes, room))
