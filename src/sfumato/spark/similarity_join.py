"""The similarity join of two uncertain streams as a DataFrame function."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DoubleType, StringType, StructType

from sfumato.spark.model.alternatives import ALTERNATIVES
from sfumato.spark.model.columns import names
from sfumato.spark.model.imputation import Imputation, as_imputation
from sfumato.spark.model.join_side import IncompleteSide, Side, pairs_type
from sfumato.spark.model.names import renamed
from sfumato.spark.runtime.run_operator import Input, metrics_name, run_operator
from sfumato.tables.joins.incomplete_join import IncompleteJoinSettings
from sfumato.tables.joins.join import SIDES
from sfumato.tables.joins.similarity_join import SimilarityJoinSettings
from sfumato.windows import Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
    name: str | None = None,
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
    name : of the metrics, instead of the number N

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
    _check(window, attributes, names("order", order))
    chosen: dict[str, Any] = {
        "within": _number("within", within),
        "probability": _number("probability", probability),
        "rows": window.rows,
        "output": output,
        "orders": len(names("order", order)),
        "keys": len(names("key", key)),
        "columns": ("", ""),
        "buckets": 0,
    }
    frames = list(zip((left, right), SIDES, strict=True))
    settings: SimilarityJoinSettings | IncompleteJoinSettings
    sides: Sequence[Side]
    if impute is None:
        sides = [Side(frame, side, attributes, order, key) for frame, side in frames]
        settings = SimilarityJoinSettings(
            dimensions=len(attributes),
            confidence=window.confidence,
            max_tuples=window.max_tuples,
            strategy=strategy,
            on=tuple(f"on{i}" for i in range(len(attributes))),
            **chosen,
        )
    else:
        imputation = as_imputation(impute)
        _check_imputation(imputation, attributes, strategy)
        imputed = imputation.settings.names
        sides = [
            IncompleteSide(frame, side, attributes, order, key, imputed=imputed)
            for frame, side in frames
        ]
        repository = imputation.prepare(left.sparkSession)
        settings = IncompleteJoinSettings(imputer=repository.data, on=tuple(attributes), **chosen)
    settings.make()  # raises here, on the driver, what the settings have wrong
    answers = StructType()
    for side in sides:
        answers = answers.add(side.name, side.passed.type)
    answers = answers.add("probability", DoubleType())
    answers = answers.add(ALTERNATIVES, pairs_type(sides, fixed=True))
    columns = [side.passed.renamed(side.name) for side in sides]
    columns.append(F.col("probability"))
    columns.append(renamed(ALTERNATIVES, ALTERNATIVES, pairs_type(sides, fixed=False)))
    if output == "changes":
        answers = answers.add("change", StringType())
        columns.append(F.col("change"))
    inputs = [
        Input(
            side.frame,
            side.passed,
            side.orders,
            side.keys,
            side.values(),
            invalid=side.invalid(),
            known_invalid=side.known_invalid(),
        )
        for side in sides
    ]
    return run_operator(inputs, settings, answers, columns, metrics=metrics_name("join", name))


def _check_imputation(imputation: Imputation, on: list[str], strategy: str) -> None:
    if set(on) != set(imputation.settings.attributes):
        raise ValueError(
            f"`impute` must have as `attributes` those of `on`, {on}; got "
            f"{list(imputation.settings.attributes)}: to impute others, use sf.impute before the "
            "join"
        )
    if strategy != "auto":
        raise ValueError(
            f"`strategy` has no meaning with `impute`, whose join is its own; got {strategy!r}"
        )


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
