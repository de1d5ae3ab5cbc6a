"""Processes that user functions fork: they run nothing of their parent's job, and keep nothing of it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from onceproof.engine.forked_children import EXIT_CODE
from tests.engine.runtime.forking_job import ALONE, COUNT
from tests.engine.runtime.killed_worker_job import is_alive
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[3]
COMES_BACK = [("returns", 1), ("raises", 2), ("leaves", 2), ("yields", 1), ("answers", 2)]
"""How the child comes back, and in how many workers the job runs."""
PREAMBLE: list[str] = []
"""What the programs do first: defects are planted here."""


@pytest.fixture
def start(tmp_path):
    """Start a program of the tests; end it and all that it has started."""
    started = []

    def start_program(module, *arguments):
        run = f"import runpy, sys; sys.argv[0] = ''; runpy.run_module({module!r}, run_name='__main__')"
        process = subprocess.Popen(
            [sys.executable, "-c", "\n".join([*PREAMBLE, run]), *map(str, arguments)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start_program
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def rows(folder):
    files = [path for path in (folder / "out").iterdir() if not path.name.startswith(".")]
    return Counter(int(line) for path in files for line in path.read_text().split())


@pytest.mark.parametrize(("how", "workers"), COMES_BACK)
def test_child_that_comes_back_from_a_function_ends_and_changes_nothing(tmp_path, start, how, workers):
    process = start("tests.engine.runtime.forking_job", tmp_path, workers, how)
    restarts, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, restarts) == (0, "0\n"), said
    assert (tmp_path / "status").read_text() == str(EXIT_CODE)
    assert "has returned from that function and ends here" in said
    assert rows(tmp_path) == Counter(range(COUNT))


@pytest.mark.parametrize(("how", "workers"), [("exits", 2), ("runs a job", 1), ("pool", 2)])
def test_child_that_does_not_come_back_is_left_alone(tmp_path, start, how, workers):
    process = start("tests.engine.runtime.forking_job", tmp_path, workers, how)
    restarts, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, restarts) == (0, "0\n"), said
    if how != "pool":
        assert (tmp_path / "status").read_text() == "0"
    if how == "runs a job":
        assert rows(tmp_path / "child") == Counter(range(ALONE))
    assert rows(tmp_path) == Counter(range(COUNT))


LONG = "heartbeat.timeout=10 min"
"""Only the processes themselves, and their connections, say that they are gone."""


@pytest.mark.parametrize("how", ["is killed", "is killed beside C code"])
def test_death_of_a_worker_is_noticed_although_a_process_that_it_forked_lives(tmp_path, start, how):
    process = start("tests.engine.runtime.forking_job", tmp_path, 2, how, LONG)
    # Standard output is held by the child that lives on.
    assert process.wait(PATIENCE_SECONDS) == 0
    assert process.stdout.readline() == "1\n"
    assert rows(tmp_path) == Counter(range(COUNT))


def test_stopped_worker_is_killed_and_the_job_resumes_from_its_last_checkpoint(tmp_path, start):
    soon = ["heartbeat.interval=200 ms", "heartbeat.timeout=10 s"]
    process = start("tests.engine.runtime.forking_job", tmp_path, 2, "stops", *soon)
    restarts, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, said
    assert int(restarts) >= 1
    assert "has sent no heartbeat for 10000 ms and was killed" in said
    assert rows(tmp_path) == Counter(range(COUNT))


def test_monitor_of_a_killed_job_frees_its_port_although_a_forked_process_lives(tmp_path, start):
    process = start("tests.engine.runtime.forking_job", tmp_path, 1, "is killed", "rest.port=0")
    port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", process.stderr.readline())[1])
    assert process.wait(PATIENCE_SECONDS) == -signal.SIGKILL
    until = time.monotonic() + PATIENCE_SECONDS
    while is_open(port):
        assert time.monotonic() < until, "the monitor serves a dead job"
        time.sleep(0.02)


def is_open(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


def test_daemonic_process_of_a_function_ends_with_the_job(tmp_path, start):
    process = start("tests.engine.runtime.forking_job", tmp_path, 2, "daemon")
    assert process.wait(PATIENCE_SECONDS) == 0
    daemon = int((tmp_path / "daemon").read_text())
    until = time.monotonic() + PATIENCE_SECONDS
    while is_alive(daemon):
        assert time.monotonic() < until, "the process is left behind"
        time.sleep(0.02)
