"""Several processes of one job: one runs it, and the next goes on when that one dies or hangs, never two."""

from __future__ import annotations

import fcntl
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from onceproof.engine import Configuration, StreamExecutionEnvironment
from onceproof.engine.configuration import ConfigurationError
from onceproof.engine.graph import InvalidJob
from onceproof.engine.runtime.deletion import Superseded
from onceproof.engine.runtime.job_startup import open_job_storage
from onceproof.engine.runtime.lease import STANDBY, LeaseNote, held
from onceproof.engine.runtime.request_folder import is_running
from tests.engine.runtime.exact_rows import computed, differences, rows_in_files
from tests.engine.runtime.killed_job import checkpoints_of, make_input
from tests.engine.runtime.standby_job import TIMEOUT_SECONDS, release
from tests.patience import PATIENCE_SECONDS

POLL_SECONDS = 0.005
OPTION = "high-availability.lease-timeout"


class Trial:
    """The processes of one job over one folder."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.folder = folder
        self._workers = workers
        self._processes: list[subprocess.Popen[bytes]] = []
        make_input(folder, random.Random(1))

    def start(self) -> subprocess.Popen[bytes]:
        """Start one more process of the job."""
        command = [
            sys.executable,
            "-m",
            "tests.engine.runtime.standby_job",
            str(self.folder),
            str(self._workers),
        ]
        with self._log(len(self._processes)).open("wb") as log:
            process = subprocess.Popen(command, stderr=log, cwd=Path(__file__).parents[3])
        self._processes.append(process)
        return process

    def stand_by(self) -> subprocess.Popen[bytes]:
        """Start one more process, and wait until it stands by."""
        process = self.start()
        self.await_true(lambda: "stands by" in self.said_by(process))
        return process

    def said_by(self, process: subprocess.Popen[bytes]) -> str:
        """Return what a process has logged so far."""
        return self._log(self._processes.index(process)).read_text()

    def end_of(self, process: subprocess.Popen[bytes]) -> str:
        """Wait until a process has ended, and return what it has logged."""
        process.wait(timeout=PATIENCE_SECONDS)
        return self.said_by(process)

    def _log(self, number: int) -> Path:
        return self.folder.parent / f"process-{number}.log"

    def await_checkpoints(self, count: int) -> None:
        """Wait until so many more checkpoints are complete."""
        enough = checkpoints_of(self.folder) + count
        self.await_true(lambda: checkpoints_of(self.folder) >= enough)

    def incarnations(self) -> list[int]:
        """Return the processes that have the job by the files of its folder."""
        return [int(path.name.rpartition("-")[2]) for path in self.folder.glob("checkpoints/*/incarnation-*")]

    def await_true(self, is_true) -> None:
        """Wait for something that the processes bring about."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_true():
            assert time.monotonic() < deadline
            time.sleep(POLL_SECONDS)

    def check_exact(self) -> None:
        """Check the rows that a reader sees in the end."""
        expected = Counter(computed(self.folder))
        assert differences(expected, rows_in_files(self.folder / "rows")) == []

    def end(self) -> None:
        """End what a failed test has left."""
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()


ONE_PROCESS = pytest.mark.parametrize("trial", [1], ids=["one process"], indirect=True)
TWO_WORKERS = pytest.mark.parametrize("trial", [2], ids=["two workers"], indirect=True)


@pytest.fixture
def trial(tmp_path, request):
    made = Trial(tmp_path / "job", request.param)
    yield made
    made.end()


@TWO_WORKERS
@pytest.mark.local_kill
def test_next_process_goes_on_at_once_when_the_holder_is_killed(trial):
    first = trial.start()
    trial.await_checkpoints(2)
    second, third = trial.stand_by(), trial.stand_by()
    trial.await_checkpoints(5)
    assert trial.incarnations() == [1]
    first.kill()
    trial.await_true(lambda: trial.incarnations() == [2])
    release(trial.folder)
    # Both say why they go on: not because a lease has expired.
    ends = [trial.end_of(process) for process in (second, third)]
    assert (second.returncode, third.returncode) == (0, 0)
    assert sum("has finished already" in said for said in ends) == 1
    assert sum("the process that had it has ended: this one takes over" in said for said in ends) == 2
    trial.check_exact()


@TWO_WORKERS
@pytest.mark.local_kill
def test_stopped_holder_loses_the_job_and_ends_with_one_line_when_it_wakes(trial):
    first = trial.start()
    trial.await_checkpoints(2)
    others = [trial.stand_by(), trial.stand_by()]
    trial.await_checkpoints(5)
    os.kill(first.pid, signal.SIGSTOP)
    stopped = time.monotonic()
    trial.await_true(lambda: trial.incarnations() == [2])
    assert time.monotonic() - stopped > TIMEOUT_SECONDS * 0.6
    trial.await_checkpoints(2)
    os.kill(first.pid, signal.SIGCONT)
    said = trial.end_of(first)
    assert first.returncode == 1
    assert re.search("another (one|process) has taken (the job|job '.*') over", said.splitlines()[-1])
    assert "Traceback" not in said
    [job_folder] = trial.folder.glob("checkpoints/*/incarnation-2")
    trial.await_true(lambda: is_running(job_folder.parent))
    assert [process.poll() for process in others] == [None, None]
    release(trial.folder)
    ends = [trial.end_of(process) for process in others]
    assert [process.returncode for process in others] == [0, 0], ends
    assert any("has not renewed its lease" in said for said in ends)
    trial.check_exact()


@ONE_PROCESS
@pytest.mark.local_kill
def test_the_second_in_line_goes_on_while_the_first_is_stopped(trial):
    first = trial.start()
    trial.await_checkpoints(2)
    second = trial.stand_by()
    third = trial.stand_by()
    assert "behind another one" in trial.said_by(third)
    assert "behind another one" not in trial.said_by(second)
    trial.await_checkpoints(5)
    os.kill(second.pid, signal.SIGSTOP)
    os.kill(first.pid, signal.SIGSTOP)
    # The first in line stays stopped: without a time-out of its own the third would never go on.
    trial.await_true(lambda: trial.incarnations() == [2])
    trial.await_checkpoints(2)
    assert "has not renewed its lease" in trial.said_by(third)
    release(trial.folder)
    os.kill(second.pid, signal.SIGCONT)
    os.kill(first.pid, signal.SIGCONT)
    said = trial.end_of(first)
    assert first.returncode == 1, said
    said = trial.end_of(third)
    assert third.returncode == 0 or "has taken" in said, said
    trial.end_of(second)
    assert 0 in (second.returncode, third.returncode)
    trial.check_exact()


def test_process_behind_another_one_takes_an_expired_lease_by_itself(tmp_path):
    """The first in line and the holder show no sign of life, as processes that are stopped."""
    graph = job_with(tmp_path, **{OPTION: "200 ms", "execution.checkpointing.dir": str(tmp_path)})
    graph = graph.get_job_graph("a job")
    holder, storage = open_job_storage(graph), open_job_storage(graph)
    holder.publish("lease-1", msgspec.json.encode(LeaseNote(1, holds_lock=True)))
    taken = []

    def stand_by():
        with held(graph, storage, lambda: "claimed") as (_, claimed):
            taken.append(claimed)

    with holder.exclusive(), open(f"{holder.root}/{STANDBY}", "wb") as line:
        fcntl.flock(line, fcntl.LOCK_EX)
        waiting = threading.Thread(target=stand_by, daemon=True)
        waiting.start()
        waiting.join(timeout=PATIENCE_SECONDS)
    assert taken == ["claimed"]


def test_process_that_another_one_forestalls_stands_by_again(tmp_path):
    env = job_with(tmp_path, **{OPTION: "200 ms", "execution.checkpointing.dir": str(tmp_path)})
    graph = env.get_job_graph("a job")
    storage = open_job_storage(graph)
    looks = []

    def claim():
        looks.append(len(looks))
        if len(looks) < 3:
            raise Superseded("another one was faster")
        return "claimed"

    with held(graph, storage, claim) as (_, claimed):
        assert claimed == "claimed"
    assert looks == [0, 1, 2]


def job_with(tmp_path, **options):
    settings = {OPTION: "1 s", **options}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(settings))
    env.from_collection([1]).print()
    return env


def test_lease_without_a_folder_or_a_name_is_refused(tmp_path):
    with pytest.raises(InvalidJob, match="processes stand by over a folder"):
        job_with(tmp_path).execute("a job")
    folder = {"execution.checkpointing.dir": str(tmp_path)}
    with pytest.raises(InvalidJob, match="the job has no name"):
        job_with(tmp_path, **folder).execute()
    with pytest.raises(InvalidJob, match=r"only execute\(\) stands by"):
        job_with(tmp_path, **folder).execute_async("a job")


def test_lease_on_spark_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="is for the local runtime"):
        job_with(tmp_path, **{"execution.target": "spark"}).execute("a job")
