"""Start and stop the processes of a standalone cluster, kill a worker, submit jobs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120.0  # seconds in which a process must start
MEMORY = "1g"  # per executor; a worker has twice as much
MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED = "Successfully registered with master"
DAEMON = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
NO_REST = "-Dspark.master.rest.enabled=false"  # this server would listen on a fixed port
LOOPBACK = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}
SHORT = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"


@dataclass
class Running:
    """A process that this program started; its start time guards against reused process ids."""

    name: str
    pid: int
    born: str  # the start time, as reported by the system

    def alive(self) -> bool:
        return bool(self.born) and born(self.pid) == self.born

    def kill(self) -> None:
        """Send SIGKILL to the process and all its children: a worker's executors end with it."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):  # for example, another process's child
                os.waitpid(self.pid, 0)


def born(pid: int) -> str:
    """Return a process's start time in ticks since boot; "" if there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    after = text.rpartition(")")[2].split()
    return "" if after[0] == "Z" else after[19]


@dataclass
class Cluster:
    """A master and workers of one core each; leaving the `with` block ends them."""

    folder: Path
    workers: int = 2
    master: str = ""
    processes: dict[str, Running] = field(default_factory=dict)
    java: str = SHORT

    def __enter__(self) -> Cluster:
        """Start master and workers, and wait until the workers are registered."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._start("master", "master.Master", "--port", "0")
            self.master = self._said("master", MASTER).group(1)
            for number in range(self.workers):
                self.add_worker(number)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            process.kill()

    def add_worker(self, number: int) -> None:
        """Start a worker of one core, or restart a killed one."""
        of = ("--cores", "1", "--memory", "2g", "--work-dir", str(self.folder / "work"))
        self._start(f"worker{number}", "worker.Worker", "--port", "0", *of, self.master)
        self._said(f"worker{number}", re.compile(REGISTERED))

    def kill_worker(self, number: int) -> None:
        """Send SIGKILL to a worker and its executors, as if its machine had lost power."""
        self.processes[f"worker{number}"].kill()

    def executors(self) -> list[Path]:
        """Return one folder per executor that was ever started."""
        return sorted((self.folder / "work").glob("app-*/*"))

    def submit(
        self,
        job: Path,
        *arguments: str,
        archive: Path | None = None,
        log: Path | None = None,
    ) -> subprocess.Popen[str]:
        """Run `spark-submit` in client mode; standard output is what the job prints."""
        chosen = {
            **LOOPBACK,
            "spark.executor.memory": MEMORY,
            "spark.driver.extraJavaOptions": self.java,
            "spark.executor.extraJavaOptions": self.java,
        }
        command = [str(spark_home() / "bin" / "spark-submit"), "--master", self.master]
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        environment = surroundings() | {"PYTHONPATH": path}
        if archive is not None:
            command += ["--archives", f"{archive}#environment"]
            environment["PYSPARK_PYTHON"] = "./environment/bin/python"
            # Spark also starts this Python next to the driver, where no archive is unpacked.
            beside = self.folder / "environment"
            if not beside.is_symlink():
                beside.symlink_to(sys.prefix)
        for name in ("SFUMATO_KERNEL_CACHE", *(() if archive else ("PYTHONPATH",))):
            if value := os.environ.get(name):
                chosen[f"spark.executorEnv.{name}"] = value
        for name, value in chosen.items():
            command += ["--conf", f"{name}={value}"]
        with (log or self.folder / f"{job.stem}.log").open("a") as errors:
            return subprocess.Popen(
                [*command, str(job), *arguments],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
                cwd=self.folder,
                start_new_session=True,
            )

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _start(self, name: str, role: str, *arguments: str) -> None:
        command = [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}"]
        command += ["--host", "127.0.0.1", "--webui-port", "0", *arguments]
        with self._log(name).open("w") as log:
            started = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=surroundings() | DAEMON | {"SPARK_DAEMON_JAVA_OPTS": f"{self.java} {NO_REST}"},
                cwd=self.folder,
                start_new_session=True,
            )
        self.processes[name] = Running(name, started.pid, born(started.pid))

    def _said(self, name: str, what: re.Pattern[str]) -> re.Match[str]:
        """Wait until a process's log has a matching line."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and self.processes[name].alive():
            found = what.search(self._log(name).read_text(errors="replace"))
            if found:
                return found
            time.sleep(0.1)
        raise RuntimeError(f"{name} did not start:\n{self._log(name).read_text()[-2000:]}")


def spark_home() -> Path:
    """Return the folder of the Spark distribution in the `pyspark` package."""
    import pyspark

    return Path(pyspark.__file__).parent


def surroundings() -> dict[str, str]:
    """Return the environment of Spark's processes: a Java runtime, this Python, no other Spark."""
    from sfumato.cli.configure import use_java

    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    return kept | {
        "JAVA_HOME": str(use_java()),
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def finished(job: subprocess.Popen[str], seconds: float, log: Sequence[Path] = ()) -> list[dict]:
    """Return the JSON objects that a job printed, one per line. Raises RuntimeError if it fails."""
    try:
        output, _ = job.communicate(timeout=seconds)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        raise
    if job.returncode:
        said = "\n".join(file.read_text(errors="replace")[-3000:] for file in log)
        raise RuntimeError(f"the job failed ({job.returncode}):\n{output[-2000:]}\n{said}")
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]
