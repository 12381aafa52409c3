"""`prune` and `fuse` over Spark frames."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, StructType

from sfumato.spark.model.alternatives import bind, existence, sum_over
from sfumato.spark.model.columns import column, named
from sfumato.spark.model.frame import SparkFrame
from sfumato.tables.reading.frame import FILTERED
from sfumato.tables.reading.tuples import ALTERNATIVES, CONFLICT, PRUNED, common_attributes


def prune(frame: SparkFrame, min_prob: float, top: int, normalize: bool) -> DataFrame:
    column = F.col(ALTERNATIVES)

    def prob(a: Column) -> Column:
        return a["prob"].cast("double")

    ranked = F.array_sort(
        F.transform(column, lambda a, i: F.struct((-prob(a)).alias("rank"), i.alias("place")))
    )
    first = F.filter(
        F.slice(ranked, 1, top), lambda of, i: (i == 0) | (-of["rank"] >= F.lit(float(min_prob)))
    )
    places = F.transform(first, lambda of: of["place"])

    def parted(places: Column) -> Column:
        kept = F.filter(column, lambda a, i: F.array_contains(places, i))
        others = F.filter(column, lambda a, i: ~F.array_contains(places, i))
        lost = sum_over(others, prob, lambda of: of)
        if normalize:
            held = sum_over(kept, prob, lambda of: of)
            kept = F.transform(
                kept, lambda a: a.withField("prob", prob(a) * (existence(column) / held))
            )
        return F.struct(kept.alias("kept"), lost.alias("lost"))

    both = F.when(existence(column).isNotNull(), bind(places, parted))
    return _replace_alternatives(
        frame,
        both,
        lambda of: (F.coalesce(of["kept"], column), of["lost"].alias(PRUNED)),
        {FILTERED: "true"},
    )


def _replace_alternatives(
    frame: SparkFrame,
    both: Column,
    of: Callable[[Column], tuple[Column, Column]],
    marks: Mapping[str, str],
) -> DataFrame:
    """Return the frame with new alternatives and an added column, both from one struct.

    marks : metadata added to replaced alternatives
    """
    name = frame.free_name("__both")
    made, added = of(F.col(name))
    columns = [column(n) for n in frame.columns]
    if frame.uncertain:
        metadata = {**frame.metadata(ALTERNATIVES), **marks}
        columns[frame.columns.index(ALTERNATIVES)] = named(made, ALTERNATIVES, metadata)
    else:
        columns.append(made.alias(ALTERNATIVES))
    return frame.df.withColumn(name, both).select(*columns, added)


def _fields(kind: Any) -> dict[str, str] | None:
    """Return the field types of an array of structs, or None for a different type."""
    element = kind.elementType if isinstance(kind, ArrayType) else None
    if not isinstance(element, StructType):
        return None
    return {field.name: field.dataType.simpleString() for field in element}


def fuse(frame: SparkFrame, measurements: Sequence[str]) -> DataFrame:
    names = common_attributes({name: _fields(frame.type(name)) for name in measurements})
    columns = [column(name) for name in measurements]

    def values(column: Column) -> Column:
        return F.transform(column, lambda a: F.struct(*(a[name].alias(name) for name in names)))

    exists = [existence(column) for column in columns]
    wrong = reduce(
        lambda a, b: a | b,
        [column.isNotNull() & e.isNull() for column, e in zip(columns, exists, strict=True)],
    )

    def weight(value: Column, column: Column) -> Column:
        """Return the probability of a value in one column; 1 where the column is NULL."""
        equal = F.filter(column, lambda a: F.struct(*(a[n].alias(n) for n in names)) == value)
        total = F.aggregate(equal, F.lit(0.0), lambda acc, a: acc + a["prob"].cast("double"))
        return F.coalesce(total, F.lit(1.0))

    def product(weights: list[Column]) -> Column:
        return reduce(lambda a, b: a * b, weights)

    absent = product([F.coalesce(1.0 - e, F.lit(1.0)) for e in exists])
    base = F.array_distinct(values(F.coalesce(*columns)))
    joint = F.transform(
        base,
        lambda value: F.struct(
            product([weight(value, column) for column in columns]).alias("prob"),
            *(value[name].alias(name) for name in names),
        ),
    )
    common = F.filter(joint, lambda a: a["prob"] > 0.0)

    def normalised(common: Column) -> Column:
        total = F.aggregate(common, absent, lambda acc, a: acc + a["prob"])

        def scaled(total: Column) -> Column:
            some = F.when(F.size(common) > 0, common)
            found = F.transform(some, lambda a: a.withField("prob", a["prob"] / total))
            conflict = F.greatest(1.0 - total, F.lit(0.0))
            return F.struct(found.alias("found"), conflict.alias("conflict"))

        return bind(total, scaled)

    both = F.when(~wrong & F.coalesce(*columns).isNotNull(), bind(common, normalised))
    return _replace_alternatives(
        frame, both, lambda of: (of["found"], of["conflict"].alias(CONFLICT)), {}
    )
