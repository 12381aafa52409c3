"""Spark sessions of the command line and the tests."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.cli.configure import CONF_VARIABLES, quiet_children, use_java
from sfumato.cli.failures import JAVA_ERRORS, LostJavaError
from sfumato.cli.pipeline.environment import RedactingConsole, redact_children
from sfumato.cli.pipeline.model import PipelineError, SparkPart
from sfumato.spark.settings import settings
from sfumato.spark.state.operator_owners import available_memory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A short run ends before the optimising JIT compiler pays off; without it the first rows are
# faster. The size of the code cache must then be set, or it fills up and compilation stops.
SHORT_RUN = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
MAX_HEAP = 4 << 30  # bytes of a local session's Java heap; Spark's default is 1 GB
LOCAL = SparkPart()
LOGGING = Path(__file__).with_name("log4j2.properties")
QUIET = f"-Dlog4j2.configurationFile={LOGGING.as_uri()}"
LOOPBACK_SETTINGS = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
LAST_SECONDS = 5.0  # after a call to Java fails, time in which the process ends if it was killed
LOST_JAVA = (
    "Spark's Java process ended: it was killed, or the machine ran out of memory. The next run "
    "continues after the last finished micro-batch"
)
TASK_ATTEMPTS = 4  # Spark's default on a cluster; on one machine it is 1


def session(
    app_name: str = "sfumato",
    *,
    cores: int | None = None,
    short: bool = False,
    page: bool = False,
    part: SparkPart = LOCAL,
) -> SparkSession:
    """Start a quiet Spark session with `sfumato.ops.settings`; failed tasks are retried.

    cores : None: all cores available to this process
    short : the run takes minutes, not hours: start faster, with less memory
    page : serve Spark's web page
    part : the master, settings and connectors

    Sets JAVA_HOME (see `use_java`) and makes workers run this Python, unless PYSPARK_PYTHON is set.
    The Java heap of a local session that is not short is a quarter of the memory, 1 to 4 GB. Raises
    NoJavaError.
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
    brought = {"spark.jars.packages": part.packages, "spark.jars": part.jars}
    chosen = {
        **settings(number if local else cores, local_disk=local),
        "spark.ui.enabled": str(page).lower(),
        "spark.ui.showConsoleProgress": "false",
        **(LOOPBACK_SETTINGS if local else {}),
        **({} if short or not local else heap_settings()),
        "spark.driver.extraJavaOptions": f"{QUIET} {SHORT_RUN}" if short else QUIET,
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.variable.substitute": "false",  # ${env:NAME} in a query is plain text
        **{name: ",".join(given) for name, given in brought.items() if given},
        **redaction_settings(part),
        **part.settings,
    }
    for name, value in chosen.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def heap_settings() -> dict[str, str]:
    """Return the setting of the Java heap; empty if the environment may set it."""
    submitted = "--driver-memory" in os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    if submitted or any(name in os.environ for name in CONF_VARIABLES):
        return {}
    size = min(max(available_memory() // 4, 1 << 30), MAX_HEAP)
    return {"spark.driver.memory": f"{size >> 20}m"}


# Spark's default redaction patterns for settings and options, with further secret names
SECRET = "(?i)secret|password|passwd|token|access[.]?key|credential|jaas"
REDACTED_OPTIONS = "(?i)url|credential|jaas"


def redaction_settings(part: SparkPart) -> dict[str, str]:
    """Return the settings that redact option values in Spark's web page and plans."""
    if not part.hidden:
        return {}
    names = "|".join(rf"\Q{name.lower()}\E" for name in part.hidden)
    return {
        "spark.redaction.regex": f"{SECRET}|{names}",
        "spark.sql.redaction.options.regex": f"{REDACTED_OPTIONS}|{names}",
    }


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def command_session(
    console: RedactingConsole,
    cores: int | None,
    verbose: bool,
    *,
    short: bool = False,
    page: bool = False,
    trust: bool = False,
    part: SparkPart = LOCAL,
) -> Iterator[SparkSession]:
    """Start a session for one command, and stop it afterwards; see `session`."""
    os.environ["TZ"] = "UTC"  # PySpark returns timestamps in the zone of this process
    if hasattr(time, "tzset"):
        time.tzset()
    children = nullcontext() if verbose else quiet_children()
    if verbose and console.environment.used_variables:
        children = redact_children(console.environment)
    with console.status("Starting Spark"), children:
        spark, processes = _started(part, cores=cores, short=short, page=page)
    if not verbose:  # the command reports errors in one line
        spark.sparkContext.setLogLevel("OFF")
        root = ""  # Py4J logs interrupts to the root logger
        for name in (root, "SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        server: Any = spark.sparkContext._accumulatorServer
        server.handle_error = lambda *_: None  # of connections that an interrupt closes
    if trust:
        from sfumato.spark.model.untrusted_sql import TRUST_SETTING

        spark.conf.set(TRUST_SETTING, "true")
    else:  # a query must not read a path as a table
        spark.conf.set("spark.sql.runSQLOnFiles", "false")
    with _interrupts(), _reported_loss(processes):
        try:
            yield spark
        finally:
            # A second Ctrl-C causes a warning, a lost Java process an error.
            with warnings.catch_warnings(), suppress(*JAVA_ERRORS):
                warnings.simplefilter("ignore", RuntimeWarning)
                spark.stop()


@contextmanager
def _reported_loss(processes: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Raise LostJavaError instead of the errors of calls to a Java process that has ended."""
    try:
        yield
    except JAVA_ERRORS as error:
        for java in processes:
            with suppress(subprocess.TimeoutExpired):
                java.wait(LAST_SECONDS)
                raise LostJavaError(LOST_JAVA) from error
        raise


def _started(part: SparkPart, **options: Any) -> tuple[SparkSession, list[subprocess.Popen[bytes]]]:
    """Start a session; return it and the Java processes that were started for it.

    Raises PipelineError for a package that cannot be downloaded.
    """
    from pyspark import java_gateway

    processes = []

    def popen(*arguments: Any, **more: Any) -> subprocess.Popen[bytes]:
        processes.append(subprocess.Popen(*arguments, **more))
        return processes[-1]

    gateway: Any = java_gateway
    gateway.Popen = popen
    try:
        return session("sfumato", part=part, **options), processes
    except KeyboardInterrupt:
        for java in processes:  # without this process it would wait forever
            java.terminate()
        raise
    except Exception as error:
        if not part.packages:
            raise
        why = (
            f"{', '.join(part.packages)} could not be fetched, or Spark did not start with these "
            "packages: --verbose shows the reason; without a network, give the files as "
            "`spark.jars`"
        )
        raise PipelineError.at("spark.packages", f": {why}") from error
    finally:
        gateway.Popen = subprocess.Popen


@contextmanager
def _interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt for Ctrl-C and SIGTERM; PySpark's handler would cancel jobs.

    Python ignores an exception in the finalizer of an object, such as a Py4J proxy. The signal is
    then sent once more.
    """
    report = sys.unraisablehook

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    def send_again(ignored: Any) -> None:
        if ignored.exc_type is not KeyboardInterrupt:
            report(ignored)
            return
        main = threading.main_thread().ident
        again = threading.Timer(0.1, signal.pthread_kill, [main, signal.SIGINT])
        again.daemon = True
        again.start()

    try:
        before = {s: signal.signal(s, interrupt) for s in (signal.SIGINT, signal.SIGTERM)}
        sys.unraisablehook = send_again
    except ValueError:
        before = {}
    try:
        yield
    finally:
        sys.unraisablehook = report
        for number, handler in before.items():
            signal.signal(number, handler)
