"""The processes of a server, the process that starts them, and their ports."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from threading import Timer

import psutil
import pytest

from onceproof.harness.services import service
from onceproof.harness.services.service import LOOPBACK, becomes_free, free_port, is_free
from tests.patience import PATIENCE_SECONDS

STARTS = """
import sys
from pathlib import Path
from onceproof.harness.services.service import ServerProcesses

processes = ServerProcesses(Path("record.json"))
print(processes.start(["sleep", "600"], Path("log"), dies_with_parent=True).pid)
"""


def test_server_that_is_not_stopped_ends_with_its_parent_without_a_word(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", STARTS],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stderr == ""
    assert not psutil.pid_exists(int(ended.stdout))


def test_port_that_a_killed_server_holds_for_a_moment_becomes_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_FREE_S", PATIENCE_SECONDS)
    taken = socket.create_server((LOOPBACK, free_port()))
    port = taken.getsockname()[1]
    assert not is_free(port)
    Timer(0.2, taken.close).start()
    assert becomes_free(port)


def test_port_that_stays_taken_does_not_become_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_FREE_S", 0.1)
    with socket.create_server((LOOPBACK, free_port())) as taken:
        assert not becomes_free(taken.getsockname()[1])
