"""The similarity join of two uncertain streams as a DataFrame function."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    DoubleType,
    StringType,
    StructField,
    StructType,
)

from sfumato.spark.checked import invalid_reason
from sfumato.spark.model.alternatives import ALTERNATIVES
from sfumato.spark.model.columns import (
    ORDERABLE,
    attributes_of,
    bucket_count,
    names,
    require,
    with_bucket,
    with_tie,
)
from sfumato.spark.runtime import bucket_state, chunks
from sfumato.tables.joins.join import SIDES, TIE
from sfumato.tables.joins.similarity_join import SimilarityJoinSettings
from sfumato.windows import Rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from sfumato.spark.model.imputation import Imputation
    from sfumato.tables.joins.incomplete_join import IncompleteJoinSettings

METRICS = itertools.count(1)


def similarity_join(
    left: DataFrame,
    right: DataFrame,
    *,
    on: str | Sequence[str],
    within: float,
    probability: float,
    window: Rows,
    order: str | Sequence[str],
    key: str | Sequence[str] | None = None,
    strategy: str = "auto",
    output: str = "append",
    impute: Imputation | Mapping[str, Any] | None = None,
) -> DataFrame:
    """Pairs of tuples of two streams that are close with at least the wanted probability.

    Each arriving tuple u is compared with the opposing window as it stands. The match with a
    tuple v of the window has the probability T · Σ Pr(u_k)·Pr(v_l) over the alternatives with
    dist(u_k, v_l) ≤ `within`, where T is the probability that v is among the `window.rows`
    newest existing tuples of its stream. Exact; the pair comes out iff it is ≥ `probability`.

    on : the attributes that span the distance (Euclidean), of the alternatives of both frames.
        A frame without alternatives is taken by its plain columns: each row one alternative,
        with probability `existence` where it has such a column, else 1
    within : greatest distance, inclusive, > 0, in the attributes' unit
    probability : least probability of a pair, in (0, 1]
    window : sf.Rows, for each side and key
    order : the column(s) of both frames that give the order of arrival; simultaneous tuples:
        left before right. On streams it must not decrease, over both frames, from one micro-batch
        to the next: rows that come after later ones meet the windows as they are then, and are
        counted. Two filters of one stream keep step by themselves; two sources keep it if they
        are read at the same pace, which a crash between their logs can upset
    key : column(s) of both frames that must be equal; each key has windows of its own
    strategy : "nested" (every pair), "index" (grid with object- and sample-level pruning), "sort"
        (one attribute only), or "auto"; the answers are the same
    output : "append": pairs as they are found; "changes": also, when a tuple leaves its window,
        its pairs again with change "-", so that the rows so far make up the current answer set
    impute : `sfumato.Imputation`, or its arguments as a dict: both frames have plain columns in
        which attributes are missing; they are imputed and joined at once, see below

    Columns: `left`, `right` (structs of the certain columns), `probability`, `alternatives`
    (the matching pairs: prob, left_ATTR, right_ATTR; their probs sum to `probability`) and, with
    changes, `change` ("+" or "-").

    Rows with invalid alternatives, or without order or key, take no part: they are the rows of
    ``sf.rejected``, and the observed metrics ``sfumato_join_N_left`` and ``..._right`` count
    them (`invalid`). ``sfumato_join_N`` counts rows, pairs, out_of_order (rows whose order is
    before an earlier micro-batch's; they are processed as they come) and overflow
    (tuples evicted by `max_tuples`).

    With `impute` the answers are those of ``sf.impute`` on both frames and then this function, but
    only rows that come within reach of another one are imputed in full. `on` are the attributes
    imputed, both frames have the determinants as well, and distances are of the values, not of
    scaled ones. Imputed rows exist for sure, so that a window holds its newest `window.rows` rows,
    whatever its confidence; `strategy` does not apply. Rows that cannot be imputed take no part:
    they are the rows of ``sf.rejected(sf.impute(...))``. ``sfumato_join_N`` counts rows, which are
    complete + imputed + unimputable, pairs and out_of_order, and what was done: completed (rows
    imputed in full) and refined (pairs whose alternatives were compared). The repository is read
    when this is called, as by ``sf.impute``; it is part of what the query is: a checkpoint written
    with another one is refused.

    Cost: one shuffle by key; state: the windows' tuples (and with changes the current pairs).
    Raises ValueError or TypeError for wrong arguments. Source: A, sections 4-6; B, sections 5-6;
    for `impute` E, sections 4 and 5.
    """
    attributes = names("on", on)
    orders = names("order", order)
    keys = names("key", key)
    _check(window, attributes, orders)
    within, probability = _number("within", within), _number("probability", probability)
    chosen: dict[str, Any] = {
        "within": within,
        "probability": probability,
        "rows": window.rows,
        "strategy": strategy,
        "output": output,
        "on": tuple(attributes),
        "orders": len(orders),
        "keys": len(keys),
        "columns": (left.schema.simpleString(), right.schema.simpleString()),
        "buckets": bucket_count(left, keys),
    }
    settings: SimilarityJoinSettings | IncompleteJoinSettings
    kind: Callable[..., Side] = Side
    if impute is None:
        settings = SimilarityJoinSettings(
            dimensions=len(attributes),
            confidence=window.confidence,
            max_tuples=window.max_tuples,
            **chosen,
        )
    else:
        from sfumato.spark import incomplete_join  # which imports this module

        settings, kind = incomplete_join.prepared(impute, left.sparkSession, chosen)
    settings.make()  # raises here, on the driver, what the settings have wrong
    number = next(METRICS)
    sides = [
        kind(frame, name, attributes, orders, keys)
        for frame, name in zip((left, right), SIDES, strict=True)
    ]
    packed = [
        chunks.pack(
            with_bucket(
                side.projected(f"sfumato_join_{number}_{side.name}"),
                side.key_names,
                settings.buckets,
            ),
            position,
        )
        for position, side in enumerate(sides)
    ]
    answers = bucket_state.run(packed[0].union(packed[1]), settings, f"sfumato_join_{number}")
    return chunks.unpack(answers, _output(sides, attributes, output))


def _check(window: Any, attributes: list[str], orders: list[str]) -> None:
    if not isinstance(window, Rows):
        raise TypeError(f"`window` must be sf.Rows(rows, confidence=...); got {window!r}")
    if not attributes:
        raise ValueError("`on` must name at least one attribute; got none")
    if not orders:
        raise ValueError("`order` must name the column(s) of the arrival order; got none")


def _number(argument: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise TypeError(f"`{argument}` must be a finite number; got {given!r}")
    return float(given)


class Side:
    """One of the two frames: what it offers, and its projection to what the operator needs."""

    def __init__(
        self, frame: DataFrame, name: str, on: list[str], orders: list[str], keys: list[str]
    ) -> None:
        self.frame, self.name, self.on, self.orders, self.keys = frame, name, on, orders, keys
        self.attributes = attributes_of(frame)
        self.key_names = [f"key{i}" for i in range(len(keys))]
        require(frame, f"order of the {name} frame", orders)
        require(frame, f"key of the {name} frame", keys)
        for column in orders:
            kind = frame.schema[column].dataType
            if not isinstance(kind, ORDERABLE):
                raise TypeError(
                    f"`order` must name columns of numbers, times or dates; "
                    f"`{column}` of the {name} frame is {kind.simpleString()}"
                )
        if ALTERNATIVES in frame.columns:
            missing = [a for a in on if a not in self.attributes]
            if missing:
                raise ValueError(
                    f"`on` names {missing}, which the alternatives of the {name} frame lack; "
                    f"they have {self.attributes}"
                )
        else:
            require(frame, f"on of the {name} frame", on)
            self.attributes = list(on)
        self.certain = [c for c in frame.columns if c != ALTERNATIVES]

    @property
    def row_type(self) -> StructType:
        return StructType([self.frame.schema[name] for name in self.certain])

    def projected(self, metrics_name: str) -> DataFrame:
        """What the operator reads of the valid rows, under fixed names; the others are counted."""
        lacking = F.lit(False)
        for name in [*self.orders, *self.keys]:
            lacking = lacking | F.col(f"`{name}`").isNull()
        invalid = invalid_reason(self.frame, self.on).isNotNull() | lacking
        counted = with_tie(self.frame, TIE).withColumn("__invalid", invalid)
        counted = counted.observe(
            metrics_name,
            F.count(F.lit(1)).alias("rows"),
            F.coalesce(F.sum(F.col("__invalid").cast("long")), F.lit(0)).alias("invalid"),
        )
        return counted.where("not __invalid").select(
            F.struct(*(F.col(f"`{c}`") for c in self.certain)).alias("row"),
            self._alternatives().alias(ALTERNATIVES),
            *(F.col(f"`{c}`").alias(f"order{i}") for i, c in enumerate(self.orders)),
            *(
                F.col(f"`{c}`").alias(name)
                for c, name in zip(self.keys, self.key_names, strict=True)
            ),
            TIE,
        )

    def _alternatives(self) -> Column:
        if ALTERNATIVES in self.frame.columns:
            return F.transform(
                ALTERNATIVES,
                lambda a: F.struct(
                    a["prob"].cast("double").alias("prob"),
                    *(
                        (a[name].cast("double") if name in self.on else a[name]).alias(name)
                        for name in self.attributes
                    ),
                ),
            )
        prob = F.col("existence") if "existence" in self.frame.columns else F.lit(1.0)
        values = [F.col(f"`{name}`").cast("double").alias(name) for name in self.on]
        return F.array(F.struct(prob.cast("double").alias("prob"), *values))

    def attribute_fields(self) -> list[StructField]:
        """Fields of this side's attributes in an answer's alternatives."""
        fields = []
        for name in self.attributes:
            kind: Any = DoubleType()
            if name not in self.on:
                array = self.frame.schema[ALTERNATIVES].dataType
                assert isinstance(array, ArrayType)
                assert isinstance(array.elementType, StructType)
                kind = array.elementType[name].dataType
            fields.append(StructField(f"{self.name}_{name}", kind))
        return fields


def _output(sides: list[Side], on: list[str], output: str) -> StructType:
    pair = StructType([StructField("prob", DoubleType())])
    schema = StructType()
    for side in sides:
        schema = schema.add(side.name, side.row_type)
        for field in side.attribute_fields():
            pair = pair.add(field)
    schema = schema.add("probability", DoubleType()).add(ALTERNATIVES, ArrayType(pair))
    return schema.add("change", StringType()) if output == "changes" else schema
