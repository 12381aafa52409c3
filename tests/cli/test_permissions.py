"""The settings that a pipeline file may choose, and those that the command line must allow."""

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
    """Return the error for a file, or None if it may run."""
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
    "sfumato.trustText",
    "SFUMATO.TRUSTTEXT",
    "sfumato.trusttext",
    " sfumato.trustText",
    "sfumato.trustText ",
    "sfumato.trustText\n",
    "\tsfumato.trustText",
    "sfumato. trustText",
    "sfumato.anything",
    "spark.sfumato.trustText",
    "spark.hadoop.sfumato.trustText",
]


@pytest.mark.parametrize("name", TRUSTING)
@pytest.mark.parametrize("allowed", [NONE, PACKAGES, SETTINGS, Permissions(True, True)])
def test_a_file_never_trusts_itself(name, allowed, tmp_path):
    said = refusal(with_setting(name, "true"), allowed, tmp_path)
    assert said is not None
    assert "a file must not grant trust to itself" in said
    assert "--trust" in said


RUNS_CODE = [
    ("spark.driver.extraClassPath", "/tmp/evil"),
    ("spark.executor.extraClassPath", "evil.jar"),
    ("spark.driver.extraJavaOptions", "-XX:OnOutOfMemoryError=id"),
    ("spark.driver.defaultJavaOptions", "-javaagent:a.jar"),
    ("spark.executor.defaultJavaOptions", "x"),
    ("spark.driver.extraLibraryPath", "/tmp"),
    ("spark.executor.extraLibraryPath", "/tmp"),
    ("spark.driver.userClassPathFirst", "true"),
    ("spark.plugins", "a.B"),
    ("spark.plugins.defaultList", "a.B"),
    ("spark.extraListeners", "a.B"),
    ("spark.sql.streaming.streamingQueryListeners", "a.B"),
    ("spark.sql.queryExecutionListeners", "a.B"),
    ("spark.sql.extensions", "a.B"),
    ("spark.sql.catalog.lake", "a.B"),
    ("spark.sql.catalog.spark_catalog", "B"),
    ("spark.jars", "a.jar"),
    ("spark.jars.excludes", "a:b"),
    ("spark.jars.ivy", "/tmp"),
    ("spark.jars.ivySettings", "/tmp/i.xml"),
    ("spark.jars.repositories", "http://evil"),
    ("spark.pyspark.python", "/tmp/evil"),
    ("spark.pyspark.driver.python", "/tmp/evil"),
    ("spark.python.daemon.module", "evil"),
    ("spark.python.worker.module", "evil"),
    ("spark.executorEnv.PYTHONPATH", "/tmp"),
    ("spark.executorEnv.LD_PRELOAD", "x.so"),
    ("spark.submit.pyFiles", "a.py"),
    ("spark.files", "a"),
    ("spark.archives", "a.zip"),
    ("spark.serializer", "a.B"),
    ("spark.kryo.registrator", "a.B"),
    ("spark.kryo.classesToRegister", "a.B"),
    ("spark.sql.hive.metastore.jars", "path"),
    ("spark.sql.hive.metastore.jars.path", "/tmp/*"),
    ("spark.sql.catalogImplementation", "hive"),
    ("spark.hadoop.fs.file.impl", "a.B"),
    ("spark.hadoop.fs.s3a.impl", "a.B"),
    ("spark.hadoop.io.compression.codecs", "a.B"),
    ("spark.hadoop.net.topology.script.file.name", "/tmp/evil.sh"),
    ("spark.hadoop.hadoop.security.credential.provider.path", "jceks://x"),
    ("spark.hadoop.fs.s3a.aws.credentials.provider", "a.B"),
    ("spark.hadoop.fs.s3a.aws.credentials.provider.mapping", "a.B=c.D"),
    ("spark.log4j.configuration", "x"),
    ("spark.log.structuredLogging.enabled", "true"),
    ("spark.shuffle.manager", "a.B"),
    ("spark.shuffle.sort.io.plugin.class", "a.B"),
    ("spark.io.compression.codec", "a.b.C"),
    ("spark.sql.parquet.output.committer.class", "a.B"),
    ("spark.sql.sources.commitProtocolClass", "a.B"),
    ("spark.sql.streaming.stateStore.providerClass", "a.B"),
    ("spark.sql.streaming.checkpointFileManagerClass", "a.B"),
    ("spark.sql.adaptive.customCostEvaluatorClass", "a.B"),
    ("spark.sql.cache.serializer", "a.B"),
    ("spark.ui.filters", "a.B"),
    ("spark.security.credentials.x.enabled", "true"),
    ("spark.kubernetes.container.image", "x"),
    ("spark.resource.gpu.discoveryScript", "/tmp/x"),
    ("spark.worker.resource.g.discoveryScript", "x"),
    ("spark.driver.resource.gpu.discoveryScript", "x"),
    ("spark.r.command", "x"),
    ("spark.connect.extensions.relation.classes", "a.B"),
    ("spark.sql.parser.escapedStringLiterals", "true"),
    ("spark.sql.variable.substitute", "true"),
    ("spark.redaction.regex", "x"),
    ("spark.driver.memory", "1g -XX:OnOutOfMemoryError=id"),
    ("spark.driver.memory", "1g\n-x"),
    ("spark.app.name", "$${env:HOME}"),
    ("spark.sql.session.timeZone", "$${env:HOME}"),
    ("spark.DRIVER.extraClassPath", "x"),
    (" spark.plugins", "a.B"),
    ("spark.plugins ", "a.B"),
    ("spark.sql.shuffle.partitions ", "1"),
    ("spark.sql.shuffle.partitions=1\nspark.plugins", "a.B"),
    ("spark.sql.adaptive.x=1 --jars", "a.jar"),
    ("spark.sfumato.x y", "1"),
    ("sfumato.maxAlternatives", "20000"),  # one row could then cost more
    ("", "x"),
    ("--jars", "x"),
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
    ("spark.executor.memory", "512m"),
    ("spark.cores.max", "8"),
    ("spark.memory.fraction", "0.6"),
    ("spark.sql.session.timeZone", "Europe/Vienna"),
    ("spark.sql.session.timeZone", "+02:00"),
    ("spark.sfumato.buckets", "64"),
    ("spark.sfumato.warnInvalid", "false"),
    ("spark.sql.adaptive.enabled", "false"),
    ("spark.sql.streaming.stateStore.rocksdb.blockCacheSizeMB", "64"),
    ("spark.sql.parquet.compression.codec", "zstd"),
    ("spark.sql.files.maxPartitionBytes", "64MB"),
    ("spark.sql.autoBroadcastJoinThreshold", "-1"),
    ("spark.app.name", "frost, at two airports"),
    ("spark.hadoop.fs.s3a.endpoint", "http://minio:9000"),
    ("spark.hadoop.fs.s3a.access.key", "AKIA+/="),
    ("spark.hadoop.fs.s3a.secret.key", "x/+ab${}."),
    ("spark.hadoop.fs.s3a.bucket.my-lake.secret.key", "x/+ab"),
    ("spark.hadoop.fs.s3a.path.style.access", "true"),
    (
        "spark.hadoop.fs.s3a.aws.credentials.provider",
        "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider",
    ),
    ("spark.dynamicAllocation.enabled", "true"),
    ("spark.network.timeout", "120s"),
]


@pytest.mark.parametrize(("name", "value"), HARMLESS)
def test_a_file_may_tune_spark_and_name_its_object_store(name, value, tmp_path):
    assert refusal(with_setting(name, value.replace("${}", "")), NONE, tmp_path) is None


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
    [
        "org.apache.spark.sql.execution.datasources.json.JsonFileFormat",
        "evil.Source",
        "jdbc",
        "JDBC",
        "json ",
        "Evil",
        "state-metadata",
        "statestore",
    ],
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
    ("kafka.sasl.login.callback.handler.class", "a.B", False),
    ("kafka.some.future.option", "Word", False),
    ("kafka.ssl.protocol", "TLSv1.3", True),
    ("kafka.linger.ms", "5", True),
    ("fs.s3a.delegation.token.binding", "Evil", False),
    ("fs.s3a.proxy.host", "evil", False),
    ("fs.s3a.some.future.option", "Word", False),
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
def test_every_command_refuses_it_before_spark_starts(command, tmp_path, no_spark):
    (tmp_path / "in").mkdir()
    file = tmp_path / "p.toml"
    for text, said in (
        (with_setting("sfumato.trustText", "true"), "a file must not grant trust to itself"),
        (with_setting("spark.plugins", "a.B"), "`spark.settings.spark.plugins` is not allowed"),
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
def test_options_of_the_command_line_let_it_pass(options, passes, tmp_path, started):
    (tmp_path / "in").mkdir()
    file = tmp_path / "p.toml"
    text = f"[spark]\npackages = ['a:b:1']\nsettings = {{ 'spark.plugins' = 'a.B' }}\n{REST}"
    file.write_text(text)
    CliRunner().invoke(app, ["check", str(file), *options])
    assert len(started) == passes
