"""The fault board that all processes of a run share, tested with real processes that are killed."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import textwrap

import msgspec
import pytest

from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.process import fault_board
from onceproof.harness.systems.process.fault_board import BoardFile, BoardState, FaultBoard
from onceproof.harness.systems.recording.event_log import EventLog, read_all_events
from onceproof.harness.systems.spark.kills import WorkerKills
from tests.patience import PATIENCE_SECONDS

WORKER = """
import pickle, sys, time
board = pickle.loads(bytes.fromhex(sys.argv[1]))
with board.living(sys.argv[2], sys.argv[3]):
    board.reading = lambda: {"a": 7}
    print("living", flush=True)
    for line in sys.stdin:
        board(*line.split(), 0)
        print("lives", flush=True)
"""

COUNT = """
import sys
from onceproof.harness.systems.process.fault_board import BoardFile
file = BoardFile(sys.argv[1])
for _ in range(50):
    with file.held() as state:
        state.struck += 1
"""


class Worker:
    """A process that runs one task and passes the points that the test sends to it."""

    def __init__(self, board, name, attempt="1.7"):
        sent = pickle.dumps(board).hex()
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WORKER), sent, name, attempt],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "living\n"

    def passes(self, point, task):
        """Pass a point; return whether the worker is still alive."""
        self.process.stdin.write(f"{point} {task}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline() == "lives\n"

    def death(self):
        return self.process.wait(PATIENCE_SECONDS)

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(PATIENCE_SECONDS)


@pytest.fixture
def cluster(tmp_path):
    """Makes fault boards, and workers that share them. The driver is a process that sleeps."""
    driver = subprocess.Popen(["sleep", "3600"])
    workers = []

    class Cluster:
        log = tmp_path / "events-1.jsonl"
        path = str(tmp_path / "board")
        driver_process = driver

        def board(self, *faults, driver=driver.pid):
            return FaultBoard(self.path, faults, False, EventLog(str(self.log)), WorkerKills(driver))

        def worker(self, board, name, attempt="1.7"):
            workers.append(Worker(board, name, attempt))
            return workers[-1]

        def events(self, kind):
            return [event for event in read_all_events(self.log) if event["kind"] == kind]

    yield Cluster()
    for worker in workers:
        worker.end()
    driver.kill()
    driver.wait()


def test_worker_is_killed_once_at_the_nth_pass_over_all_workers(cluster):
    board = cluster.board(Fault("kill_task", "element", occurrence=3))
    first, second = cluster.worker(board, "count-0"), cluster.worker(board, "count-1", "1.8")
    assert first.passes("element", "count-0")
    assert second.passes("element", "count-1")
    assert not second.passes("element", "count-1")
    assert second.death() == -signal.SIGKILL
    assert first.passes("element", "count-0")
    [struck] = cluster.events("fault_struck")
    assert (struck["task"], struck["read"]) == ("count-1", {"a": 7})
    [failed] = cluster.events("subtask_failed")
    assert (failed["task"], failed["attempt"], failed["injected"]) == ("count-1", "1.8", True)
    state = BoardFile(cluster.path).read()
    assert state.points == {"element": 4}
    assert [task.name for task in state.living] == ["count-0"]


def test_all_workers_that_run_a_task_die_together(cluster):
    board = cluster.board(Fault("kill_all", "aligned"))
    workers = [cluster.worker(board, f"count-{number}", f"1.{number}") for number in range(3)]
    assert not workers[1].passes("aligned", "count-1")
    assert [worker.death() for worker in workers] == [-signal.SIGKILL] * 3
    assert {failed["task"] for failed in cluster.events("subtask_failed")} == {
        "count-0",
        "count-1",
        "count-2",
    }
    assert len(cluster.events("fault_struck")) == 1
    assert BoardFile(cluster.path).read().living == ()
    assert cluster.driver_process.poll() is None


def test_delayed_kill_hits_the_task_that_passed_the_point(cluster):
    # The kill strikes two passes later, whichever task makes them.
    board = cluster.board(Fault("kill_task", "element", "count-1", after=2))
    first, second = cluster.worker(board, "count-0"), cluster.worker(board, "count-1")
    assert second.passes("element", "count-1")
    assert first.passes("element", "count-0")
    assert first.passes("restored", "count-0")
    assert second.death() == -signal.SIGKILL
    assert first.passes("element", "count-0")


def test_delayed_kill_waits_until_its_victim_runs_again(cluster):
    board = cluster.board(Fault("kill_task", "element", "count-1", after=1))
    first, second = cluster.worker(board, "count-0"), cluster.worker(board, "count-1")
    assert second.passes("element", "count-1")
    second.end()
    # The victim has ended by itself. Spark or the next epoch starts the task again.
    assert first.passes("element", "count-0")
    again = cluster.worker(board, "count-1", "1.9")
    assert not again.passes("restoring", "count-1")
    assert again.death() == -signal.SIGKILL


def test_kill_process_kills_the_driver_and_the_worker_at_the_point(cluster):
    # A worker passes the point. The driver is another process of the same session.
    board = cluster.board(Fault("kill_process", "snapshotted", rescale_to=3))
    worker, other = cluster.worker(board, "count-0"), cluster.worker(board, "count-1")
    assert not worker.passes("snapshotted", "count-0")
    assert worker.death() == -signal.SIGKILL
    assert cluster.driver_process.wait(PATIENCE_SECONDS) == -signal.SIGKILL
    assert other.passes("element", "count-1")


def test_task_kills_do_not_count_points_that_the_driver_passes(cluster):
    board = cluster.board(
        Fault("kill_task", "committing"), Fault("kill_all", "completed"), driver=os.getpid()
    )
    with board.living("count-0", "1.1"):
        for point in ("committing", "completed") * 2:
            board(point, "sink-0", 1)
    state = BoardFile(cluster.path).read()
    assert state.waiting.left == (1, 1)
    assert state.points == {"committing": 2, "completed": 2}
    assert cluster.events("fault_struck") == []


def test_write_and_commit_faults_are_logged_once(cluster):
    board = cluster.board(
        Fault("fail_commit", "committing", occurrence=2), Fault("tear_write", "snapshotted")
    )
    assert board.commit_fault("sink-0") is None
    assert board.write_fault("snapshotted", "count-0", 4).kind == "tear_write"
    assert board.commit_fault("sink-0").kind == "fail_commit"
    assert board.commit_fault("sink-0") is None
    assert [struck["number"] for struck in cluster.events("fault_struck")] == [1, 0]


def test_a_process_of_another_session_is_never_killed(cluster):
    board = cluster.board(Fault("kill_all", "element"))
    stranger = subprocess.Popen(["sleep", "3600"], start_new_session=True)
    try:
        worker = cluster.worker(board, "count-0")
        with board.held() as state:
            [living] = state.living
            state.living = (living, type(living)(stranger.pid, "count-1", "1.1"))
        assert not worker.passes("element", "count-0")
        assert worker.death() == -signal.SIGKILL
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_events_of_several_processes_are_read_in_the_order_of_time(tmp_path):
    path = tmp_path / "events"
    lines = {
        "events": [(2, "b"), (5, "d"), (5, "e")],
        "events.17": [(1, "a"), (9, "f")],
        "events.18": [(4, "c")],
    }
    for name, events in lines.items():
        text = "".join(f'{{"at":{at},"kind":"{kind}"}}\n' for at, kind in events)
        (tmp_path / name).write_text(text + '{"at":3,"kind":"to')
    (tmp_path / "events-2").write_text('{"at":0,"kind":"other"}\n')
    assert [event["kind"] for event in read_all_events(path)] == list("abcdef")


def test_concurrent_changes_of_two_processes_are_all_kept(tmp_path):
    path = str(tmp_path / "board")
    workers = [subprocess.Popen([sys.executable, "-c", COUNT, path]) for _ in range(2)]
    assert [worker.wait(PATIENCE_SECONDS) for worker in workers] == [0, 0]
    assert BoardFile(path).read().struck == 100


class Unknown(msgspec.Struct):
    """A class that cannot be decoded."""

    value: Nothing = 0  # noqa: F821


def test_class_of_the_state_is_made_ready_before_any_thread_reads(tmp_path, monkeypatch):
    monkeypatch.setattr(fault_board, "BoardState", Unknown)
    with pytest.raises(NameError, match="Nothing"):
        BoardFile(tmp_path / "board")


def test_missing_file_reads_as_empty_and_a_failed_change_is_not_written(tmp_path):
    file = BoardFile(tmp_path / "board")
    assert file.read() == BoardState()
    with pytest.raises(ZeroDivisionError), file.held() as state:
        state.struck = 1 // 0
    with file.held() as state:
        state.deaths = 2
    assert file.read() == BoardState(deaths=2)
