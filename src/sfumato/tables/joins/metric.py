"""How the values of attributes become points whose Euclidean distance decides a match."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.operators.arguments import distance, one_of
from sfumato.operators.arrays import Floats
from sfumato.tables.reading.names import names

METRICS = ("euclidean", "haversine")
PLACES = (("longitude", 180.0), ("latitude", 90.0))  # of "haversine", with their greatest size
EARTH = 6_371_008.8  # metres, the mean radius


@dataclass(frozen=True)
class Metric:
    """name : one of METRICS    scales : for "euclidean" the unit of each attribute; none: 1

    "euclidean": sqrt(sum of ((x_i - y_i) / scale_i)**2); the values are divided by their units
    first. "haversine": longitude and latitude in degrees, distances in metres along the surface of
    a sphere. It takes the place of points on the sphere and the chord of the distance: a chord
    grows with its arc, so that every bound for Euclidean distances holds. A row with a longitude
    or latitude out of range is invalid, see `bounds`.
    """

    name: str = "euclidean"
    scales: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        one_of("metric", self.name, METRICS)
        for scale in self.scales:
            distance("within", scale)

    def dimensions(self, attributes: int) -> int:
        """Coordinates of a point. Raises ValueError for a number of attributes it is not for."""
        if self.name == "haversine" and attributes != 2:
            raise ValueError(
                '`metric`="haversine" needs `on`=[longitude, latitude], in this order; '
                f"got {attributes} attributes"
            )
        return 3 if self.name == "haversine" else attributes

    def bounds(self, attributes: Sequence[str]) -> list[tuple[str, float, str]]:
        """(attribute, greatest size of a valid value, why a larger one is invalid) of each.

        Raises ValueError for a number of attributes that the metric is not for.
        """
        self.dimensions(len(attributes))
        if self.name == "euclidean":
            return []
        return [
            (name, most, f"{name} is not a {what} from -{most:.0f} to {most:.0f}")
            for name, (what, most) in zip(attributes, PLACES, strict=True)
        ]

    def limit(self, within: float) -> float:
        """The Euclidean distance of points that stands for `within`."""
        if self.name == "euclidean":
            return within
        arc = distance("within", within) / EARTH
        # The whole sphere is within half its circumference: any point, whatever its rounding.
        return 2.0 * EARTH * math.sin(arc / 2.0) if arc < math.pi else 3.0 * EARTH

    def points(self, values: Floats) -> Floats:
        """float64[m, dimensions] of values float64[m, attributes]."""
        if self.name == "euclidean":
            return values / np.array(self.scales) if self.scales else values
        longitude, latitude = np.radians(values[:, 0]), np.radians(values[:, 1])
        across = EARTH * np.cos(latitude)
        return np.ascontiguousarray(
            np.stack(
                [across * np.cos(longitude), across * np.sin(longitude), EARTH * np.sin(latitude)],
                axis=1,
            )
        )


PLAIN = Metric()


def bounds_of(metric: str, attributes: str | Sequence[str] | None) -> list[tuple[str, float, str]]:
    """`Metric.bounds` of the attributes that an argument names. Raises ValueError."""
    named = Metric(metric)
    return [] if named == PLAIN else named.bounds(names("attributes", attributes))


def distance_of(within: Any, attributes: list[str], metric: str) -> tuple[float, Metric]:
    """The greatest distance, and of what."""
    if not isinstance(within, Mapping):
        return finite("within", within), Metric(metric)
    one_of("metric", metric, METRICS)
    if metric != "euclidean":
        raise ValueError(f"`within` of `metric`={metric!r} is one number of metres; got {within!r}")
    if set(within) != set(attributes):
        raise ValueError(
            f"`within` must have a distance for each of `on`, {attributes}; got {list(within)}"
        )
    return 1.0, Metric(scales=tuple(finite("within", within[name]) for name in attributes))


def finite(argument: str, given: Any) -> float:
    """The number that an argument gives. Raises TypeError for anything else."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise TypeError(f"`{argument}` must be a finite number; got {given!r}")
    return float(given)
