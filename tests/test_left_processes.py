"""Processes that a test leaves running are named, however they were started."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests import left_processes
from tests.left_processes import LeftProcesses

SLEEP = "import time; time.sleep(600)"
DETACHED = f"""
import subprocess, sys
nowhere = {{"stdin": -3, "stdout": -3, "stderr": -3, "start_new_session": True}}
started = subprocess.Popen([sys.executable, "-c", {SLEEP!r}], **nowhere)
print(started.pid)
started.returncode = 0
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look once: the processes of these tests do not end by themselves."""
    monkeypatch.setattr(left_processes, "MOST_LOOKS", 1)


def test_a_child_that_runs_is_left_and_one_that_has_ended_is_not() -> None:
    left = LeftProcesses("module.py")
    with subprocess.Popen([sys.executable, "-c", SLEEP]) as child:
        [found] = left.found()
        assert found.startswith(f"module.py: {child.pid} {sys.executable} -c import time")
        child.kill()
    assert left.found() == []


def test_a_process_whose_parent_has_ended_is_left() -> None:
    left = LeftProcesses("module.py")
    left.begin("test_it")
    ended = subprocess.run([sys.executable, "-c", DETACHED], capture_output=True, text=True, check=True)
    left.end()
    grandchild = int(ended.stdout)
    try:
        [found] = left.found()
        assert found.startswith(f"module.py::test_it: {grandchild} ")
    finally:
        os.kill(grandchild, 9)


def test_a_forked_child_is_left() -> None:
    left = LeftProcesses("module.py")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(reading, 1)
        os._exit(0)
    assert [each.split()[1] for each in left.found()] == [str(child)]
    os.write(writing, b"x")
    os.waitpid(child, 0)
    os.close(reading)
    os.close(writing)


def test_what_ran_before_the_test_is_not_left() -> None:
    with subprocess.Popen([sys.executable, "-c", SLEEP]) as child:
        left = LeftProcesses("module.py")
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        assert left.found() == []
        child.kill()
