"""The dependencies of one attribute, in the order in which they are asked, and their lattice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.operators.arrays import Floats, Ints
from sfumato.operators.imputation.dependency import Dependency
from sfumato.operators.imputation.lattice import (
    Combination,
    Lattice,
    correlation_dimension,
    expected_donors,
)
from sfumato.operators.imputation.prepared_repository import MOST_DEPENDENCIES, Box


@dataclass(frozen=True)
class Choices:
    """ordered : the dependencies; bit i of a choice is number i    lattice : what "plain" tries"""

    ordered: tuple[Dependency, ...]
    lattice: Lattice

    def chosen(self, choice: int) -> list[Dependency]:
        """Those of a choice."""
        return [each for i, each in enumerate(self.ordered) if choice >> i & 1]

    def boxes(self, names: Sequence[str]) -> list[Box]:
        """Columns and epsilons of each dependency; names : of the columns."""
        return [
            ([names.index(name) for name in each.names], [e for _, e in each.determinants])
            for each in self.ordered
        ]

    def sets(self) -> list[int]:
        """The combinations of the lattice as choices."""
        return [
            sum(1 << self.ordered.index(part) for part in each.parts)
            for each in self.lattice.combinations
        ]

    def bounds(self, chosen: Ints) -> Floats:
        """float64[n]: the least epsilon of each choice, infinite where it is none."""
        sets, which = np.unique(chosen, return_inverse=True)
        least = [min((d.epsilon for d in self.chosen(max(c, 0))), default=np.inf) for c in sets]
        return np.array(least)[which.reshape(-1)]

    def as_json(self) -> dict[str, Any]:
        """For a snapshot."""
        tried = [[[str(d) for d in c.parts], c.expected] for c in self.lattice.combinations]
        ordered = [str(each) for each in self.ordered]
        return {"ordered": ordered, "combinations": tried, "left_out": self.lattice.left_out}

    @classmethod
    def of_json(cls, saved: Mapping[str, Any]) -> Choices:
        """Those whose `as_json` this is."""
        tried = [Combination(_parsed(texts), expected) for texts, expected in saved["combinations"]]
        return cls(_parsed(saved["ordered"]), Lattice(tuple(tried), saved["left_out"]))


def all_choices(
    dependencies: Iterable[Dependency], attributes: Sequence[str], build: Callable[..., Lattice]
) -> tuple[Choices, ...]:
    """Each attribute's, first the dependencies that promise the smallest distance.

    build : gives the lattice of some dependencies
    """
    several = ([d for d in set(dependencies) if d.dependent == name] for name in attributes)
    ordered = (tuple(sorted(own, key=_tightness)[:MOST_DEPENDENCIES]) for own in several)
    return tuple(Choices(own, build(own)) for own in ordered)


def donors_expected(scaled: Floats, names: Sequence[str]) -> Callable[[Dependency], float]:
    """What says how many donors a dependency should find among rows float64[N, D]."""
    dimensions: dict[tuple[str, ...], float] = {}

    def expected(dependency: Dependency) -> float:
        chosen = dependency.names
        if chosen not in dimensions:
            columns = [names.index(name) for name in chosen]
            dimensions[chosen] = correlation_dimension(scaled[:, columns])
        return expected_donors(dependency, len(scaled), dimensions[chosen])

    return expected


def _tightness(dependency: Dependency) -> tuple[float, int, float, str]:
    reach = sum(epsilon for _, epsilon in dependency.determinants)
    return dependency.epsilon, len(dependency.names), reach, str(dependency)


def _parsed(texts: Iterable[str]) -> tuple[Dependency, ...]:
    return tuple(map(Dependency.parse, texts))
