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
    """Plan the queries of a script, and return their frames.

    Parameters
    ----------
    spark
        Session whose tables and temporary views the queries read.
    text
        Queries separated by `;`. Only queries run: SELECT, WITH, FROM, VALUES, TABLE, and EXPLAIN
        of one of them, which gives a frame with one column `plan`.
    frames
        Tables by name, which take precedence over the session's: sql(spark, "SELECT ... FROM s",
        s=df). Also functions from frames to a frame by name, which can stand in FROM.

    Returns
    -------
    One frame for one statement, a list of frames for several. Nothing is started, and only the
    repository of an IMPUTE is collected.

    Raises
    ------
    SqlError
        A ValueError with line, column and likely word, for text that cannot be understood,
        including unknown streams and columns. Spark's other errors are raised unchanged.

    Notes
    -----
    A text can only compute from tables that the session knows. Hints, scripts, tables that are
    paths, functions of the session and Spark's functions that call Java or read files are refused,
    unless the session's setting "sfumato.trustText" is "true".

    A query without a construct of this language goes to `spark.sql` unchanged. TOP queries over the
    same table, window, filter and ranking are planned together: each query's frame is its part of
    the answers to all of them. Parsing takes milliseconds; Spark analyses each query once or a few
    times.

    Examples
    --------
    >>> ordered = sf.sql(spark, "SELECT id, late FROM s [WATTR made SLACK 0]", s=readings)
    >>> ordered.where("late").count()
    1
    """
    from sfumato.language.planner import Planner, parsed
    from sfumato.spark.model.declared_frame import DeclaredFrame, in_thread
    from sfumato.spark.model.outside_text import is_trusted

    _check(spark, text)

    def plan() -> list[DataFrame]:
        script = parsed(text, trusted=is_trusted(spark))
        return [frame.df for frame in Planner(spark, script, given=frames).answers()]

    declared = any(isinstance(frame, DeclaredFrame) for frame in frames.values())
    answers = in_thread(plan) if declared else plan()
    return answers[0] if len(answers) == 1 else answers


def explain(spark: SparkSession, text: str, **frames: DataFrame | Callable[..., DataFrame]) -> str:
    """Describe what `sql` would do: operators, keys, windows, state and guarantees.

    Parameters
    ----------
    spark, text, frames
        As for `sql`.

    Returns
    -------
    A text that notebooks and prompts show as lines. Nothing is started or collected: of the
    repository of an IMPUTE, only the columns are read.

    Raises
    ------
    SqlError
        As for `sql`.

    Examples
    --------
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
