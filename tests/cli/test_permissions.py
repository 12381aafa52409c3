"""What a pipeline file may decide by itself, and what the command line must allow."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.cli.pipeline.model import PipelineError
from sfumato.cli.pipeline.parse import parse_pipeline
from sfumato.cli.pipeline.permissions import Permissions, check_code, check_settings
from sfumato.spark.settings import settings

NONE, PACKAGES, SETTINGS = Permissions(), Permissions(packages=True), Permissions(settings=True)
REST = """
[sources.s]
format = "json"
path = "in"
schema = "id string"
[sinks.o]
query = "s"
"""


def refusal(text, allowed, folder):
    """The error for a file; None for one that may run."""
    pipeline = parse_pipeline(text, folder / "p.toml")
    try:
        check_settings(pipeline.spark, allowed)
        check_code(pipeline, allowed)
    except PipelineError as error:
        return str(error)
    return None


def with_setting(name, value):
    return f"[spark.settings]\n{quoted(name)} = {quoted(value)}\n{REST}"


def quoted(text):
    escaped = "".join(
        c if c.isalnum() or c in " ./-_${}:=;,'*" else f"\\u{ord(c):04x}" for c in text
    )
    return f'"{escaped}"'


TRUSTING = [
    *("sfumato.trustText", "SFUMATO.TRUSTTEXT", "sfumato.trusttext", " sfumato.trustText"),
    *("sfumato.trustText ", "sfumato.trustText\n", "\tsfumato.trustText", "sfumato. trustText"),
    *("sfumato.anything", "spark.sfumato.trustText", "spark.hadoop.sfumato.trustText"),
]


@pytest.mark.parametrize("name", TRUSTING)
@pytest.mark.parametrize("allowed", [NONE, PACKAGES, SETTINGS, Permissions(True, True)])
def test_a_file_never_trusts_itself(name, allowed, tmp_path):
    said = refusal(with_setting(name, "true"), allowed, tmp_path)
    assert said is not None
    assert "a file cannot trust itself" in said
    assert "--trust" in said


def names(text):
    return text.split()


CLASSES = names("""
    spark.plugins spark.extraListeners spark.sql.streaming.streamingQueryListeners spark.serializer
    spark.sql.extensions spark.sql.catalog.spark_catalog spark.sql.queryExecutionListeners
    spark.kryo.registrator spark.hadoop.fs.file.impl spark.hadoop.fs.s3a.impl spark.ui.filters
    spark.hadoop.io.compression.codecs spark.hadoop.fs.s3a.aws.credentials.provider
    spark.shuffle.manager spark.shuffle.sort.io.plugin.class spark.io.compression.codec
    spark.sql.parquet.output.committer.class spark.sql.streaming.stateStore.providerClass
    spark.sql.streaming.checkpointFileManagerClass spark.sql.adaptive.customCostEvaluatorClass
""")
PATHS = names("""
    spark.driver.extraClassPath spark.executor.extraLibraryPath spark.jars spark.jars.repositories
    spark.pyspark.python spark.executorEnv.PYTHONPATH spark.submit.pyFiles spark.files
    spark.sql.hive.metastore.jars.path spark.hadoop.net.topology.script.file.name
    spark.hadoop.hadoop.security.credential.provider.path spark.driver.resource.gpu.discoveryScript
""")
WORDS = names("""
    spark.executor.defaultJavaOptions spark.driver.userClassPathFirst spark.python.daemon.module
    spark.python.worker.module spark.sql.hive.metastore.jars spark.sql.catalogImplementation
    spark.log4j.configuration spark.kubernetes.container.image spark.security.credentials.x.enabled
    spark.r.command spark.sql.variable.substitute spark.redaction.regex
    spark.DRIVER.extraClassPath --jars
""")
RUNS_CODE = [
    *((name, "a.B") for name in CLASSES),
    *((name, "/tmp/evil") for name in PATHS),
    *((name, "true") for name in WORDS),
    ("spark.driver.extraJavaOptions", "-XX:OnOutOfMemoryError=id"),
    ("spark.driver.defaultJavaOptions", "-javaagent:a.jar"),
    ("spark.hadoop.fs.s3a.aws.credentials.provider.mapping", "a.B=c.D"),
    ("spark.driver.memory", "1g -XX:OnOutOfMemoryError=id"),
    ("spark.driver.memory", "1g\n-x"),
    ("spark.app.name", "$${env:HOME}"),
    ("spark.sql.session.timeZone", "$${env:HOME}"),
    (" spark.plugins", "a.B"),
    ("spark.plugins ", "a.B"),
    ("spark.sql.shuffle.partitions ", "1"),
    ("spark.sql.shuffle.partitions=1\nspark.plugins", "a.B"),
    ("spark.sql.adaptive.x=1 --jars", "a.jar"),
    ("spark.sfumato.x y", "1"),
    ("sfumato.maxAlternatives", "20000"),  # which lets one row cost more
    ("", "x"),
]


@pytest.mark.parametrize(("name", "value"), RUNS_CODE)
def test_a_setting_that_may_run_code_needs_the_command_line(name, value, tmp_path):
    said = refusal(with_setting(name, value), NONE, tmp_path)
    assert said is not None
    assert f"spark.settings.{name}" in said
    assert "--trust" in said
    assert refusal(with_setting(name, value), SETTINGS, tmp_path) is None


HARMLESS = [
    *settings(4, local_disk=True).items(),
    ("spark.driver.memory", "2g"),
    ("spark.memory.fraction", "0.6"),
    ("spark.sql.session.timeZone", "Europe/Vienna"),
    ("spark.sql.session.timeZone", "+02:00"),
    ("spark.sfumato.warnInvalid", "false"),
    ("spark.sql.streaming.stateStore.rocksdb.blockCacheSizeMB", "64"),
    ("spark.sql.parquet.compression.codec", "zstd"),
    ("spark.sql.autoBroadcastJoinThreshold", "-1"),
    ("spark.app.name", "frost, at two airports"),
    ("spark.hadoop.fs.s3a.endpoint", "http://minio:9000"),
    ("spark.hadoop.fs.s3a.access.key", "AKIA+/="),
    ("spark.hadoop.fs.s3a.bucket.my-lake.secret.key", "x/+ab"),
    ("spark.hadoop.fs.s3a.path.style.access", "true"),
    (
        "spark.hadoop.fs.s3a.aws.credentials.provider",
        "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider",
    ),
    ("spark.network.timeout", "120s"),
]


@pytest.mark.parametrize(("name", "value"), HARMLESS)
def test_a_file_may_tune_spark_and_name_its_object_store(name, value, tmp_path):
    assert refusal(with_setting(name, value), NONE, tmp_path) is None


@pytest.mark.parametrize(
    ("spark", "name"),
    [
        ('packages = ["io.delta:delta-spark_4.2_2.13:4.4.0"]', "io.delta:delta-spark"),
        ('jars = ["lib/x.jar"]', "lib/x.jar"),
        ('settings = { "spark.sql.extensions" = "io.delta.sql.X" }', "spark.sql.extensions"),
        ('settings = { "spark.sql.catalog.lake.type" = "hadoop" }', "spark.sql.catalog.lake.type"),
    ],
)
def test_connectors_need_one_option_of_the_command_line(spark, name, tmp_path):
    text = f"[spark]\n{spark}\n{REST}"
    said = refusal(text, NONE, tmp_path)
    assert said is not None
    assert name in said
    assert "--allow-packages" in said
    assert refusal(text, PACKAGES, tmp_path) is None


@pytest.mark.parametrize("master", ["spark://evil:7077", "yarn", "k8s://https://evil"])
def test_a_cluster_needs_the_command_line(master, tmp_path):
    text = f"[spark]\nmaster = '{master}'\n{REST}"
    assert "--allow-settings" in (refusal(text, PACKAGES, tmp_path) or "")
    assert refusal(text, SETTINGS, tmp_path) is None
    assert refusal(text.replace(master, "local[2]"), NONE, tmp_path) is None


@pytest.mark.parametrize(
    "form",
    ["org.apache.spark.sql.JsonFileFormat", "jdbc", "JDBC", "json ", "Evil", "statestore"],
)
@pytest.mark.parametrize("kind", ["sources", "sinks"])
def test_a_format_that_may_be_a_class_or_run_a_driver_needs_the_command_line(form, kind, tmp_path):
    table = REST.replace('format = "json"', f'format = "{form}"')
    if kind == "sinks":
        table = f'{REST}format = "{form}"\npath = "out"\n'
    said = refusal(table, SETTINGS, tmp_path)
    assert said is not None
    assert said.startswith(f"`{kind}.")
    assert "--allow-packages" in said
    assert refusal(table, PACKAGES, tmp_path) is None


JAAS, PLAIN = "kafka.sasl.jaas.config", "org.apache.kafka.common.security.plain.PlainLoginModule"
OPTIONS = [
    ("fs.file.impl", "a.B", False),
    ("parquet.crypto.factory.class", "a.B", False),
    ("io.compression.codecs", "a.B", False),
    ("net.topology.script.file.name", "x.sh", False),
    ("avroSchemaUrl", "/etc/passwd", False),
    ("AVROSCHEMAURL", "/etc/passwd", False),
    ("rowValidationXSDPath", "/etc/passwd", False),
    ("kafka.interceptor.classes", "a.B", False),
    ("kafka.metric.reporters", "a.B", False),
    ("kafka.config.providers", "file", False),
    ("kafka.sasl.kerberos.kinit.cmd", "reboot", False),
    ("kafka.linger.ms", "5", True),
    ("kafka.sasl.login.callback.handler.class", "a.B", False),
    ("a b", "x", False),
    ("kafka.bootstrap.servers", "$${file:/etc/passwd:x}", False),
    ("Kafka.Metric.Reporters", "a.B", False),
    (JAAS, "com.sun.security.auth.module.JndiLoginModule required x='ldap://e';", False),
    (JAAS, f"{PLAIN} required; evil.Module required;", False),
    (JAAS, f"{PLAIN} required username='a' password='b;c';", True),
    ("kafka.bootstrap.servers", "host:9092", True),
    ("subscribe", "readings", True),
    ("maxFilesPerTrigger", "10", True),
    ("kafka.security.protocol", "SASL_SSL", True),
    ("fs.s3a.access.key", "AKIA", True),
    ("timestampFormat", "yyyy-MM-dd'T'HH:mm:ss.SSS", True),
]


@pytest.mark.parametrize(("name", "value", "alone"), OPTIONS)
def test_options_that_load_classes_or_open_files_need_the_command_line(
    name, value, alone, tmp_path
):
    text = REST.replace("schema =", f'options = {{ "{name}" = "{value}" }}\nschema =')
    assert (refusal(text, PACKAGES, tmp_path) is None) == alone
    assert refusal(text, SETTINGS, tmp_path) is None


@pytest.mark.parametrize("command", ["check", "run", "explain"])
def test_every_command_refuses_it_before_spark_starts(command, tmp_path, monkeypatch):
    def start(*_, **__):
        raise AssertionError("Spark was started")

    monkeypatch.setattr("sfumato.cli.session.session", start)
    (tmp_path / "in").mkdir()
    file = tmp_path / "p.toml"
    for text, said in (
        (with_setting("sfumato.trustText", "true"), "a file cannot trust itself"),
        (with_setting("spark.plugins", "a.B"), "`spark.settings.spark.plugins` is not among"),
        (f"[spark]\npackages = ['a:b:1']\n{REST}", "--allow-packages"),
    ):
        file.write_text(text)
        answer = CliRunner().invoke(app, [command, str(file)])
        assert answer.exit_code == 2, answer.output
        assert said in answer.output


@pytest.mark.parametrize(
    ("options", "passes"),
    [
        (["--trust"], True),
        (["--allow-packages", "--allow-settings"], True),
        (["--allow-packages"], False),
        (["--allow-settings"], False),
    ],
)
def test_options_of_the_command_line_let_it_pass(options, passes, tmp_path, monkeypatch):
    class Started(Exception):  # noqa: N818
        pass

    def start(*_, **__):
        raise Started

    monkeypatch.setattr("sfumato.cli.session.command_session", start)
    (tmp_path / "in").mkdir()
    file = tmp_path / "p.toml"
    text = f"[spark]\npackages = ['a:b:1']\nsettings = {{ 'spark.plugins' = 'a.B' }}\n{REST}"
    file.write_text(text)
    answer = CliRunner().invoke(app, ["check", str(file), *options])
    assert isinstance(answer.exception, Started) == passes
