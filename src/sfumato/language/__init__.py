"""The query language: a small superset of Spark SQL's SELECT.

`sql` turns text into frames; `explain` describes them. A script is parsed, each construct becomes
a call of an sfumato function, and Spark runs the remaining text over the results.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sfumato.calls import checks_call
from sfumato.language.syntax import SqlError, errors_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from sfumato.language.tables import PlannedFrame

__all__ = ["SqlError", "explain", "sql"]


@checks_call('sf.sql(spark, "SELECT * FROM s", s=df)')
def sql(
    spark: SparkSession, text: str, **frames: DataFrame | Callable[..., DataFrame]
) -> DataFrame | list[DataFrame]:
    """Plan the queries of a script and return their frames.

    Parameters
    ----------
    spark
        Session whose tables and temporary views the queries read.
    text
        Queries separated by `;`. Only queries run: SELECT, WITH, FROM, VALUES, TABLE, and EXPLAIN
        of one of them, which gives a frame with one column `plan`.
    frames
        Tables by name; they take precedence over the session's: sql(spark, "SELECT ... FROM s",
        s=df). A function that takes frames and returns a frame can be called by name in FROM.

    Returns
    -------
    One frame for one statement, or a list of frames for several. No query is started; only an
    IMPUTE's repository is collected.

    Raises
    ------
    SqlError
        If the text cannot be parsed or resolved, for example because a column is unknown. SqlError
        is a ValueError with the line, the column and, if there is one, a suggested word. Other
        Spark errors are raised unchanged.

    Notes
    -----
    Queries can only read tables known to the session. Hints, scripts, paths as tables, session
    functions, and Spark functions that call Java or read files are refused unless the session
    setting "sfumato.trustText" is "true".

    A query without constructs of this language goes to `spark.sql` unchanged. TOP queries over the
    same table, window, filter and ranking are planned together; each query's frame selects its part
    of the shared answers.
    Cost: parsing takes milliseconds; Spark analyses each query once or a few times.

    Examples
    --------
    >>> ordered = sf.sql(spark, "SELECT id, late FROM s [WATTR made SLACK 0]", s=readings)
    >>> ordered.where("late").count()
    1
    """
    from sfumato.spark.model.declared_frame import DeclaredFrame, in_thread

    plan = partial(_plan, spark, text, frames)
    declared = any(isinstance(frame, DeclaredFrame) for frame in frames.values())
    answers = [frame.df for frame in (in_thread(plan) if declared else plan())]
    return answers[0] if len(answers) == 1 else answers


@checks_call('sf.explain(spark, "SELECT * FROM s", s=df)')
def explain(spark: SparkSession, text: str, **frames: DataFrame | Callable[..., DataFrame]) -> str:
    """Describe what `sql` would do: operators, keys, windows, state and guarantees.

    Parameters
    ----------
    spark, text, frames
        As for `sql`.

    Returns
    -------
    A string that notebooks and prompts display line by line. Nothing is started or collected; only
    the columns of an IMPUTE's repository are read.

    Raises
    ------
    SqlError
        As for `sql`.

    Notes
    -----
    Cost: as for `sql`.

    Examples
    --------
    >>> plan = sf.explain(spark, "SELECT id FROM s [WATTR made SLACK 1]", s=readings)
    >>> plan.splitlines()[2].strip()
    'reorder by event time'
    """
    from sfumato.language.steps import Explanation, explain_step
    from sfumato.spark.model.repository import without_data

    with without_data():
        plans = [explain_step(frame.step) for frame in _plan(spark, text, frames)]
    if len(plans) > 1:
        plans = [f"-- query {i}\n{plan}" for i, plan in enumerate(plans, 1)]
    return Explanation("\n".join(plans))


def _plan(spark: SparkSession, text: str, frames: Mapping[str, Any]) -> list[PlannedFrame]:
    """Plan the statements of a script."""
    from sfumato.language.planner import Planner, parse_script
    from sfumato.spark.model.untrusted_sql import is_trusted

    if not hasattr(spark, "catalog"):
        raise TypeError(
            "`spark` must be a SparkSession, whose tables the queries read; got "
            f"{type(spark).__name__}. To name a frame, write sf.sql(spark, text, s=df). SQL needs "
            "Spark; for tables in memory, call the functions"
        )
    if not isinstance(text, str):
        raise TypeError(f"`text` must be an SQL string; got {type(text).__name__}")
    with errors_in(text):
        script = parse_script(text, trusted=is_trusted(spark))
        return Planner(spark, script, given=frames).frames()
