"""Causes of failures in one or two lines, without stack traces."""

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from sfumato.cli.pipeline.parse import WITH_SCHEME
from sfumato.spark.run_to_end import OTHER_SOURCES

TRACEBACK = "Traceback (most recent call last):"
ERROR_LINE = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Interrupt|Exit))(?:: (.*))?$")
JAVA_CLASS = re.compile(r"^(?:[a-z_]\w*\.)+[A-Z][\w$]*(?:: |$)")
ERROR_CONDITION = re.compile(r"^\[[A-Z_.0-9]+\] ?")
IN_A_TASK = re.compile(r"Lost task .*? \([^()]*executor [^()]*\): (?P<why>.+)")
SQLSTATE = re.compile(r"\s*SQLSTATE: \w+\s*")
UNHELPFUL = (
    "...",
    "at ",
    "===",
    "Identifier: ",
    "Current ",
    "Thread State: ",
    "An error occurred while calling",
    "Driver stacktrace",
    "Exception thrown in awaitResult",
    "Job aborted",
    "Query ",
    "Writing job aborted",
)


def first_cause(error: BaseException) -> str:
    """Return the cause of an exception raised by Spark or by this package."""
    text = str(error)
    if OTHER_SOURCES in text:
        return (
            "the checkpoint has a different number of sources: `flush`, which adds a source, or "
            "the sources of the query were changed. Change them back, or use a new `checkpoint`"
        )
    if TRACEBACK in text and (why := _python_error(text)):
        return why
    # A task's error is in the line with the number of task failures.
    lines = text.splitlines()
    in_a_task = [found["why"] for line in lines if (found := IN_A_TASK.search(line))]
    for line in map(_plain, [*in_a_task, *lines]):
        if line and not line.startswith(UNHELPFUL):
            return line
    return SQLSTATE.sub(" ", text.splitlines()[0]).strip() if text else type(error).__name__


def _plain(line: str) -> str:
    """Return a line without class names and error codes."""
    text = line.strip().removeprefix("Caused by: ").removeprefix(": ")
    return ERROR_CONDITION.sub("", SQLSTATE.sub(" ", JAVA_CLASS.sub("", text)).strip())


def _python_error(text: str) -> str | None:
    """Return the message of the last Python error in a string with stack traces."""
    for line in text.rsplit(TRACEBACK, 1)[1].splitlines():
        match = ERROR_LINE.match(line.strip())
        if match:
            return match.group(2) or match.group(1)
    return None


class LostFolderError(Exception):
    """A folder that a run needs was deleted during the run."""


class LostJavaError(Exception):
    """Spark's Java process ended during a command."""


JAVA_ERRORS = (Py4JError, ConnectionError)  # of calls to a Java process that has ended


PROBE = 1 << 20  # bytes


def find_unwritable(folders: Mapping[str, str]) -> str | None:
    """Describe the first folder that is not writable and the reason; None if all are writable."""
    for what, path in folders.items():
        if WITH_SCHEME.match(path):
            continue
        there = Path(path)
        while not there.exists() and there != there.parent:
            there = there.parent
        try:
            if not there.is_dir():
                raise NotADirectoryError(0, f"{there} is not a folder")
            with tempfile.TemporaryFile(dir=there) as probe:
                probe.write(bytes(PROBE))
                probe.flush()
                os.fsync(probe.fileno())
        except OSError as error:
            return f"{what} {path} cannot be written to ({error.strerror})"
    return None


# Errors of workers, the JVM or the network that may not occur in a second attempt
TRANSIENT = (
    "failed to connect back",
    "worker exited unexpectedly",
    "Python worker failed",
    "SIGKILL",
    "ExecutorLost",
    "Connection reset",
    "Connection refused",
    "Broken pipe",
    "Could not connect",
    "timed out",
)


def is_transient(error: BaseException) -> bool:
    """Return whether the environment caused a failure, rather than the query or its data."""
    text = str(error)
    why = _python_error(text) if TRACEBACK in text else None
    if why is not None and not any(words in why for words in TRANSIENT):
        return False  # raised by the query's own code
    return any(words in text for words in TRANSIENT)
