"""The query language: a small superset of Spark SQL's SELECT, planned over our functions.

`sql` turns text into frames, `explain` says what they will do. A script is parsed, its
constructs become calls of functions, and the rest is Spark's own text with our frames in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.language.errors import SqlError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SqlError", "explain", "sql"]


def sql(
    spark: SparkSession, text: str, **frames: DataFrame | Callable[..., DataFrame]
) -> DataFrame | list[DataFrame]:
    """Return the frames of a script's queries: one for one statement, a list for several.

    spark : the session whose tables and temporary views the queries read
    text : queries separated by `;`. Only queries run: SELECT, WITH, FROM, VALUES, TABLE, and
        EXPLAIN of one of them, which gives a frame with one column `plan`
    frames : tables by name, which go before the session's: sql(spark, "SELECT ... FROM s", s=df);
        and functions from frames to a frame by name, which can stand in FROM

    Nothing is started, and nothing collected but the repository of an IMPUTE. A query without a
    construct of this language goes to `spark.sql` as it is read. TOP queries over the same
    table, window, filter and ranking are planned together: each one's frame is its part of the
    answers to all of them. Parsing takes milliseconds; Spark analyses each query once or a few
    times.

    Raises SqlError (a ValueError) with line, column and likely word for what cannot be understood
    in it, an unknown stream or column included; other errors of Spark's are raised as they are.
    A text only computes from tables that the session knows: hints, scripts, tables that are paths,
    functions of the session and Spark's functions that call Java or read files are refused, unless
    the session's setting "sfumato.trustText" is "true".

    >>> ordered = sf.sql(spark, "SELECT id, late FROM s [WATTR made SLACK 0]", s=readings)
    >>> ordered.where("late").count()
    1
    """
    from sfumato.language.planner import Planner, parsed
    from sfumato.spark.model.declared_frame import DeclaredFrame, asked
    from sfumato.spark.model.outside_text import is_trusted

    _check(spark, text)

    def plan() -> list[DataFrame]:
        script = parsed(text, trusted=is_trusted(spark))
        return [frame.df for frame in Planner(spark, script, given=frames).answers()]

    declared = any(isinstance(frame, DeclaredFrame) for frame in frames.values())
    answers = asked(plan) if declared else plan()
    return answers[0] if len(answers) == 1 else answers


def explain(spark: SparkSession, text: str, **frames: DataFrame | Callable[..., DataFrame]) -> str:
    """Describe what `sql` would do: operators, keys, windows, state and guarantees.

    A text that notebooks and prompts show as lines. Arguments and errors as for `sql`. Nothing is
    started or collected: of the repository of an IMPUTE, only the columns are looked at.

    >>> plan = sf.explain(spark, "SELECT id FROM s [WATTR made SLACK 1]", s=readings)
    >>> plan.splitlines()[2].strip()
    'reorder by event time'
    """
    from sfumato.language.planner import Planner, parsed
    from sfumato.language.steps import Explanation, explained
    from sfumato.spark.model.outside_text import is_trusted
    from sfumato.spark.model.repository import without_data

    _check(spark, text)
    script = parsed(text, trusted=is_trusted(spark))
    with without_data():
        planned = Planner(spark, script, given=frames).frames()
    plans = [explained(frame.step) for frame in planned]
    if len(plans) > 1:
        plans = [f"-- query {i}\n{plan}" for i, plan in enumerate(plans, 1)]
    return Explanation("\n".join(plans))


def _check(spark: object, text: object) -> None:
    """Raise TypeError for what is no session or no text."""
    if not hasattr(spark, "catalog"):
        raise TypeError(
            "`spark` must be a SparkSession, whose tables the queries read; got "
            f"{type(spark).__name__}: sf.sql(spark, text, s=df) gives a frame a name"
        )
    if not isinstance(text, str):
        raise TypeError(f"`text` must be SQL, as text; got {type(text).__name__}")
