"""Formats that do not come with Spark, and the line of a pipeline file that adds them."""

import os
from collections.abc import Mapping
from pathlib import Path

import pyspark

from sfumato.cli.pipeline.model import Pipeline, PipelineError, SparkPart
from sfumato.near_misses import did_you_mean

# docs/pipeline-file.md lists what was run with which PySpark; change both together.
CONNECTORS: Mapping[str, str] = {
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "delta": "io.delta:delta-spark_4.2_2.13:4.4.0",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "avro": "org.apache.spark:spark-avro_2.13:4.1.1",
}
RUNS_WITH = {"delta": "4.2", "iceberg": "4.1"}  # the PySpark that the newest release is made for
BUNDLED_FORMATS = (
    *("json", "csv", "parquet", "orc", "text", "xml", "binaryfile", "jdbc", "rate"),
    *("rate-micro-batch", "socket", "replay", "console", "memory", "noop", ""),
)
OF_FILES = ("json", "csv", "parquet", "orc", "xml")  # of which a stream needs a schema
WRITTEN = (*OF_FILES, "text")  # which need a path
JAR_SETTINGS = ("spark.jars", "spark.driver.extraClassPath", "spark.submit")


def check_connectors(pipeline: Pipeline) -> None:
    """Raise PipelineError for a format whose connector is nowhere."""
    of = [(f"sources.{source.name}", source.format) for source in pipeline.sources]
    of += [(f"sinks.{sink.name}", sink.format) for sink in pipeline.sinks]
    for place, form in of:
        if why := missing_format(form, pipeline.spark):
            raise PipelineError.at(f"{place}.format", why)
    for source in pipeline.sources:
        if source.is_avro and (why := missing_format("avro", pipeline.spark)):
            raise PipelineError.at(f"sources.{source.name}.value", why)


def missing_format(form: str, spark: SparkPart) -> str:
    """Say what to do about a format whose connector is nowhere; empty if it may be somewhere."""
    if form.lower() in BUNDLED_FORMATS or _brings(form, spark):
        return ""
    return advice(form)


def advice(form: str) -> str:
    """Say which line adds a connector."""
    packages = CONNECTORS.get(form.lower())
    if packages is None:
        hint = did_you_mean(form, (*BUNDLED_FORMATS, *CONNECTORS))
        why = f"is {form!r}, which is not a Spark format{hint}"
        add = "; add its connector, [spark] packages = [...], and run with --allow-packages"
        return why + ("" if hint else add)
    wanted, here = RUNS_WITH.get(form.lower()), pyspark.__version__
    other = (
        ""
        if wanted is None or here.startswith(f"{wanted}.")
        else (f"; it runs with PySpark {wanted}, and this is {here}")
    )
    return (
        f"is {form!r}, whose connector does not come with Spark: add [spark] and "
        f'packages = ["{packages}"] to the file, and run with --allow-packages{other}'
    )


def _brings(form: str, spark: SparkPart) -> bool:
    """Return whether the file, the installation or the environment may bring the connector."""
    if any(name.startswith(JAR_SETTINGS) for name in spark.settings):
        return True
    if any(name in os.environ for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR")):
        return True
    known = CONNECTORS.get(form.lower())
    if known is None:
        return bool(spark.packages or spark.jars) or "." in form
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    stem = known.split(":")[1].split("_2.")[0].split("-4.")[0].split("_4.")[0]
    given = [name.rpartition("/")[2] for name in (*spark.packages, *spark.jars)]
    installed = [jar.name for jar in (home / "jars").glob("*.jar")]
    return any(form.lower() in name for name in given) or any(stem in name for name in installed)
