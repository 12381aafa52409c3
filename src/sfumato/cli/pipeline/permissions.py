"""Limits on a pipeline file, and the command line options that lift them.

An untrusted file may tune Spark, but not choose code. A plain value (a number, a size, one word)
cannot name a class, path or URL; RULES allow other values per name. `--allow-packages` permits code
(packages, jars, classes of catalogs, formats and drivers), `--allow-settings` all other settings,
and `--trust` both and trusted SQL. A file cannot declare its own SQL trusted.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyspark

from sfumato.cli.pipeline.model import Pipeline, PipelineError, SparkPart
from sfumato.limits import MAX_ALTERNATIVES_SETTING
from sfumato.near_misses import did_you_mean

# docs/pipeline-file.md lists the tested PySpark versions: change both together.
CONNECTORS: Mapping[str, str] = {
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "delta": "io.delta:delta-spark_4.2_2.13:4.4.0",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "avro": "org.apache.spark:spark-avro_2.13:4.1.1",
}
CONNECTOR_SPARK_VERSIONS = {"delta": "4.2", "iceberg": "4.1"}  # PySpark versions
BUNDLED_FORMATS = (
    *("json", "csv", "parquet", "orc", "text", "xml", "binaryfile", "jdbc", "rate"),
    *("rate-micro-batch", "socket", "replay", "console", "memory", "noop", ""),
)
FILE_FORMATS = ("json", "csv", "parquet", "orc", "xml")  # a stream in these formats needs a schema
PATH_SINK_FORMATS = (*FILE_FORMATS, "text")  # formats of sinks that need a path
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
    may_exist = form.lower() in BUNDLED_FORMATS or _may_provide_connector(form, spark)
    return "" if may_exist else connector_advice(form)


def connector_advice(form: str) -> str:
    """Return the reason why a format is not available, and how to add its connector."""
    packages = CONNECTORS.get(form.lower())
    if packages is None:
        hint = did_you_mean(form, (*BUNDLED_FORMATS, *CONNECTORS))
        why = f"is {form!r}, which is not a known format{hint}"
        add = "; add its connector, [spark] packages = [...], and run with --allow-packages"
        return why + ("" if hint else add)
    wanted, here, other = CONNECTOR_SPARK_VERSIONS.get(form.lower()), pyspark.__version__, ""
    if wanted is not None and not here.startswith(f"{wanted}."):
        other = f"; the connector needs PySpark {wanted}, but PySpark {here} is installed"
    return (
        f"is {form!r}, whose connector is not part of Spark: add [spark] and packages = "
        f'["{packages}"] to the file, and run with --allow-packages{other}'
    )


def _may_provide_connector(form: str, spark: SparkPart) -> bool:
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


ALLOW_PACKAGES, ALLOW_SETTINGS, TRUST_FLAG = "--allow-packages", "--allow-settings", "--trust"


@dataclass(frozen=True)
class Permissions:
    """Permissions from the command line: load code, and set any setting or option."""

    packages: bool = False
    settings: bool = False


PLAIN_VALUE = r"-?\d+(\.\d+)?\s?[A-Za-z%]{0,12}|[A-Za-z][A-Za-z0-9_-]*|"
SAFE_VALUE = r"[A-Za-z0-9_+:/,. -]*"
TEXT_PATTERN = r"[^\x00-\x1f\x7f]*"
TUNING = r"""spark\.(
    (dynamicAllocation|memory|sfumato|speculation)\.[\w.-]+
    |sql\.(adaptive|execution\.arrow|files|orc|parquet)\.[\w.-]+
    |sql\.streaming\.(fileSource|stateStore)\.[\w.-]+
    |(driver|executor)\.(cores|memory(Overhead(Factor)?)?)|driver\.maxResultSize
    |executor\.(heartbeatInterval|instances|pyspark\.memory)
    |cores\.max|default\.parallelism|task\.(cpus|maxFailures)|locality\.wait|network\.timeout
    |rpc\.askTimeout|scheduler\.mode|speculation|io\.compression\.codec|rdd\.compress
    |reducer\.maxSizeInFlight|shuffle\.(compress|file\.buffer|spill\.compress)|yarn\.queue
    |python\.(worker\.(memory|reuse)|unix\.domain\.socket\.enabled)
    |broadcast\.UDFCompressionThreshold
    |ui\.(enabled|showConsoleProgress|retainedJobs|retainedStages)
    |sql\.(ansi|cbo|constraintPropagation)\.enabled|sql\.(broadcastTimeout|caseSensitive)
    |sql\.(autoBroadcastJoinThreshold|maxSinglePartitionBytes|shuffle\.partitions)
    |sql\.(sources\.partitionOverwriteMode|storeAssignmentPolicy|ui\.retainedExecutions)
    |sql\.streaming\.(metricsEnabled|minBatchesToRetain|noDataMicroBatches\.enabled)
    |sql\.streaming\.(numRecentProgressUpdates|pollingDelay|stopTimeout|schemaInference))"""
# Names of Hadoop and Kafka client settings and options, and their allowed values. Allowed classes
# are part of Spark. Hadoop names may also be written as `spark.hadoop.NAME`.
S3_PREFIX, S3_PACKAGE = r"fs\.s3a\.(bucket\.[a-z0-9.-]+?\.)?", r"org\.apache\.hadoop\.fs\.s3a\."
STREAMING_PACKAGE = r"org\.apache\.spark\.sql\.execution\.streaming\."
JAAS_OPTION = "kafka.sasl.jaas.config"
S3_TUNING = r"""(path\.style\.access|(connection|threads|multipart|retry)\.[a-z.]+
    |fast\.upload(\.[a-z.]+)?|block\.size|readahead\.range|attempts\.maximum
    |encryption\.algorithm|experimental\.input\.fadvise)"""
KAFKA_CLIENT = r"""kafka\.(
    (bootstrap\.servers|security\.protocol|sasl\.(mechanism|kerberos\.service\.name))
    |ssl\.((key|trust)store\.(location|password|type|certificates|key|certificate\.chain)
        |key\.password|protocol|endpoint\.identification\.algorithm|enabled\.protocols
        |cipher\.suites)
    |acks|batch\.size|buffer\.memory|compression\.type|delivery\.timeout\.ms|retries
    |enable\.idempotence|linger\.ms|max\.(block\.ms|request\.size|partition\.fetch\.bytes)
    |max\.in\.flight\.requests\.per\.connection|max\.poll\.(records|interval\.ms)
    |request\.timeout\.ms|(retry|reconnect)\.backoff(\.max)?\.ms|metadata\.max\.age\.ms
    |client\.(id|rack|dns\.lookup)|group\.id|connections\.max\.idle\.ms
    |default\.api\.timeout\.ms|fetch\.(max\.bytes|max\.wait\.ms|min\.bytes)|session\.timeout\.ms
    |heartbeat\.interval\.ms|isolation\.level|check\.crcs|(receive|send)\.buffer\.bytes
    |allow\.auto\.create\.topics)"""
RULES = [
    (re.compile(name, re.VERBOSE | re.ASCII), re.compile(value))
    for name, value in (
        (TUNING, PLAIN_VALUE),
        (r"spark\.app\.name", TEXT_PATTERN),
        (r"spark\.(local|sql\.warehouse)\.dir", SAFE_VALUE),
        (r"spark\.sql\.session\.timeZone", r"[A-Za-z0-9_+:/-]+"),
        (
            r"spark\.sql\.streaming\.stateStore\.providerClass",
            rf"{STREAMING_PACKAGE}state\.(RocksDB|HDFSBacked)StateStoreProvider",
        ),
        (
            r"spark\.sql\.streaming\.checkpointFileManagerClass",
            rf"{STREAMING_PACKAGE}(checkpointing\.)?(FileSystem|FileContext)BasedCheckpointFileManager",
        ),
        (rf"{S3_PREFIX}{S3_TUNING}", PLAIN_VALUE),
        (rf"{S3_PREFIX}(access\.key|secret\.key|session\.token|encryption\.key)", TEXT_PATTERN),
        (rf"{S3_PREFIX}endpoint(\.region)?", SAFE_VALUE),
        (rf"{S3_PREFIX}impl", rf"{S3_PACKAGE}S3AFileSystem"),
        (
            rf"{S3_PREFIX}aws\.credentials\.provider",
            rf"{S3_PACKAGE}((Simple|Temporary|Anonymous)AWS|auth\.IAMInstance)CredentialsProvider"
            r"|software\.amazon\.awssdk\.auth\.credentials\."
            r"(EnvironmentVariable|InstanceProfile|Container|Default|Anonymous)CredentialsProvider",
        ),
        (r"fs\.azure\.account\.(key|auth\.type)\.[a-z0-9.]+", TEXT_PATTERN),
        (r"fs\.azure\.account\.oauth2\.client\.(id|secret|endpoint)\.[a-z0-9.]+", TEXT_PATTERN),
        (r"fs\.azure\.sas\.fixed\.token\.[a-z0-9.-]+", TEXT_PATTERN),
        (KAFKA_CLIENT, r"(?s).*"),
        (
            JAAS_OPTION,
            r"\s*org\.apache\.kafka\.common\.security\."
            r"(plain\.PlainLoginModule|scram\.ScramLoginModule|oauthbearer\.OAuthBearerLoginModule)"
            r"\s+required(\s+\w+\s*=\s*(\"[^\"\\]*\"|'[^'\\]*'|[\w.@+/=-]+))*\s*;\s*",
        ),
    )
]
# Settings of connectors, which name classes from packages
CONNECTOR_SETTING = re.compile(
    r"spark\.(sql\.(extensions|defaultCatalog|catalog\.[\w.-]+)|databricks\.delta\.[\w.-]+)",
    re.ASCII,
)
# Options without a dot belong to the format. The excluded options open files other than the source.
FORMAT_OPTION = re.compile(r"(?!avroschemaurl$|rowvalidationxsdpath$)[a-z][a-z0-9_-]*")


def check_settings(spark: SparkPart, allowed: Permissions) -> None:
    """Raise PipelineError for the first setting that is not permitted."""
    for name, value in spark.settings.items():
        place = f"spark.settings.{name}"
        plain = "".join(name.lower().split())
        is_own = plain.startswith("sfumato.") and name != MAX_ALTERNATIVES_SETTING
        if is_own or "trusttext" in plain:
            why = (
                ": a file must not grant trust to itself; if you trust the file, remove this "
                f"setting and write {TRUST_FLAG}"
            )
            raise PipelineError.at(place, why)
        own = name.removeprefix("spark.hadoop.")
        values = _values(own) if own != name or name.startswith("spark.") else []
        if allowed.settings or _fits(value, values):
            continue
        if not CONNECTOR_SETTING.fullmatch(name):
            what = "has a value that is" if values else "is"
            why = f"{what} not allowed in a pipeline file"
            raise _refusal(place, why, ALLOW_SETTINGS)
        if not allowed.packages:
            raise _refusal(place, ": this setting can load code", ALLOW_PACKAGES)
    if spark.master is not None and not spark.master.startswith("local") and not allowed.settings:
        why = (
            ": a pipeline file runs on this machine, and code from a cluster that it names would "
            "run here"
        )
        raise _refusal("spark.master", why, ALLOW_SETTINGS)


def check_code(pipeline: Pipeline, allowed: Permissions) -> None:
    """Raise PipelineError for the first package, jar, format or option that is not permitted."""
    spark = pipeline.spark
    for key, names in (("packages", spark.packages), ("jars", spark.jars)):
        if names and not allowed.packages:
            why = f": a pipeline file cannot load code, such as {names[0]}"
            raise _refusal(f"spark.{key}", why, ALLOW_PACKAGES)
    for place, part in pipeline.endpoints():
        form = part.format.lower()
        if not allowed.packages and form not in KNOWN_FORMATS:
            why = f"is {part.format!r}, which is not a known format and may name a class"
            if form == "jdbc":
                why = "is jdbc, whose driver can execute code named in its URL and options"
            raise _refusal(f"{place}.format", why, ALLOW_PACKAGES)
        for name, value in part.options.items():
            plain = name.lower()
            if allowed.settings or FORMAT_OPTION.fullmatch(plain):
                continue
            if not plain.startswith("spark.") and _fits(value, _values(plain)):
                continue
            why = "or its value is not allowed in a pipeline file"
            if plain == JAAS_OPTION:
                why = (
                    "must be one Kafka login module (PlainLoginModule, ScramLoginModule or "
                    "OAuthBearerLoginModule) with its options"
                )
            raise _refusal(f"{place}.options.{name}", why, ALLOW_SETTINGS)


KNOWN_FORMATS = {*BUNDLED_FORMATS, *CONNECTORS} - {"jdbc"}


def _values(name: str) -> list[re.Pattern[str]]:
    return [value for names, value in RULES if names.fullmatch(name)]


def _fits(value: str, patterns: list[re.Pattern[str]]) -> bool:
    """Return whether a value matches and contains no `${`, which Spark and Kafka would expand."""
    return "${" not in value and any(pattern.fullmatch(value) for pattern in patterns)


def _refusal(place: str, why: str, option: str) -> PipelineError:
    return PipelineError.at(place, f"{why}; if you trust the file, write {option} or {TRUST_FLAG}")
