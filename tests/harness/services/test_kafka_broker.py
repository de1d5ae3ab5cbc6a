"""The broker as a service: it keeps its data and port over kills, and its end leaves nothing behind."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from onceproof.engine.connectors.kafka.wire_protocol import Address, BrokerConnection
from onceproof.engine.runtime.java import find_java
from onceproof.harness.commands.cli import main
from onceproof.harness.model.exit_codes import FAILED, PASSED, USAGE
from onceproof.harness.services.kafka_broker import KafkaBroker
from onceproof.harness.services.kafka_jars import BrokerProgram
from onceproof.harness.services.service import ServerProcesses, ServiceError, ServiceMissing, free_port
from tests.patience import PATIENCE_SECONDS


def test_killed_broker_serves_again_on_its_port(kafka_broker: KafkaBroker) -> None:
    address = kafka_broker.address
    kafka_broker.kill()
    assert not kafka_broker.is_running()
    kafka_broker.start()
    assert kafka_broker.address == address
    with BrokerConnection(Address("127.0.0.1", kafka_broker.port), PATIENCE_SECONDS) as connection:
        assert connection.brokers() == [Address("127.0.0.1", kafka_broker.port)]


def test_paused_broker_answers_after_it_is_resumed(kafka_broker: KafkaBroker) -> None:
    kafka_broker.pause()
    try:
        address = Address("127.0.0.1", kafka_broker.port)
        with BrokerConnection(address, 0.3) as connection, pytest.raises(TimeoutError):
            connection.brokers()
    finally:
        kafka_broker.resume()
    with BrokerConnection(Address("127.0.0.1", kafka_broker.port), PATIENCE_SECONDS) as connection:
        assert connection.brokers()


def test_command_finds_a_running_broker_and_ends_it(
    kafka_broker: KafkaBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = ["kafka", "--folder", str(tmp_path)]
    assert main(["services", "status", *folder]) == FAILED
    assert main(["services", "up", *folder]) == PASSED
    [process] = ServerProcesses(tmp_path / "kafka" / "processes.json").living()
    assert main(["services", "up", *folder]) == PASSED
    assert main(["services", "status", *folder]) == PASSED
    assert main(["services", "down", *folder]) == PASSED
    assert not process.is_running()
    assert (tmp_path / "kafka" / "data" / "meta.properties").exists()
    printed = capsys.readouterr().out.splitlines()
    assert ["does not run" in line for line in printed] == [True, False, False, False, True]


def test_port_that_is_taken_is_named(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServiceError, match=f"port {port} of 127.0.0.1 is taken"):
            KafkaBroker(tmp_path, port).start()


def test_missing_maven_is_a_line_with_the_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(find_java(os.environ).home))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServiceMissing, match="no mvn is on PATH: install it"):
        BrokerProgram.find()


def test_unknown_server_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["services", "up", "kafak"]) == USAGE
    assert capsys.readouterr().err.startswith("onceproof: no server is called 'kafak': choose from kafka")


def test_process_with_a_reused_id_is_not_killed(tmp_path: Path) -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        process = psutil.Process(stranger.pid)
        record = tmp_path / "processes.json"
        record.write_text(f"[[{stranger.pid}, {process.create_time() - 5}]]", encoding="utf-8")
        processes = ServerProcesses(record)
        assert not processes.living()
        processes.kill()
        assert stranger.poll() is None
    finally:
        stranger.communicate(b"\n")


def test_server_of_another_process_is_ended(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    record = tmp_path / "processes.json"
    process = psutil.Process(child.pid)
    ServerProcesses(record).record(process)
    ServerProcesses(record).end()
    child.communicate()
    assert not process.is_running()
    assert not record.exists()
    assert os.listdir(tmp_path) == []
