"""The means of faults, carried out on real processes that stand for workers, drivers and their JVMs."""

from __future__ import annotations

import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import textwrap
import time

import psutil
import pytest
from msgspec.structs import replace

from onceproof.engine.runtime.storage import StorageError
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.fault_kinds import MEANS_POINTS
from onceproof.harness.model.fault_means import with_means
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import Fault, ScenarioError, check, from_json, to_json
from onceproof.harness.systems.process import fault_actions
from onceproof.harness.systems.process.fault_actions import lose_shuffle_files, room_for, send
from onceproof.harness.systems.process.fault_board import BoardFile, FaultBoard, LivingTask, StoppedTask
from onceproof.harness.systems.process.process_table import is_alive, is_in_session
from onceproof.harness.systems.recording.event_log import EventLog, read_all_events
from onceproof.harness.systems.spark.kills import WorkerKills
from onceproof.harness.systems.spark.observed_subtask import FaultyStorage
from onceproof.harness.systems.spark.run import claimed
from onceproof.harness.systems.spark.system import CLUSTER_MEANS, LOCAL_MEANS
from tests.patience import PATIENCE_SECONDS

WORKER = """
import pickle, socket, sys
board = pickle.loads(bytes.fromhex(sys.argv[1]))
mine, other = socket.socketpair()
with board.living("count-0", "1.7"):
    print("living", flush=True)
    for line in sys.stdin:
        board(*line.split(), 3)
        try:
            print("connected" if mine.send(b"x") and other.recv(1) else "cut off", flush=True)
        except OSError:
            print("cut off", flush=True)
"""


@pytest.fixture
def processes():
    """Starts processes in this session, and kills them at the end of the test."""
    begun = []

    def begin(*command, **settings):
        begun.append(subprocess.Popen(command or ["sleep", "3600"], **settings))
        return begun[-1]

    yield begin
    for process in begun:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


@pytest.fixture
def board_of(tmp_path):
    def board(*faults, driver=1, java=0):
        log = EventLog(str(tmp_path / "events"))
        kills = WorkerKills(driver, java, str(tmp_path))
        return FaultBoard(str(tmp_path / "board"), faults, False, log, kills)

    board.events = lambda kind: [
        each for each in read_all_events(tmp_path / "events") if each["kind"] == kind
    ]
    board.read = lambda: BoardFile(tmp_path / "board").read()
    return board


def working(processes, board):
    """Start a worker that runs a task and passes the points that the test sends to it."""
    worker = processes(
        sys.executable,
        "-c",
        textwrap.dedent(WORKER),
        pickle.dumps(board).hex(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdout.readline() == "living\n"
    return worker


def pass_point(worker, point):
    worker.stdin.write(f"{point} count-0\n")
    worker.stdin.flush()


def is_stopped(worker):
    return psutil.Process(worker.pid).status() == psutil.STATUS_STOPPED


def wait_for(condition):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_zombie_is_stopped_and_runs_on_cut_off_after_its_checkpoint(processes, board_of, monkeypatch):
    monkeypatch.setattr(fault_actions, "SECONDS_TO_END", PATIENCE_SECONDS)
    fault = Fault("kill_task", "aligned", means="zombie")
    board = board_of(fault, driver=os.getpid())
    worker = working(processes, board)
    pass_point(worker, "aligned")
    wait_for(lambda: is_stopped(worker))
    assert board.state().stopped == (StoppedTask(worker.pid, "1.7", 3),)
    assert board.state().living == (), "it counts as dead"
    board("completed", "coordinator", 2)
    assert is_stopped(worker), "that checkpoint was complete before it began"
    worker.stdin.close()
    board("completed", "coordinator", 3)
    assert worker.stdout.read() == "cut off\n"
    assert not is_alive(worker.pid)
    [released] = board_of.events("zombie_released")
    assert released["ended"] is True
    assert board.state().stopped == ()


def test_the_death_of_an_executor_kills_all_its_tasks_and_no_others(processes, board_of):
    board = board_of(Fault("kill_task", "aligned", means="executor"))
    mine, other = processes(), processes()
    with board.living("count-0", "1.1"):
        with board.held() as state:
            [living] = state.living
            tasks = [
                LivingTask(living.process, "count-0", "1.1", mine.pid),
                LivingTask(7, "count-1", "1.2", mine.pid),
            ]
            state.living = (*tasks, LivingTask(8, "count-2", "1.3", other.pid))
        board("aligned", "count-0", 1)
        assert mine.wait(PATIENCE_SECONDS) == -signal.SIGKILL
        assert other.poll() is None
        assert [task.name for task in board.state().living] == ["count-2"]
        assert {failed["task"] for failed in board_of.events("subtask_failed")} == {"count-0", "count-1"}
        assert not board.is_living("1.1")


def test_the_death_of_a_drivers_java_leaves_its_python(processes, board_of):
    java = processes()
    board = board_of(Fault("kill_process", "committing", means="java"), java=java.pid)
    board("committing", "sink-0", 1)
    assert java.wait(PATIENCE_SECONDS) == -signal.SIGKILL
    assert board.state().java_is_dead
    board.begin()
    assert not board.state().java_is_dead


def test_delayed_kill_strikes_a_task_that_is_alive_when_it_is_due(processes, board_of):
    board = board_of(Fault("kill_task", "aligned", delay=1))
    with board.living("count-0", "1.1"):
        board("aligned", "count-0", 1)
    time.sleep(0.01)
    board.strike_late()
    assert board_of.events("fault_struck") == [], "no task is alive"
    worker = working(processes, board)
    board.strike_late()
    assert worker.wait(PATIENCE_SECONDS) == -signal.SIGKILL
    assert [struck["task"] for struck in board_of.events("fault_struck")] == ["count-0"]
    assert board.state().late == ()


def test_delayed_driver_kill_leaves_the_board_before_it_strikes(processes, board_of):
    driver = processes(
        sys.executable,
        "-c",
        "import pickle, sys, os; board = pickle.loads(bytes.fromhex(sys.argv[1]));"
        "board.kills = type(board.kills)(os.getpid()); board('aligned', 'x', 1);"
        "[board.strike_late() for _ in iter(int, 1)]",
        pickle.dumps(board_of(Fault("kill_process", "aligned", delay=1))).hex(),
    )
    assert driver.wait(PATIENCE_SECONDS) == -signal.SIGKILL
    assert board_of.read().late == (), "or the next driver would die of it as well"


def test_only_shuffle_files_are_deleted_in_any_folder(tmp_path):
    deep = tmp_path / "local" / "blockmgr-1" / "0c"
    deep.mkdir(parents=True)
    for name in ("shuffle_0_0_0.data", "shuffle_0_0_0.index", "broadcast_1"):
        (deep / name).touch()
    assert lose_shuffle_files(str(tmp_path)) == 2
    assert [path.name for path in deep.iterdir()] == ["broadcast_1"]
    assert lose_shuffle_files("") == 0


def test_full_disk_leaves_half_of_each_file_until_it_has_room_again(tmp_path, board_of):
    board = board_of(Fault("fail_write", "snapshotted", means="full", delay=1))
    storage = FaultyStorage(str(tmp_path / "job"), board, "count-0")
    for path in ("chk-1/a", "chk-1/b"):
        with pytest.raises(StorageError, match=f"{path} cannot be written: File too large: free some space"):
            storage.write(path, b"twelve bytes")
        assert storage.read(path) == b"twelve"
        storage.delete(path)
    storage.write("chk-1/c", b"twelve bytes")
    assert [struck["again"] for struck in board_of.events("fault_struck")] == [False, True]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_read_only_disk_refuses_writes_and_deletions_for_a_while(tmp_path, board_of):
    board = board_of(Fault("fail_write", "metadata_written", means="read_only", delay=2))
    storage = FaultyStorage(str(tmp_path / "job"), board, "coordinator")
    storage.write("chk-1/a", b"state")
    with pytest.raises(StorageError, match="cannot be written: Read-only file system"):
        storage.create_exclusive("chk-1/_metadata", b"whole")
    with pytest.raises(StorageError, match="cannot be deleted: Read-only file system"):
        storage.delete("chk-1/a")
    with pytest.raises(StorageError, match="cannot be written"):
        storage.write("chk-1/b", b"state")
    storage.delete("chk-1/a")
    storage.create_exclusive("chk-2/_metadata", b"whole")
    assert storage.list("chk-") == ["chk-2/_metadata"]


def test_a_driver_claims_its_job_again_until_the_disk_can_be_written(tmp_path, board_of):
    board = board_of(Fault("fail_write", "metadata_written", means="read_only", delay=2))
    storage = FaultyStorage(str(tmp_path / "job"), board, "coordinator")
    assert claimed(storage, 1).incarnation == 1
    with pytest.raises(StorageError, match="cannot be written"):
        storage.create_exclusive("chk-1/_metadata", b"whole")
    assert claimed(storage, 1).incarnation == 4
    assert storage.list("") == ["incarnation-4"]


def test_file_size_limit_ends_with_its_context(tmp_path):
    path = tmp_path / "file"
    with room_for(3), path.open("wb", buffering=0) as file:
        assert file.write(b"four") == 3
        with pytest.raises(OSError, match="File too large"):
            file.write(b"more")
    assert path.read_bytes() == b"fou"
    path.write_bytes(b"as long as it likes")


def test_no_signal_goes_to_unknown_or_other_sessions_processes(processes):
    stranger = processes("sleep", "3600", start_new_session=True)
    for process in (0, 1, stranger.pid):
        send(process)
    assert stranger.poll() is None
    assert is_alive(stranger.pid)
    assert not is_in_session(stranger.pid, os.getsid(0))
    assert socket.gethostname(), "this process lives, too"


@pytest.mark.parametrize("available", [LOCAL_MEANS, CLUSTER_MEANS], ids=["local", "cluster"])
def test_means_are_drawn_from_the_seed_and_kept_in_the_scenario(available):
    drawn = []
    for seed in range(800):
        scenario = generate(load_family("word_count"), seed)
        real = with_means(scenario, available)
        assert with_means(real, available) == real
        assert from_json(to_json(real)) == real
        # Some faults have a means from the generator.
        had_one = [bool(fault.means) for fault in scenario.faults]
        drawn += [fault for fault, had in zip(real.faults, had_one, strict=True) if not had]
    met = {fault.means for fault in drawn if fault.means}
    assert met == available
    for fault in drawn:
        if fault.means:
            assert fault.means in FAULTS[fault.kind].means
            assert fault.point in MEANS_POINTS.get(fault.means, FAULTS[fault.kind].points)
    late = [fault for fault in drawn if fault.kind == "kill_task" and fault.delay]
    assert late
    assert all(1 <= fault.delay <= 401 and not fault.means for fault in late)


def test_a_means_of_another_kind_is_refused():
    scenario = generate(load_family("word_count"), 1)
    for kind, means in (("kill_task", "java"), ("tear_write", "full")):
        wrong = replace(scenario, faults=(Fault(kind, FAULTS[kind].points[0], means=means),))
        with pytest.raises(ScenarioError, match=f"{kind} does not happen by {means}"):
            check(wrong)
