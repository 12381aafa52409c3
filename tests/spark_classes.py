"""An archive of the classes that Spark loads, which halves the processor time of a JVM's start.

    python tests/spark_classes.py    # makes it if it does not exist; `make warm` does this, too

It belongs to one Java, one PySpark and one location of its jars; other JVMs ignore it.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = Path(sys.prefix, "var", "cache", "sfumato-tests")
# From this variable, Spark's scripts take options for the JVM of a driver or Connect server.
OPTIONS = "SPARK_SUBMIT_OPTS"
SILENT = "-Xshare:auto -Xlog:disable -Xlog:all=error:stderr -Xlog:cds*=off:stderr"

# A Connect server loads the same classes as a driver, and its own.
RUN = """
import sys
from types import SimpleNamespace

from pyspark.sql import SparkSession

import sfumato as sf
from connect_cases import CASES, ROWS

folder = sys.argv[1]
builder = SparkSession.builder.remote("local[2]").config("spark.sfumato.buckets", "2")
spark = sf.configure(builder, cores=1, local_disk=True).getOrCreate()
rows = spark.range(40).selectExpr(
    "id", "timestamp_micros(id) AS event", "timestamp_micros(id) AS arrival",
    "double(id) AS x", "double(id) AS y", "id AS k")
for kind in ("parquet", "json"):
    rows.write.format(kind).save(f"{folder}/{kind}")
    read = spark.read.schema(ROWS).format(kind).load(f"{folder}/{kind}")
    CASES["reorder"](SimpleNamespace(rows=read)).groupBy("k").count().toArrow()
    came = spark.readStream.schema(ROWS).format(kind).load(f"{folder}/{kind}")
    writer = CASES["reorder"](SimpleNamespace(rows=came)).writeStream.format(kind)
    writer = writer.option("checkpointLocation", f"{folder}/{kind}-state")
    writer.trigger(availableNow=True).start(f"{folder}/{kind}-out").awaitTermination()
"""


def archive() -> Path | None:
    """Return the archive's path for this Java and this PySpark, or None without Java."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(Path(home, "bin", "java") if home else "java")
    spark = find_spec("pyspark")
    if java is None or spark is None:
        return None
    place = Path(java).resolve()
    files = (place, Path(str(spark.origin)))
    of = " ".join(f"{file} {file.stat().st_mtime_ns}" for file in files)
    return FOLDER / f"spark-{hashlib.sha256(of.encode()).hexdigest()[:16]}.jsa"


def quick_starts() -> str:
    """Return JVM options for a quick start, with the archive if it exists."""
    from sfumato.cli.session import SHORT_RUN

    file = archive()
    there = file is not None and file.exists()
    return f"{SHORT_RUN} -XX:SharedArchiveFile={file} {SILENT}" if there else SHORT_RUN


def make(file: Path) -> None:
    """Run Spark once and archive the classes that it loads."""
    from sfumato.cli.session import SHORT_RUN

    file.parent.mkdir(parents=True, exist_ok=True)
    here = Path(__file__).parent
    with TemporaryDirectory(dir=file.parent) as folder:
        fresh = Path(folder, "classes.jsa")
        environment = {
            **os.environ,
            OPTIONS: f"{SHORT_RUN} -XX:ArchiveClassesAtExit={fresh} {SILENT}",
            "PYTHONPATH": os.pathsep.join([str(here), os.environ.get("PYTHONPATH", "")]),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_TESTING": "1",  # the server takes a free port
        }
        command = [sys.executable, "-c", RUN, folder]
        # Read its output to the end, because the JVM writes the archive after the client exits.
        subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
        for older in file.parent.glob("spark-*.jsa"):
            older.unlink()
        fresh.replace(file)


if __name__ == "__main__":
    place = archive()
    if place is not None and not place.exists():
        make(place)
