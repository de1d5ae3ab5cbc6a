"""How a job of a file is started, watched, killed and started again, on a cluster that is played."""

from __future__ import annotations

import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.program_file import JOB_MANAGER, JOB_RUNS, TASK_MANAGER
from onceproof.harness.model.program_processes import FlinkJob
from onceproof.harness.systems.flink import jobs
from onceproof.harness.systems.flink.cluster import FlinkAway, FlinkRefuses
from onceproof.harness.systems.flink.jobs import JobProcess, JobTrial, JobVersion

VALUES = {"kafka": "broker:1", "input": "in", "output": "out", "parallelism": "2"}
TRACE = (
    "java.lang.A: outer\\n\\tat x\\nCaused by: java.lang.B: inner\\n\\tat y\\n"
    "Caused by: java.lang.C: why\\n\\tat z"
)


class PlayedCluster:
    """Answers as a cluster does whose job has the given state."""

    def __init__(self, folder: Path) -> None:
        self.jars = folder
        self.log = folder / "job-manager.log"
        self.log.touch()
        self.asked: list[tuple[str, str, Any]] = []
        self.state = "RUNNING"
        self.tasks = ["RUNNING", "RUNNING"]
        self.savepoint: str | None = None
        self.refusal = ""
        self.trace = TRACE
        self.is_alive = True
        self.submitted = 0
        self.killed: list[str] = []
        self.processes: list[int] = []

    def upload(self, jar: Path) -> str:
        jar.read_bytes()
        return f"uploaded_{jar.name}"

    def request(self, path: str, method: str = "GET", body: Any = None, **_: Any) -> Any:
        if not self.is_alive:
            raise FlinkAway(path)
        self.asked.append((path, method, body))
        if path.endswith("/run"):
            if self.refusal:
                raise FlinkRefuses(self.refusal)
            self.submitted += 1
            return {"jobid": f"job{self.submitted}"}
        if path.endswith("/stop"):
            return {"request-id": "s"}
        if "/savepoints/" in path:
            self.state = "FINISHED" if self.savepoint else self.state
            return {"status": {"id": "COMPLETED"}, "operation": {"location": self.savepoint}}
        if path.endswith("/exceptions"):
            return {"exceptionHistory": {"entries": [{"stacktrace": self.trace.replace("\\n", "\n")}]}}
        if method == "PATCH":
            self.state = "CANCELED"
        return {"state": self.state, "vertices": [{"status": each} for each in self.tasks]}

    def orders(self) -> list[Any]:
        return [body for path, _, body in self.asked if path.endswith("/run")]

    def fill(self) -> None:
        self.killed.append("filled")

    def kill(self) -> None:
        self.killed.append("all")

    def kill_one_task_manager(self) -> bool:
        self.killed.append(TASK_MANAGER)
        return True

    def kill_job_manager(self) -> None:
        self.killed.append(JOB_MANAGER)
        self.is_alive = False


class Follower:
    """Knows of the kills of a pool, and is asked to follow checkpoints."""

    def __init__(self, pool: PlayedPool) -> None:
        self._pool = pool
        self.completed: list[tuple[int, dict[str, int]]] = []

    @property
    def was_struck(self) -> bool:
        return "all" in self._pool.current.killed

    def checkpoint_completed(self, checkpoint: int, cut: dict[str, int]) -> None:
        self.completed.append((checkpoint, cut))


class PlayedPool:
    """Has one cluster, which never dies for good."""

    def __init__(self, folder: Path) -> None:
        self.checkpoints = folder / "checkpoints"
        self.current = PlayedCluster(folder)
        self.spares = 0
        self.asked_for: list[FlinkJob] = []

    def cluster(self) -> PlayedCluster:
        return self.current

    def with_new_job_manager(self) -> PlayedCluster:
        self.current.is_alive = True
        return self.current

    def prepare_spare(self) -> None:
        self.spares += 1


@pytest.fixture
def pool(tmp_path: Path) -> PlayedPool:
    (tmp_path / "sum.jar").write_bytes(b"PK")
    (tmp_path / "sql-script.jar").write_bytes(b"PK")
    return PlayedPool(tmp_path)


@pytest.fixture
def trial(tmp_path: Path, pool: PlayedPool) -> JobTrial:
    job = FlinkJob(jar="sum.jar", main="Sum", arguments=("{kafka}", "--from={input}"))
    return trial_of(pool, tmp_path, job)


def trial_of(pool: PlayedPool, folder: Path, *jobs: FlinkJob) -> JobTrial:
    versions = [JobVersion(folder / "sum.toml", job) for job in jobs]
    clusters: Any = SimpleNamespace(pool=lambda job: pool.asked_for.append(job) or pool)
    return JobTrial(versions, clusters, Follower(pool), {"in": ("words-0", "words-1")})


def started(trial: JobTrial, pool: PlayedPool) -> JobProcess:
    return trial.start(VALUES, pool.checkpoints.parent / "start.txt")


def checkpoint(pool: PlayedPool, job: str, number: int) -> Path:
    """Write the metadata of a complete checkpoint, and return its folder."""
    folder = pool.checkpoints / job / f"chk-{number}"
    folder.mkdir(parents=True)
    (folder / "_metadata").write_bytes(struct.pack(">iiq", 0x4960672D, 4, number))
    return folder


def test_job_is_submitted_with_class_parallelism_and_filled_arguments(trial, pool):
    process = started(trial, pool)
    (order,) = pool.current.orders()
    assert order == {"entryClass": "Sum", "parallelism": 2, "programArgsList": ["broker:1", "--from=in"]}
    assert process.exit_code is None


def test_job_is_ready_when_all_its_tasks_run_and_says_so_once(trial, pool, monkeypatch):
    monkeypatch.setattr(jobs, "_SECONDS_BETWEEN_REQUESTS", -1.0)
    process = started(trial, pool)
    pool.current.tasks = ["RUNNING", "INITIALIZING"]
    assert process.new_lines() == []
    pool.current.tasks = ["RUNNING", "RUNNING"]
    assert [process.new_lines() for _ in range(3)] == [[JOB_RUNS], [], []]


def test_after_a_kill_the_job_goes_on_from_its_newest_whole_checkpoint(trial, pool):
    process = started(trial, pool)
    checkpoint(pool, "job1", 9)
    newest = checkpoint(pool, "job1", 10)
    (pool.checkpoints / "job1" / "chk-11").mkdir()
    process.kill()
    assert pool.current.killed == ["all"]
    assert pool.spares == 1
    started(trial, pool)
    assert pool.current.orders()[1]["savepointPath"] == newest.as_uri()


def test_after_a_kill_without_a_new_checkpoint_the_last_one_still_counts(trial, pool):
    first = started(trial, pool)
    newest = checkpoint(pool, "job1", 3)
    first.kill()
    started(trial, pool).kill()
    started(trial, pool)
    assert [order.get("savepointPath") for order in pool.current.orders()] == [
        None,
        newest.as_uri(),
        newest.as_uri(),
    ]


def test_after_a_stop_the_job_goes_on_from_its_savepoint(trial, pool, tmp_path):
    process = started(trial, pool)
    checkpoint(pool, "job1", 3)
    pool.current.savepoint = (tmp_path / "savepoint-1").as_uri()
    process.stop(1)
    pool.current.state = "RUNNING"
    started(trial, pool)
    assert pool.current.orders()[1]["savepointPath"] == pool.current.savepoint


def test_complete_checkpoints_are_followed_with_their_cuts(trial, pool, tmp_path, monkeypatch):
    monkeypatch.setattr(jobs, "_SECONDS_BETWEEN_REQUESTS", 0.0)

    def split(partition: int, offset: int) -> bytes:
        return b"\0\2in" + struct.pack(">iqq", partition, offset, -(2**63))

    process = started(trial, pool)
    # What the enumerator knows of a partition that has been given to a reader says less.
    others = b"\0\2in" + struct.pack(">iiqq", 0, 1, 0, 0) + split(1, -2)
    for number, states in ((1, split(0, -2)), (2, split(0, 3) + others + split(1, 4))):
        with (checkpoint(pool, "job1", number) / "_metadata").open("ab") as file:
            file.write(states)
        process.new_lines()
        process.new_lines()
    assert trial.follower.completed == [(1, {"words-0": 0, "words-1": 0}), (2, {"words-0": 3, "words-1": 4})]
    savepoint = checkpoint(pool, "stops", 3)
    pool.current.savepoint = savepoint.as_uri()
    process.stop(1)
    assert trial.follower.completed[2:] == [(3, {"words-0": 0, "words-1": 0})]
    assert (trial.checkpoint, trial.restored) == (3, savepoint)


def test_a_stop_that_fails_cancels_the_job_which_goes_on_from_its_checkpoint(trial, pool):
    process = started(trial, pool)
    newest = checkpoint(pool, "job1", 3)
    process.stop(1)
    assert pool.current.state == "CANCELED"
    assert trial.restored == newest


def test_a_job_manager_that_died_alone_gets_the_job_again(trial, pool):
    process = started(trial, pool)
    newest = checkpoint(pool, "job1", 2)
    assert process.kill_part(JOB_MANAGER)
    assert pool.current.submitted == 1
    process.new_lines()
    process.new_lines()
    assert pool.current.submitted == 2
    assert pool.current.orders()[1]["savepointPath"] == newest.as_uri()


def test_a_task_manager_that_died_is_replaced_and_flink_recovers_the_job(trial, pool):
    process = started(trial, pool)
    assert process.kill_part(TASK_MANAGER)
    process.new_lines()
    assert pool.current.killed == [TASK_MANAGER, "filled"]
    assert pool.current.submitted == 1


def test_a_main_that_fails_is_an_end_with_the_innermost_cause(trial, pool):
    pool.current.refusal = f'/jars/x/run: {{"errors":["Internal server error.","{TRACE}"]}}'
    process = started(trial, pool)
    assert process.exit_code == 1
    assert process.last_words() == "java.lang.C: why"


def fails(pool: PlayedPool, times: int) -> None:
    line = "12:00:00 INFO ExecutionGraph - Job sum (abc) switched from state RUNNING to RESTARTING.\n"
    with pool.current.log.open("a") as log:
        log.write(line * times)


def test_a_failure_before_any_fault_is_the_end_of_the_program(trial, pool):
    process = started(trial, pool)
    fails(pool, 1)
    process.new_lines()
    assert process.exit_code == 1
    assert process.last_words() == "java.lang.C: why"
    assert pool.current.state == "CANCELED"


def test_a_heartbeat_that_a_busy_machine_has_lost_is_no_failure_of_the_job(trial, pool):
    process = started(trial, pool)
    pool.current.trace = (
        "java.util.concurrent.TimeoutException: Heartbeat of TaskManager with id a timed out."
    )
    fails(pool, 1)
    process.new_lines()
    assert process.exit_code is None


def test_after_a_fault_flink_restarts_the_job_by_itself_but_not_forever(trial, pool):
    started(trial, pool).kill()
    process = started(trial, pool)
    fails(pool, 20)
    process.new_lines()
    assert process.exit_code is None
    fails(pool, 1)
    process.new_lines()
    assert process.exit_code == 1


def test_a_job_that_finishes_is_a_program_that_ends_with_zero(trial, pool):
    process = started(trial, pool)
    pool.current.state = "FINISHED"
    process.new_lines()
    assert process.exit_code == 0


def test_statements_of_a_script_are_arguments_of_our_own_class(trial, pool, tmp_path):
    (tmp_path / "job.sql").write_text("SET 'a' = 'b';\nINSERT INTO {output} SELECT 1;", encoding="utf-8")
    started(trial_of(pool, tmp_path, FlinkJob(sql="job.sql")), pool)
    (order,) = pool.current.orders()
    assert order["entryClass"] == "onceproof.SqlScript"
    assert order["programArgsList"] == ["SET 'a' = 'b'", "INSERT INTO out SELECT 1"]


@pytest.mark.parametrize(
    ("job", "line"),
    [
        (FlinkJob(jar="none.jar"), r"sum\.toml: flink\.jar: \S*none\.jar: No such file or directory"),
        (FlinkJob(sql="none.sql"), r"sum\.toml: flink\.sql: \S*none\.sql: No such file or directory"),
        (FlinkJob(sql="empty.sql"), r"empty\.sql: it has no INSERT INTO"),
    ],
)
def test_a_missing_jar_or_script_is_one_line_with_file_and_field(pool, tmp_path, job, line):
    (tmp_path / "empty.sql").touch()
    with pytest.raises(FamilyError, match=line):
        started(trial_of(pool, tmp_path, job), pool)


def test_a_stop_leads_to_the_next_version_and_a_kill_does_not(pool, tmp_path):
    old, new = FlinkJob(jar="sum.jar", version="1.20.5"), FlinkJob(jar="sum.jar")
    trial = trial_of(pool, tmp_path, old, new)
    started(trial, pool).kill()
    process = started(trial, pool)
    pool.current.savepoint = (tmp_path / "savepoint-1").as_uri()
    process.stop(1)
    pool.current.state = "RUNNING"
    pool.current.savepoint = None
    started(trial, pool).stop(1)
    started(trial, pool)
    assert pool.asked_for == [old, old, new, new]
    assert pool.current.orders()[2]["savepointPath"].endswith("/savepoint-1")


def test_the_checkpoints_of_a_trial_are_removed_at_its_end(trial, pool):
    started(trial, pool)
    folder = checkpoint(pool, "job1", 1)
    trial.close()
    assert not folder.exists()
