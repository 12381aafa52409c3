"""The one place where Spark sessions are made, for the command line and the tests."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.cli.configure import ELSEWHERE, quiet_children
from sfumato.cli.java import use_java
from sfumato.cli.pipeline.environment import Environment, discreet_children
from sfumato.cli.pipeline.model import SparkPart
from sfumato.cli.pipeline.section import PipelineError
from sfumato.spark.settings import settings
from sfumato.spark.state.operator_cache import memory_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

# A short run ends before the JVM's best compiler pays: its first answer comes sooner without it.
# The room for compiled code must then be asked for, or it fills up, and nothing more is compiled.
SHORT_RUN = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
MOST_HEAP = 4 << 30  # bytes of a local session's Java heap; Spark takes 1 GB, often collected
LOCAL = SparkPart()
LOGGING = Path(__file__).with_name("log4j2.properties")
QUIET = f"-Dlog4j2.configurationFile={LOGGING.as_uri()}"
LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
TASK_ATTEMPTS = 4  # as on a cluster; Spark's default for one machine is one


def session(
    app_name: str = "sfumato",
    *,
    cores: int | None = None,
    short: bool = False,
    page: bool = False,
    part: SparkPart = LOCAL,
) -> SparkSession:
    """A Spark session with `sfumato.ops.settings`, in UTC, quiet; a failed task is tried again.

    cores : None: those this process may use
    short : the run takes a minute rather than an hour: start faster, peak lower
    page : with Spark's web page
    part : where Spark runs, if not here, with which settings and connectors

    Sets JAVA_HOME (see `use_java`) and makes workers run this Python, unless PYSPARK_PYTHON says
    otherwise. A local one that is not short has a quarter of the memory for Java, 1 to 4 GB; see
    `heap`. Raises NoJavaError.
    """
    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    local = part.master is None or part.master.startswith("local")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYARROW_IGNORE_TIMEZONE", "1")
    from pyspark.sql import SparkSession

    number = cores or _cores()
    master = f"local[{number}, {TASK_ATTEMPTS}]" if part.master is None or cores else part.master
    builder = SparkSession.builder.appName(app_name).master(master)
    chosen = {
        **settings(number if local else cores, local_disk=local),
        "spark.ui.enabled": str(page).lower(),
        "spark.ui.showConsoleProgress": "false",
        **(LOOPBACK if local else {}),
        **({} if short or not local else heap()),
        "spark.driver.extraJavaOptions": f"{QUIET} {SHORT_RUN}" if short else QUIET,
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.variable.substitute": "false",  # ${env:NAME} in a query is text
        **connectors(part),
        **redactions(part),
        **part.settings,
    }
    for name, value in chosen.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def heap() -> dict[str, str]:
    """The setting of the Java heap; none where the environment, or files it names, may say one."""
    submitted = "--driver-memory" in os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    if submitted or any(name in os.environ for name in ELSEWHERE):
        return {}
    size = min(max(memory_here() // 4, 1 << 30), MOST_HEAP)
    return {"spark.driver.memory": f"{size >> 20}m"}


def connectors(part: SparkPart) -> dict[str, str]:
    """The settings with which Spark fetches a file's packages and takes its jars."""
    chosen = {"spark.jars.packages": part.packages, "spark.jars": part.jars}
    return {name: ",".join(values) for name, values in chosen.items() if values}


# What Spark hides by itself, in settings and in options, and what is as secret.
SECRET = "(?i)secret|password|passwd|token|access[.]?key|credential|jaas"
OPTIONS = "(?i)url|credential|jaas"


def redactions(part: SparkPart) -> dict[str, str]:
    """The settings with which Spark's page and plans do not show the values of some options."""
    if not part.hidden:
        return {}
    names = "|".join(rf"\Q{name.lower()}\E" for name in part.hidden)
    return {
        "spark.redaction.regex": f"{SECRET}|{names}",
        "spark.sql.redaction.options.regex": f"{OPTIONS}|{names}",
    }


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def command_session(
    console: Console,
    cores: int | None,
    verbose: bool,
    *,
    short: bool = False,
    page: bool = False,
    trust: bool = False,
    part: SparkPart = LOCAL,
    environment: Environment | None = None,
) -> Iterator[SparkSession]:
    """A session for one command of the command line, stopped behind it; see `session`.

    verbose : with Spark's own messages    trust : texts may do all that Spark can
    environment : whose values these messages must not show
    """
    _use_utc()
    with console.status("Starting Spark"), _children(verbose, environment):
        spark = _started(part, cores=cores, short=short, page=page)
    if not verbose:  # we report errors ourselves, in a line
        spark.sparkContext.setLogLevel("OFF")
        root = ""  # Py4J logs interrupts there
        for name in (root, "SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    if trust:
        from sfumato.spark.model.outside_text import TRUST

        spark.conf.set(TRUST, "true")
    else:  # no table is a path, whatever the text says
        spark.conf.set("spark.sql.runSQLOnFiles", "false")
    with _interrupts():
        try:
            yield spark
        finally:
            spark.stop()


def _children(verbose: bool, environment: Environment | None) -> AbstractContextManager[None]:
    """How processes that start in here write to standard error."""
    if not verbose:
        return quiet_children()
    return discreet_children(environment) if environment and environment.used else nullcontext()


def _started(part: SparkPart, **options: Any) -> SparkSession:
    """A session; what Ivy cannot fetch is the file's to mend."""
    try:
        return session("sfumato", part=part, **options)
    except Exception as error:
        if not part.packages:
            raise
        why = f"{', '.join(part.packages)} could not be fetched, or Spark did not start with it: "
        why += "--verbose shows what it says; without a network give the files, `spark.jars`"
        raise PipelineError.at("spark.packages", f": {why}") from error


def _use_utc() -> None:
    """Show times as the session does: PySpark gives timestamps in this process's own zone."""
    os.environ["TZ"] = "UTC"
    if hasattr(time, "tzset"):
        time.tzset()


@contextmanager
def _interrupts() -> Iterator[None]:
    """Ctrl-C and SIGTERM interrupt the command alone; PySpark's handler would cancel Spark's jobs.

    Outside the main thread, as in some tests, handlers cannot be set and none are.
    """

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    try:
        before = {s: signal.signal(s, interrupt) for s in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
