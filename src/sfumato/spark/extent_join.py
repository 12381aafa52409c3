"""The join of two windowed streams, extent by extent, as a DataFrame function."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from sfumato.spark.model.alternatives import ALTERNATIVES
from sfumato.spark.model.columns import attributes_of, bucket_count, names, require, with_bucket
from sfumato.spark.reorder import CONTROLLED_BY
from sfumato.spark.runtime import bucket_state, chunks
from sfumato.tables.joins.extent_join import SIDES, ExtentJoinSettings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

METRICS = itertools.count(1)


def extent_join(
    left: DataFrame,
    right: DataFrame,
    *,
    key: str | Sequence[str] | None = None,
    on: str | Sequence[str] | None = None,
    within: float | None = None,
    probability: float | None = None,
) -> DataFrame:
    """Pairs of rows of two windowed streams whose extents end at the same time.

    left, right : answers of sf.window_aggregate over sf.Range, with their column `window`; their
        lengths may differ, and extents with equal ends are joined
    key : column(s) of both frames that must be equal. The disorder controller before a frame must
        have had no key, or one that is part of `key`
    on, within, probability : as for sf.similarity_join: the rows' alternatives must be within the
        distance with at least the probability (both rows are in their extents for sure)

    Columns: `window` (of the left row), `left` and `right` (structs of all columns of the rows)
    and, with `on`, `probability` and `alternatives` (the matching pairs). Any other condition is a
    filter on these: ``.where("left.speed > right.speed")``. A pair comes out once, in the
    micro-batch in which both rows are there: neither stream overtakes the other, for the rows of
    the one that is ahead wait. The observed metrics ``sfumato_extents_N`` count rows, pairs and
    unmatched (rows whose extent the other side has gone past).

    Cost: one shuffle by key; state: the rows of extents that only one side has completed.
    Raises ValueError or TypeError for wrong arguments. Source: C, section 6 (figure 6).
    """
    keys, attributes = names("key", key), names("on", on)
    similar = [value is not None for value in (on, within, probability)]
    if any(similar) and not all(similar):
        raise ValueError("`on`, `within` and `probability` go together: give all three or none")
    if within is not None and not within > 0:
        raise ValueError(f"`within` must be a distance above 0; got {within!r}")
    if probability is not None and not 0 < probability <= 1:
        raise ValueError(f"`probability` must lie in (0, 1]; got {probability!r}")
    sides = dict(zip(SIDES, (left, right), strict=True))
    scopes = [_scope(frame, name, keys) for name, frame in sides.items()]
    for name, frame in sides.items():
        require(frame, f"key of the {name} frame", keys)
        lacking = [a for a in attributes if a not in attributes_of(frame)]
        if lacking:
            raise ValueError(
                f"`on` names {lacking}, which the alternatives of the {name} frame lack; they "
                f"have {attributes_of(frame)}"
            )
    scope = sorted(set(scopes[0]) | set(scopes[1]))
    settings = ExtentJoinSettings(
        keys=len(keys),
        scope=tuple(scope),
        columns=(left.schema.simpleString(), right.schema.simpleString()),
        buckets=bucket_count(left, keys),
    )
    key_names = [f"key{i}" for i in range(len(keys))]
    packed = [
        chunks.pack(with_bucket(_projected(frame, keys), key_names, settings.buckets), side)
        for side, frame in enumerate(sides.values())
    ]
    number = next(METRICS)
    answers = bucket_state.run(packed[0].union(packed[1]), settings, f"sfumato_extents_{number}")
    output = StructType([left.schema["window"]])
    for name, frame in sides.items():
        output = output.add(name, StructType(list(frame.schema.fields)))
    pairs = chunks.unpack(answers, output)
    if not attributes:
        return pairs
    matching = _matching(left, right, attributes, float(within or 0))
    pairs = pairs.withColumn(ALTERNATIVES, matching)
    mass = F.aggregate(ALTERNATIVES, F.lit(0.0), lambda total, pair: total + pair["prob"])
    return pairs.withColumn("probability", mass).where(F.col("probability") >= F.lit(probability))


def _scope(frame: DataFrame, name: str, keys: list[str]) -> list[int]:
    """Numbers of the keys within which the extents of a frame come in order."""
    if not is_extents(frame):
        raise ValueError(
            f"the {name} frame has no column `window` of extents: make it with "
            "sf.window_aggregate(..., window=sf.Range(...))"
        )
    metadata = frame.schema["window"].metadata
    controlled = json.loads(metadata[CONTROLLED_BY])
    lacking = [column for column in controlled if column not in keys]
    if lacking:
        raise ValueError(
            f"the extents of the {name} frame are complete for each {', '.join(controlled)}: add "
            f"{', '.join(lacking)} to `key`, or reorder without key before the window"
        )
    return [keys.index(column) for column in controlled]


def is_extents(frame: DataFrame) -> bool:
    """Whether a frame has the column `window` of extents, as window_aggregate made it."""
    return "window" in frame.columns and CONTROLLED_BY in frame.schema["window"].metadata


def _projected(frame: DataFrame, keys: list[str]) -> DataFrame:
    return frame.select(
        F.struct(*(F.col(f"`{name}`") for name in frame.columns)).alias("row"),
        "window",
        *(F.col(f"`{name}`").alias(f"key{i}") for i, name in enumerate(keys)),
    )


def _matching(left: DataFrame, right: DataFrame, on: list[str], within: float) -> Column:
    """The pairs of alternatives within the distance, with the product of their probabilities."""

    def pair(a: Column, b: Column) -> Column:
        fields = [(a["prob"] * b["prob"]).alias("prob")]
        for side, frame, of in (("left", left, a), ("right", right, b)):
            fields += [of[name].alias(f"{side}_{name}") for name in attributes_of(frame)]
        return F.struct(*fields)

    def close(both: Column) -> Column:
        squares = [
            (both[f"left_{name}"] - both[f"right_{name}"])
            * (both[f"left_{name}"] - both[f"right_{name}"])
            for name in on
        ]
        total = squares[0]
        for square in squares[1:]:
            total = total + square
        return F.sqrt(total) <= within

    pairs = F.flatten(
        F.transform(
            f"left.{ALTERNATIVES}",
            lambda a: F.transform(f"right.{ALTERNATIVES}", lambda b: pair(a, b)),
        )
    )
    return F.filter(pairs, close)
