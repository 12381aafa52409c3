"""Formats that are not part of Spark, and the pipeline-file line that adds each of them."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import pyspark

from sfumato.cli.pipeline.model import Pipeline, PipelineError, SparkPart
from sfumato.near_misses import did_you_mean

# docs/pipeline-file.md lists the tested PySpark versions; change both together.
CONNECTORS: Mapping[str, str] = {
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "delta": "io.delta:delta-spark_4.2_2.13:4.4.0",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "avro": "org.apache.spark:spark-avro_2.13:4.1.1",
}
RUNS_WITH = {"delta": "4.2", "iceberg": "4.1"}  # the PySpark version of the newest release
BUNDLED_FORMATS = (
    *("json", "csv", "parquet", "orc", "text", "xml", "binaryfile", "jdbc", "rate"),
    *("rate-micro-batch", "socket", "replay", "console", "memory", "noop", ""),
)
OF_FILES = ("json", "csv", "parquet", "orc", "xml")  # a stream in these formats needs a schema
WRITTEN = (*OF_FILES, "text")  # formats of sinks that need a path
JAR_SETTINGS = ("spark.jars", "spark.driver.extraClassPath", "spark.submit")


def check_connectors(pipeline: Pipeline) -> None:
    """Raise PipelineError for a format whose connector is not available."""
    for place, part in pipeline.endpoints():
        if why := missing_format(part.format, pipeline.spark):
            raise PipelineError.at(f"{place}.format", why)
        is_avro = part.value is not None and part.value.endswith("avro")
        if is_avro and (why := missing_format("avro", pipeline.spark)):
            raise PipelineError.at(f"{place}.value", why)


def missing_format(form: str, spark: SparkPart) -> str:
    """Return advice about a format whose connector is missing; "" if it may be available."""
    return "" if form.lower() in BUNDLED_FORMATS or _brings(form, spark) else advice(form)


def advice(form: str) -> str:
    """Return the advice to add a line for the connector."""
    packages = CONNECTORS.get(form.lower())
    if packages is None:
        hint = did_you_mean(form, (*BUNDLED_FORMATS, *CONNECTORS))
        why = f"is {form!r}, which is not a Spark format{hint}"
        add = "; add its connector, [spark] packages = [...], and run with --allow-packages"
        return why + ("" if hint else add)
    wanted, here, other = RUNS_WITH.get(form.lower()), pyspark.__version__, ""
    if wanted is not None and not here.startswith(f"{wanted}."):
        other = f"; it runs with PySpark {wanted}, and this is {here}"
    return (
        f"is {form!r}, whose connector does not come with Spark: add [spark] and "
        f'packages = ["{packages}"] to the file, and run with --allow-packages{other}'
    )


def _brings(form: str, spark: SparkPart) -> bool:
    """Return whether the file, the installation or the environment may provide the connector."""
    if any(name.startswith(JAR_SETTINGS) for name in spark.settings):
        return True
    if any(name in os.environ for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR")):
        return True
    given, known = [*spark.packages, *spark.jars], CONNECTORS.get(form.lower())
    if known is None:
        return bool(given) or "." in form
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    stem = re.split(r"[-_][24]\.", known.split(":")[1])[0]
    installed = [jar.name for jar in (home / "jars").glob("*.jar")]
    return any(form.lower() in name.rpartition("/")[2] for name in given) or any(
        stem in name for name in installed
    )
