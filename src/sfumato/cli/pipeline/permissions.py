"""Limits of what a pipeline file may decide, and options of the command line that lift them.

A file may come from somebody else: it may tune Spark, but not choose code. Everything that is not
known to be harmless needs an option of the command line; the lists below say what is allowed.
`--allow-packages` allows the file to bring code (packages, jars, classes of catalogs and formats,
JDBC drivers), `--allow-settings` allows it to set everything else, `--trust` is both, and trusted
SQL. No option allows a file to declare its own SQL trusted.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sfumato.cli.pipeline.connectors import BUNDLED_FORMATS, CONNECTORS
from sfumato.cli.pipeline.model import (
    Pipeline,
    PipelineError,
    PipelineSource,
    Sink,
    SparkPart,
)
from sfumato.limits import MAX_ALTERNATIVES_SETTING as BOUND

PACKAGES, SETTINGS, TRUST = "--allow-packages", "--allow-settings", "--trust"


@dataclass(frozen=True)
class Permissions:
    """Permissions of a file, from the command line: to bring code, to set any setting or option."""

    packages: bool = False
    settings: bool = False


# Values of settings. None is a class name (which has a dot between words), a path or a URL, except
# for settings whose value is never executed.
PLAIN_OPTION = re.compile(r"-?\d+(\.\d+)?\s?[A-Za-z%]{0,12}|[A-Za-z][A-Za-z0-9_-]*|")
SAFE_NAME = re.compile(r"[A-Za-z0-9_+:/,. -]*")
TEXT = re.compile(r"[^\x00-\x1f\x7f]*")

# Spark settings with these prefixes or names may have a plain value.
TUNING_PREFIXES = (
    "spark.dynamicAllocation.",
    "spark.memory.",
    "spark.sfumato.",
    "spark.speculation.",
    "spark.sql.adaptive.",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.execution.arrow.",
    "spark.sql.files.",
    "spark.sql.orc.",
    "spark.sql.parquet.",
    "spark.sql.streaming.fileSource.",
    "spark.sql.streaming.stateStore.",
)
TUNING_NAMES = frozenset(
    {
        *(f"spark.driver.{name}" for name in ("cores", "maxResultSize", "memory")),
        *("spark.driver.memoryOverhead", "spark.driver.memoryOverheadFactor"),
        *(f"spark.executor.{name}" for name in ("cores", "heartbeatInterval", "instances")),
        *("spark.executor.memory", "spark.executor.memoryOverhead"),
        *("spark.executor.memoryOverheadFactor", "spark.executor.pyspark.memory"),
        *("spark.cores.max", "spark.default.parallelism", "spark.task.cpus"),
        *("spark.task.maxFailures", "spark.locality.wait", "spark.network.timeout"),
        *("spark.rpc.askTimeout", "spark.scheduler.mode", "spark.speculation"),
        *("spark.io.compression.codec", "spark.rdd.compress", "spark.reducer.maxSizeInFlight"),
        *("spark.shuffle.compress", "spark.shuffle.file.buffer", "spark.shuffle.spill.compress"),
        *("spark.python.worker.memory", "spark.python.worker.reuse", "spark.yarn.queue"),
        *("spark.python.unix.domain.socket.enabled", "spark.ui.enabled"),
        *("spark.ui.showConsoleProgress", "spark.ui.retainedJobs", "spark.ui.retainedStages"),
        *("spark.sql.ansi.enabled", "spark.sql.broadcastTimeout", "spark.sql.caseSensitive"),
        *("spark.sql.constraintPropagation.enabled", "spark.sql.cbo.enabled"),
        *("spark.sql.shuffle.partitions", "spark.sql.maxSinglePartitionBytes"),
        *("spark.sql.sources.partitionOverwriteMode", "spark.sql.storeAssignmentPolicy"),
        *("spark.sql.streaming.metricsEnabled", "spark.sql.streaming.minBatchesToRetain"),
        *("spark.sql.streaming.noDataMicroBatches.enabled", "spark.sql.ui.retainedExecutions"),
        *("spark.sql.streaming.numRecentProgressUpdates", "spark.sql.streaming.pollingDelay"),
        *("spark.sql.streaming.stopTimeout", "spark.sql.streaming.schemaInference"),
    }
)
# Settings with other values; a class must be one that Spark itself brings.
OTHER_SETTINGS: Mapping[str, re.Pattern[str]] = {
    "spark.app.name": TEXT,
    "spark.local.dir": SAFE_NAME,
    "spark.sql.warehouse.dir": SAFE_NAME,
    "spark.sql.session.timeZone": re.compile(r"[A-Za-z0-9_+:/-]+"),
    "spark.sql.streaming.stateStore.providerClass": re.compile(
        r"org\.apache\.spark\.sql\.execution\.streaming\.state\.(RocksDB|HDFSBacked)StateStoreProvider"
    ),
    "spark.sql.streaming.checkpointFileManagerClass": re.compile(
        r"org\.apache\.spark\.sql\.execution\.streaming\.(checkpointing\.)?"
        r"(FileSystem|FileContext)BasedCheckpointFileManager"
    ),
}
# Endpoints and credentials of object stores, as a setting `spark.hadoop.NAME` or an option `NAME`.
S3 = r"fs\.s3a\.(bucket\.[a-z0-9.-]+?\.)?"
STORES: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = (
    (re.compile(rf"{S3}(access\.key|secret\.key|session\.token|encryption\.key)"), TEXT),
    (re.compile(rf"{S3}(endpoint|endpoint\.region)"), SAFE_NAME),
    (
        re.compile(
            rf"{S3}(path\.style\.access|connection\.[a-z.]+|threads\.[a-z.]+|multipart\.[a-z.]+"
            r"|fast\.upload(\.[a-z.]+)?|block\.size|readahead\.range|retry\.[a-z.]+"
            r"|attempts\.maximum|encryption\.algorithm|experimental\.input\.fadvise)"
        ),
        PLAIN_OPTION,
    ),
    (re.compile(rf"{S3}impl"), re.compile(r"org\.apache\.hadoop\.fs\.s3a\.S3AFileSystem")),
    (
        re.compile(rf"{S3}aws\.credentials\.provider"),
        re.compile(
            r"org\.apache\.hadoop\.fs\.s3a\."
            r"(Simple|Temporary|Anonymous)AWSCredentialsProvider"
            r"|(org\.apache\.hadoop\.fs\.s3a\.auth\.IAMInstanceCredentialsProvider)"
            r"|software\.amazon\.awssdk\.auth\.credentials\."
            r"(EnvironmentVariable|InstanceProfile|Container|Default|Anonymous)CredentialsProvider"
        ),
    ),
    (re.compile(r"fs\.azure\.account\.(key|auth\.type)\.[a-z0-9.]+"), TEXT),
    (re.compile(r"fs\.azure\.account\.oauth2\.client\.(id|secret|endpoint)\.[a-z0-9.]+"), TEXT),
    (re.compile(r"fs\.azure\.sas\.fixed\.token\.[a-z0-9.-]+"), TEXT),
)
HADOOP = "spark.hadoop."
# Settings of connectors: they name classes that packages bring.
OF_CONNECTORS = re.compile(
    r"spark\.(sql\.(extensions|defaultCatalog|catalog\.[\w.-]+)|databricks\.delta\.[\w.-]+)",
    re.ASCII,
)

# Options of formats: a name without a dot belongs to the format. Names with dots go to Hadoop or to
# a client, which may load classes for them: only those below are allowed.
OWN_OPTION = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
OPENS_FILES = ("avroschemaurl", "rowvalidationxsdpath")  # places other than the path of a source
KAFKA_CLIENT = frozenset(
    f"kafka.{name}"
    for name in (
        *("bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.jaas.config"),
        *("sasl.kerberos.service.name", "ssl.truststore.location", "ssl.truststore.password"),
        *("ssl.truststore.type", "ssl.truststore.certificates", "ssl.keystore.location"),
        *("ssl.keystore.password", "ssl.keystore.type", "ssl.keystore.key"),
        *("ssl.keystore.certificate.chain", "ssl.key.password", "ssl.protocol"),
        *("ssl.endpoint.identification.algorithm", "ssl.enabled.protocols", "ssl.cipher.suites"),
        *("acks", "batch.size", "buffer.memory", "compression.type", "delivery.timeout.ms"),
        *("enable.idempotence", "linger.ms", "max.block.ms", "max.request.size", "retries"),
        *("max.in.flight.requests.per.connection", "request.timeout.ms", "retry.backoff.ms"),
        *("retry.backoff.max.ms", "client.id", "client.rack", "client.dns.lookup", "group.id"),
        *("connections.max.idle.ms", "default.api.timeout.ms", "fetch.max.bytes"),
        *("fetch.max.wait.ms", "fetch.min.bytes", "max.partition.fetch.bytes"),
        *("max.poll.records", "max.poll.interval.ms", "session.timeout.ms"),
        *("heartbeat.interval.ms", "isolation.level", "metadata.max.age.ms", "check.crcs"),
        *("receive.buffer.bytes", "send.buffer.bytes", "reconnect.backoff.ms"),
        *("reconnect.backoff.max.ms", "allow.auto.create.topics"),
    )
)
JAAS_OPTION = "kafka.sasl.jaas.config"
JAAS = re.compile(
    r"\s*org\.apache\.kafka\.common\.security\."
    r"(plain\.PlainLoginModule|scram\.ScramLoginModule|oauthbearer\.OAuthBearerLoginModule)"
    r"\s+required(\s+\w+\s*=\s*(\"[^\"\\]*\"|'[^'\\]*'|[\w.@+/=-]+))*\s*;\s*"
)


def check_settings(spark: SparkPart, allowed: Permissions) -> None:
    """Raise PipelineError for the first setting that the command line does not allow."""
    for name, value in spark.settings.items():
        place = f"spark.settings.{name}"
        plain = "".join(name.lower().split())
        if (plain.startswith("sfumato.") and name != BOUND) or "trusttext" in plain:
            why = f": a file cannot trust itself; if you trust it, remove this and write {TRUST}"
            raise PipelineError.at(place, why)
        if allowed.settings or _is_tuning(name, value):
            continue
        if not OF_CONNECTORS.fullmatch(name):
            what = "with this value is" if _pattern(name) is not None else "is"
            why = f"{what} not among the settings that a file may set"
            raise _refusal(place, why, SETTINGS)
        if not allowed.packages:
            raise _refusal(place, ": it configures code", PACKAGES)
    if spark.master is not None and not spark.master.startswith("local") and not allowed.settings:
        why = ": a file runs on this machine; code of a cluster that it names would run here"
        raise _refusal("spark.master", why, SETTINGS)


def check_code(pipeline: Pipeline, allowed: Permissions) -> None:
    """Raise PipelineError for the first package, jar, format or option that is not allowed."""
    spark = pipeline.spark
    for key, names in (("packages", spark.packages), ("jars", spark.jars)):
        if names and not allowed.packages:
            why = f": a file cannot bring code, such as {names[0]}"
            raise _refusal(f"spark.{key}", why, PACKAGES)
    parts: list[tuple[str, PipelineSource | Sink]] = []
    parts += [(f"sources.{source.name}", source) for source in pipeline.sources]
    parts += [(f"sinks.{sink.name}", sink) for sink in pipeline.sinks]
    for place, part in parts:
        if not allowed.packages:
            _check_format(f"{place}.format", part.format)
        for name, value in part.options.items():
            if allowed.settings or _is_harmless_option(name, value):
                continue
            why = "is not among the options that a file may set"
            if name.lower() == JAAS_OPTION:
                why = "must be one login module of Kafka: PlainLoginModule, ScramLoginModule or "
                why += "OAuthBearerLoginModule, with its options"
            raise _refusal(f"{place}.options.{name}", why, SETTINGS)


def _check_format(place: str, form: str) -> None:
    if form.lower() == "jdbc":
        why = "is jdbc, whose driver executes what its URL and options say"
        raise _refusal(place, why, PACKAGES)
    if form.lower() not in (*BUNDLED_FORMATS, *CONNECTORS):
        why = f"is {form!r}, which is not a Spark format: it may be a class"
        raise _refusal(place, why, PACKAGES)


def _refusal(place: str, why: str, option: str) -> PipelineError:
    """Build the error about something that an option of the command line allows."""
    return PipelineError.at(place, f"{why}; if you trust the file, write {option} or {TRUST}")


def _is_tuning(name: str, value: str) -> bool:
    pattern = _pattern(name)
    # Spark would replace "${".
    return "${" not in value and pattern is not None and pattern.fullmatch(value) is not None


def _pattern(name: str) -> re.Pattern[str] | None:
    """Return the pattern of a setting's allowed values; None if a file may not set it."""
    if name in OTHER_SETTINGS:
        return OTHER_SETTINGS[name]
    if name in TUNING_NAMES:
        return PLAIN_OPTION
    if name.startswith(TUNING_PREFIXES) and re.fullmatch(r"[\w.-]+", name, re.ASCII):
        return PLAIN_OPTION
    return _store(name.removeprefix(HADOOP)) if name.startswith(HADOOP) else None


def _store(name: str) -> re.Pattern[str] | None:
    return next((value for names, value in STORES if names.fullmatch(name)), None)


def _is_harmless_option(name: str, value: str) -> bool:
    plain = name.lower()
    if plain == JAAS_OPTION:
        return JAAS.fullmatch(value) is not None
    if plain in KAFKA_CLIENT:
        return "${" not in value
    if "." in name:
        store = _store(name)
        return store is not None and store.fullmatch(value) is not None
    return OWN_OPTION.fullmatch(name) is not None and plain not in OPENS_FILES
