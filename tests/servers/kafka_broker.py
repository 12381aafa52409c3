"""A real Kafka broker for tests: one node, on loopback, on free ports, in a separate folder.

By hand: python tests/servers/kafka_broker.py FOLDER; it prints its address and runs until Ctrl-C.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path
from types import TracebackType

from servers.fetched import KAFKA
from servers.jars import NoRegistryError, jars

PATIENCE = 60.0  # seconds in which a broker must answer

CONFIG = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/log
num.partitions=3
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


class KafkaBroker:
    """A broker that runs within `with`. Raises NoRegistryError if its jars cannot be downloaded."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> KafkaBroker:
        self.classpath = os.pathsep.join(str(jar) for jar in jars(KAFKA))
        self.folder.mkdir(parents=True, exist_ok=True)
        broker, controller = free_ports(2)
        self.address = f"127.0.0.1:{broker}"
        config = self.folder / "server.properties"
        config.write_text(CONFIG.format(broker=broker, controller=controller, folder=self.folder))
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        formatted = self._java(
            "kafka.tools.StorageTool", "format", "-t", cluster.lstrip("-"), "-c", str(config)
        )
        if formatted.wait(PATIENCE):
            raise RuntimeError(f"Kafka: {(self.folder / 'out.txt').read_text()[-2000:]}")
        self.process = self._java("kafka.Kafka", str(config))
        try:
            self._await(broker)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _java(self, *arguments: str) -> subprocess.Popen[bytes]:
        java = shutil.which("java")
        if java is None:
            raise NoRegistryError("no Java runtime")
        with (self.folder / "out.txt").open("ab") as out:
            command = [java, "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
            command += ["-cp", self.classpath, *arguments]
            return subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)

    def _await(self, port: int) -> None:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            assert self.process is not None
            if self.process.poll() is not None:
                break
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.1)
        raise RuntimeError(f"Kafka: {(self.folder / 'out.txt').read_text()[-2000:]}")

    def _end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()


def free_ports(count: int) -> list[int]:
    """Return distinct ports on which nothing listens."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


if __name__ == "__main__":
    with KafkaBroker(Path(sys.argv[1])) as running:
        print(running.address, flush=True)
        signal.pause()
