"""The metric of a join, which maps attributes to points with Euclidean distances."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from sfumato.operators.arguments import distance, one_of
from sfumato.operators.arrays import Floats
from sfumato.tables.reading.frame import column_names

JOIN_METRICS = ("euclidean", "haversine")
COORDINATE_BOUNDS = (("longitude", 180.0), ("latitude", 90.0))  # of "haversine"
EARTH_RADIUS = 6_371_008.8  # mean radius in metres


@dataclass(frozen=True)
class JoinMetric:
    """The distance metric of a join.

    name : one of JOIN_METRICS    scales : units of "euclidean" attributes; empty for units of 1
    texts : positions of text attributes, which match only if they are equal

    "euclidean": sqrt(sum of ((x_i - y_i) / scale_i)**2). "haversine": the distance in metres along
    the surface of a sphere, for longitude and latitude in degrees. The points of "haversine" lie on
    the sphere, and distances are compared by their chords. A chord grows with its arc, so bounds
    for Euclidean distances remain valid. A longitude or latitude outside its range is invalid, see
    `bounds`.
    """

    name: str = "euclidean"
    scales: tuple[float, ...] = ()
    texts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        one_of("metric", self.name, JOIN_METRICS)
        for scale in self.scales:
            distance("within", scale)

    def dimensions(self, attributes: int) -> int:
        if self.name == "haversine" and attributes != 2:
            raise ValueError(
                '`metric`="haversine" needs `on`=[longitude, latitude], in this order; '
                f"got {attributes} attributes"
            )
        return 3 if self.name == "haversine" else attributes

    def bounds(self, attributes: Sequence[str]) -> list[tuple[str, float, str]]:
        """Return (name, maximum magnitude, error) per bounded attribute."""
        self.dimensions(len(attributes))
        if self.name == "euclidean":
            return []
        return [
            (name, most, f"{name} is not a {what} from -{most:.0f} to {most:.0f}")
            for name, (what, most) in zip(attributes, COORDINATE_BOUNDS, strict=True)
        ]

    @property
    def sphere(self) -> float:
        """Return the radius of the sphere on which distances are arcs; 0 for "euclidean"."""
        return EARTH_RADIUS if self.name == "haversine" else 0.0

    def points(self, values: Floats) -> Floats:
        """Return the points, float64[m, dimensions], of values, float64[m, attributes]."""
        if self.name == "euclidean":
            return values / np.array(self.scales) if self.scales else values
        longitude, latitude = np.radians(values[:, 0]), np.radians(values[:, 1])
        across = EARTH_RADIUS * np.cos(latitude)
        height = EARTH_RADIUS * np.sin(latitude)
        x, y = across * np.cos(longitude), across * np.sin(longitude)
        return np.ascontiguousarray(np.stack([x, y, height], axis=1))


EUCLIDEAN = JoinMetric()


def bounds_of(metric: str, attributes: str | Sequence[str] | None) -> list[tuple[str, float, str]]:
    named = JoinMetric(metric)
    return [] if named == EUCLIDEAN else named.bounds(column_names("attributes", attributes))


def distance_of(within: Any, attributes: list[str], metric: str) -> tuple[float | None, JoinMetric]:
    """Return the maximum distance of a match (None for a radius column) and the metric."""
    if not isinstance(within, Mapping):
        limit = None if isinstance(within, str) else finite_number("within", within)
        return limit, JoinMetric(metric)
    if JoinMetric(metric) != EUCLIDEAN:
        raise ValueError(
            f"`within` must be one number of metres for `metric`={metric!r}; got {within!r}"
        )
    if not within or not set(within) <= set(attributes):
        raise_unscaled(within, attributes)
    scales = tuple(finite_number("within", within.get(name, 1.0)) for name in attributes)
    return 1.0, JoinMetric(scales=scales)


def raise_unscaled(within: Mapping[str, float], attributes: list[str]) -> NoReturn:
    raise ValueError(
        f"`within` must have a distance for each numeric attribute of `on`, {attributes}; got "
        f"{list(within)}"
    )


def finite_number(argument: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise TypeError(f"`{argument}` must be a finite number; got {given!r}")
    return float(given)
