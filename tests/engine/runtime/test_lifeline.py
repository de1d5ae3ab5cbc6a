"""The lifeline of a worker: heartbeats while user code runs, and the end with the coordinator."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import pytest

from onceproof.engine.runtime.workers.launcher import Launcher, LauncherGone
from tests.patience import PATIENCE_SECONDS

BEATS = 5
BUSY = """
import socket, sys
from onceproof.engine.runtime.workers.link import keep_alive
keep_alive(socket.socket(fileno=int(sys.argv[1])), 20)
while True:
    pass
"""


def test_worker_beats_while_a_function_computes_and_ends_with_its_lifeline():
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-c", BUSY, str(theirs.fileno())]
    with subprocess.Popen(command, pass_fds=[theirs.fileno()]) as worker:
        theirs.close()
        ours.settimeout(PATIENCE_SECONDS)
        for _ in range(BEATS):
            assert ours.recv(1) == b"b"
        ours.close()
        assert worker.wait(PATIENCE_SECONDS) == 1


def test_launcher_that_is_stopped_is_given_up_and_killed():
    launcher = Launcher(1, lambda ends: os._exit(0), 200)
    os.kill(launcher.pid, signal.SIGSTOP)
    try:
        with pytest.raises(LauncherGone, match="has not answered in time"):
            launcher.start()
    finally:
        launcher.close()
    with pytest.raises(ProcessLookupError):
        os.kill(launcher.pid, 0)
