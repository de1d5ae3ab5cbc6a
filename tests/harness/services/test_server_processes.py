"""The processes of a server, and the process that starts them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil

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
