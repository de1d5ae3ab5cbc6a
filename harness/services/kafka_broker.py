"""One node of Kafka in KRaft mode: the broker that tests and trials use.

It is started from the jars of `kafka_jars.py`, which pins the version. A kill is SIGKILL of the Java; `start`
afterwards goes on with the same data on the same port, and returns when the broker has registered again.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Final

from onceproof.engine.connectors.kafka.wire_protocol import Address, BrokerConnection
from onceproof.harness.services.kafka_jars import BrokerProgram, broker_properties
from onceproof.harness.services.service import (
    LOOPBACK,
    ServerProcesses,
    ServiceError,
    becomes_free,
    keep_port,
    kept_port,
    last_lines,
)

_START_S: Final = 90.0
_PROBE_S: Final = 2.0
_PAUSE_S: Final = 0.05


class KafkaBroker:
    """A broker with its data below a folder (see `service.Service`).

    Args:
        folder: for data, log and the record of the process.
        port: of the loopback interface; 0: the one that the folder keeps, else a free one.
        dies_with_parent: whether the broker ends when the process that has started it dies (on Linux only).
        has_proxy: whether it also listens behind a proxy. It sends clients of ``proxied_port`` to
            ``proxy_port``, where the caller runs the proxy; who comes by ``address`` stays there.
    """

    name = "kafka"

    def __init__(
        self, folder: Path, port: int = 0, *, dies_with_parent: bool = False, has_proxy: bool = False
    ) -> None:
        self.folder = folder
        self._dies_with_parent = dies_with_parent
        self.port = kept_port(folder, "broker", port)
        self.proxied_port = kept_port(folder, "proxied", 0) if has_proxy else 0
        """Where the broker listens behind a proxy; 0: nowhere."""
        self.proxy_port = kept_port(folder, "proxy", 0) if has_proxy else 0
        self._processes = ServerProcesses(folder / "processes.json")

    @property
    def address(self) -> str:
        """What clients call bootstrap.servers."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def data(self) -> Path:
        """The folder of its data, with a folder for each partition."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """What the broker prints: warnings and errors."""
        return self.folder / "broker.log"

    def start(self) -> None:
        """Start the broker and return when it serves. Raises ServiceError."""
        if self.is_running():
            self._wait_until_it_serves()
            return
        program = BrokerProgram.find()
        program.archive_classes(lambda options: _run_once(program, options))
        self._start(program, program.archive_options())

    def stop(self) -> None:
        """End the broker in order."""
        self._processes.end()

    def kill(self) -> None:
        """Kill the broker with SIGKILL."""
        self._processes.kill()

    def pause(self) -> None:
        """Stop the broker with SIGSTOP: connections stay, nothing is answered."""
        self._processes.pause()

    def resume(self) -> None:
        """Let a paused broker run on."""
        self._processes.send(signal.SIGCONT)

    def is_running(self) -> bool:
        """Return whether the process of the broker lives."""
        return bool(self._processes.living())

    def has_died(self) -> bool:
        """Return whether the broker that was started last has ended by itself, or was killed."""
        return self._processes.has_died()

    # ---- internal

    def _start(self, program: BrokerProgram, options: tuple[str, ...]) -> None:
        keep_port(self.folder, "broker", self.port)
        controller_port = kept_port(self.folder, "controller", 0)
        keep_port(self.folder, "controller", controller_port)
        if self.proxied_port:
            keep_port(self.folder, "proxied", self.proxied_port)
            keep_port(self.folder, "proxy", self.proxy_port)
        data = self.data
        if not (data / "meta.properties").exists():
            shutil.copytree(program.formatted, data, dirs_exist_ok=True)
        for port in filter(None, (self.port, controller_port, self.proxied_port)):
            if not becomes_free(port):
                raise ServiceError(
                    f"kafka: port {port} of {LOOPBACK} is taken: end what listens there, or remove"
                    f" {self.folder} for a broker with another port"
                )
        settings = self.folder / "broker.properties"
        content = broker_properties(data, self.port, controller_port, self.proxied_port, self.proxy_port)
        settings.write_text(content, encoding="utf-8")
        command = program.command("kafka.Kafka", str(settings), options=options)
        self._processes.start(command, self.log, dies_with_parent=self._dies_with_parent)
        self._wait_until_it_serves()

    def _wait_until_it_serves(self) -> None:
        deadline = time.monotonic() + _START_S
        while not self._serves():
            if not self.is_running():
                raise ServiceError(f"kafka: the broker has ended: {last_lines(self.log)[:300]} ({self.log})")
            if time.monotonic() > deadline:
                raise ServiceError(f"kafka: the broker does not serve after {_START_S:.0f} s: see {self.log}")
            time.sleep(_PAUSE_S)

    def _serves(self) -> bool:
        try:
            with BrokerConnection(Address(LOOPBACK, self.port), _PROBE_S) as connection:
                return bool(connection.brokers())
        except OSError:
            return False


def _run_once(program: BrokerProgram, options: tuple[str, ...]) -> None:
    """Start and end a broker of its own, for the archive of its classes."""
    with tempfile.TemporaryDirectory(prefix="onceproof-kafka-") as name:
        broker = KafkaBroker(Path(name))
        try:
            broker._start(program, options)
        finally:
            broker.stop()
