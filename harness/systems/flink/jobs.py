"""A job of Flink on trial, in a jar or in SQL: the cluster stands where a program has its processes.

Rules:

- The job is submitted through the REST interface, and its ``main`` runs in the JobManager. Nothing of the
  harness runs in it but the few lines that execute a script.
- A kill of the program is a SIGKILL to the JobManager and all TaskManagers; its parts are one of each. What
  Flink recovers by itself, it recovers. After the death of a JobManager, a stop or an end, the job is
  submitted from its newest complete checkpoint, or from the savepoint of the stop if nothing follows it.
- Checkpoints are found in Flink's folder as they become complete. Their cuts are those of topics.
- Before the first fault no attempt may fail, unless the machine is too busy for heartbeats. Later Flink's
  restarts are Flink's, up to MOST_RESTARTS.
- Clusters are kept over trials, one kind at a time; each trial has jobs and folders of its own.
"""

from __future__ import annotations

import re
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, Protocol
from urllib.parse import urlparse
from urllib.request import url2pathname

from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.program_file import JOB_MANAGER, JOB_RUNS, filled
from onceproof.harness.model.program_processes import FlinkJob
from onceproof.harness.systems.flink.cluster import FlinkAway, FlinkRefuses
from onceproof.harness.systems.flink.files import METADATA, read_metadata, topics_cut
from onceproof.harness.systems.flink.home import SQL_JAR, FlinkHome, home_of_jobs
from onceproof.harness.systems.flink.pool import FlinkPool
from onceproof.harness.systems.flink.sql_script import SqlScriptError, statements_of
from onceproof.harness.systems.kit.growing_file import GrowingFile
from onceproof.harness.systems.process.process_table import worked_seconds

_MOST_KINDS: Final = 2
MOST_RESTARTS: Final = 20
"""After as many failures of the job in one start, the start has failed."""
SETTINGS: Final = {
    # A JobManager that dies alone is missed by its heartbeats, and a busy machine may hold them up.
    "heartbeat.timeout": "10000",
    "pekko.ask.timeout": "60 s",
    "execution.checkpointing.interval": "200 ms",
    "execution.checkpointing.min-pause": "100 ms",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    # While tasks start, a checkpoint may be declined, and that is no failure of the job.
    "execution.checkpointing.tolerable-failed-checkpoints": "20",
    "restart-strategy.type": "fixed-delay",
    # While no TaskManager is back, an attempt fails at once, and counts.
    "restart-strategy.fixed-delay.attempts": "1000000",
    "restart-strategy.fixed-delay.delay": "50 ms",
}
"""Those of jobs that set none; a job's own code and its file override them."""
_SQL_MAIN: Final = "onceproof.SqlScript"
_FAILS: Final = re.compile(r"\) switched from state RUNNING to (RESTARTING|FAILING)")
_LATE: Final = re.compile(r"heartbeat", re.IGNORECASE)
"""In the cause of a failure that is the machine's, which was too busy for Flink."""
_CAUSE: Final = re.compile(r"(?m)^Caused by: (.*)")
_SECONDS_BETWEEN_REQUESTS: Final = 0.05
_SUBMIT_S: Final = 300.0
_STOP_S: Final = 60.0
_ENDED: Final = {"FINISHED": 0, "FAILED": 1, "CANCELED": 1}
"""By last state of a job, the exit code of the program that it is."""


class JobClusters:
    """The clusters on which jobs of files run, over all trials of a system."""

    def __init__(self) -> None:
        self._pools: list[tuple[tuple[FlinkHome, Mapping[str, str]], FlinkPool]] = []

    def pool(self, job: FlinkJob) -> FlinkPool:
        """Return clusters for a job; those of earlier kinds stop. Raises ServiceError."""
        kind = home_of_jobs(job.version, job.connectors), {**SETTINGS, **job.settings}
        for known, pool in self._pools:
            if known == kind:
                return pool
        while len(self._pools) >= _MOST_KINDS:
            self._pools.pop(0)[1].close()
        self._pools.append((kind, FlinkPool(*kind)))
        return self._pools[-1][1]

    def close(self) -> None:
        """Stop them; a later trial starts new ones."""
        for _, pool in self._pools:
            pool.close()
        self._pools.clear()


class JobFollower(Protocol):
    """Follows what becomes of a job."""

    @property
    def was_struck(self) -> bool:
        """Whether a fault has struck."""

    def checkpoint_completed(self, checkpoint: int, cut: Mapping[str, int]) -> None:
        """Add that a checkpoint or savepoint is complete."""


class JobVersion(NamedTuple):
    """A job, and the file that says so."""

    path: Path
    job: FlinkJob


@dataclass(slots=True)
class JobTrial:
    """The starts of one job in one trial.

    Args:
        versions: of the job, in order: a stop with a savepoint leads from one to the next.
        clusters: that run it.
        follower: of what becomes of it.
        partitions: by topic of an input, the splits that its partitions are.
    """

    versions: list[JobVersion]
    clusters: JobClusters
    follower: JobFollower
    partitions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    restored: Path | None = None
    """The checkpoint or savepoint from which the next start goes on."""
    checkpoint: int | None = None
    """Its id."""
    read: set[Path] = field(default_factory=set)
    """The checkpoints that are known to be complete."""
    folders: list[Path] = field(default_factory=list)
    """Those of the checkpoints of all starts."""

    def start(self, values: Mapping[str, str], log: Path) -> JobProcess:
        """Submit the job, which goes on where it was; ``values`` fill the placeholders."""
        return JobProcess(self, self.clusters.pool(self.versions[0].job), values, log)

    def complete(self, folder: Path) -> None:
        """Note a checkpoint or savepoint if it is complete, from which the next start goes on."""
        if folder in self.read:
            return
        with suppress(OSError):
            content = (folder / METADATA).read_bytes()
            if (metadata := read_metadata(content, {})) is not None:
                self.read.add(folder)
                if self.checkpoint is None or self.checkpoint < metadata.checkpoint:
                    self.restored, self.checkpoint = folder, metadata.checkpoint
                    cut = topics_cut(content, self.partitions)
                    self.follower.checkpoint_completed(metadata.checkpoint, cut)

    def stopped(self, savepoint: Path) -> None:
        """Note that the job has stopped with a savepoint, from which its next version goes on."""
        self.restored = savepoint
        self.complete(savepoint)
        if len(self.versions) > 1:
            self.versions.pop(0)

    def close(self) -> None:
        """Remove the checkpoints of the trial."""
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)


class JobProcess:
    """One start of a job, with the methods of a program's process.

    Args:
        trial: of which it is a start.
        pool: of the clusters that run it.
        values: by placeholder.
        log: the file that gets what its JobManager says.

    Raises:
        FamilyError: its jar or script cannot be read, or its script is no job.
    """

    def __init__(self, trial: JobTrial, pool: FlinkPool, values: Mapping[str, str], log: Path) -> None:
        self._trial = trial
        self._path, self._what = trial.versions[0]
        self._pool = pool
        self._cluster = cluster = pool.cluster()
        self._values = values
        self.log = log
        log.touch()
        self._said_by_cluster = GrowingFile(cluster.log, cluster.log.stat().st_size)
        self._worked_before = {pid: worked_seconds(pid) for pid in cluster.processes}
        self._job = ""
        self._exit_code: int | None = None
        self._said = ""
        self._has_run = False
        self._restarts = 0
        self._asked_at = 0.0
        self._is_paused = self._has_lost_master = self._is_over = False
        self._submit()

    stdin: IO[bytes] | None = None

    @property
    def exit_code(self) -> int | None:
        """How the job has ended; None while it runs."""
        return self._exit_code

    def worked_seconds(self) -> float:
        """Return how much processor time its cluster has used since the start, by processes that live."""
        return sum(worked_seconds(pid) - self._worked_before.get(pid, 0.0) for pid in self._cluster.processes)

    def new_lines(self) -> list[str]:
        """Return what the JobManager has said since the last call, and a line when all tasks run.

        A JobManager that has died alone is started again here, and TaskManagers are.
        """
        if self._is_paused or self._is_over:
            return []
        if self._has_lost_master or not self._cluster.is_alive:
            self._has_lost_master = False
            self._find_checkpoints()
            self._cluster = self._pool.with_new_job_manager()
            self._submit()
        self._cluster.fill()
        lines = self._said_by_cluster.new_texts()
        self._restarts += sum(1 for line in lines if _FAILS.search(line))
        if self._has_failed():
            self._end(1, self._cause())
        elif time.monotonic() - self._asked_at > _SECONDS_BETWEEN_REQUESTS:
            lines += self._follow()
        with self.log.open("a", encoding="utf-8") as log:
            log.writelines(f"{line}\n" for line in lines)
        return lines

    def kill(self) -> None:
        """Kill the cluster, and return when it is dead; another one starts."""
        self._cluster.kill()
        self._find_checkpoints()
        self._is_over = True
        self._pool.prepare_spare()

    def kill_part(self, pattern: str) -> bool:
        """Kill the JobManager, or one TaskManager; return whether one was alive."""
        if pattern != JOB_MANAGER:
            return self._cluster.kill_one_task_manager()
        self._cluster.kill_job_manager()
        self._find_checkpoints()
        self._has_lost_master = True
        return True

    def has_part(self, pattern: str) -> bool:
        """Return whether the cluster has a process of a kind, or is going to."""
        return True

    def discard(self) -> None:
        """Cancel the job if it runs; the cluster stays."""
        if not self._is_over:
            self.resume()
            self._end(self._exit_code or 0, self._said)

    def pause(self) -> None:
        """Stop all processes of the cluster."""
        self._is_paused = True
        self._cluster.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let all processes of the cluster run on."""
        self._is_paused = False
        self._cluster.signal(signal.SIGCONT)

    def stop(self, seconds: float) -> None:
        """Stop the job with a savepoint, from which the next start goes on; cancel it where that fails."""
        deadline = time.monotonic() + max(seconds, _STOP_S)
        savepoint = None
        with suppress(FlinkAway, FlinkRefuses):
            body = {"targetDirectory": self._pool.checkpoints.as_uri(), "drain": False}
            asked = self._cluster.request(f"/jobs/{self._job}/stop", "POST", body)["request-id"]
            while savepoint is None and time.monotonic() < deadline:
                answer = self._cluster.request(f"/jobs/{self._job}/savepoints/{asked}")
                if answer["status"]["id"] == "COMPLETED":
                    savepoint = answer["operation"].get("location")
                    if savepoint is None:
                        break
                time.sleep(_SECONDS_BETWEEN_REQUESTS)
            while savepoint is not None and self._state() not in _ENDED and time.monotonic() < deadline:
                time.sleep(_SECONDS_BETWEEN_REQUESTS)
        self._end(0, "")
        if savepoint is not None:
            self._trial.stopped(Path(url2pathname(urlparse(savepoint).path)))

    def last_words(self) -> str:
        """Return why the job has failed."""
        return self._said or "Flink names no cause"

    def _submit(self) -> None:
        """Submit the job; where its ``main`` fails, the start has ended."""
        trial, job = self._trial, self._what
        if job.sql:
            jar, main = self._cluster.jars / SQL_JAR, _SQL_MAIN
            arguments = self._statements()
        else:
            jar, main = self._path.parent / job.jar, job.main
            arguments = [filled(each, self._values) for each in job.arguments]
        order: dict[str, Any] = {
            "programArgsList": arguments,
            "parallelism": int(self._values["parallelism"]),
        }
        if main:
            order["entryClass"] = main
        if trial.restored is not None:
            order["savepointPath"] = trial.restored.as_uri()
        self._has_run = False
        try:
            name = self._cluster.upload(jar)
            answer = self._cluster.request(f"/jars/{name}/run", "POST", order, seconds=_SUBMIT_S)
        except OSError as error:
            raise FamilyError(f"{self._path}: flink.jar: {jar}: {error.strerror or error}") from None
        except (FlinkRefuses, FlinkAway) as error:
            self._said, self._exit_code = _innermost(str(error)), 1
            return
        self._job = answer["jobid"]
        trial.folders.append(self._pool.checkpoints / self._job)

    def _statements(self) -> list[str]:
        """Return the statements of the script, with placeholders filled."""
        path = self._path.parent / self._what.sql
        try:
            script = filled(path.read_text(encoding="utf-8"), self._values)
            return statements_of(script)
        except OSError as error:
            raise FamilyError(f"{self._path}: flink.sql: {path}: {error.strerror or error}") from None
        except SqlScriptError as error:
            raise FamilyError(f"{path}: {error}") from None

    def _follow(self) -> list[str]:
        """Ask for the state of the job; return the line that says that it runs, the first time it does."""
        self._asked_at = time.monotonic()
        self._find_checkpoints()
        if not self._job:
            return []
        try:
            answer = self._cluster.request(f"/jobs/{self._job}")
        except (FlinkAway, FlinkRefuses):
            return []
        state = answer["state"]
        if state in _ENDED:
            self._end(_ENDED[state], "" if state == "FINISHED" else self._cause())
        elif not self._has_run and state == "RUNNING":
            states = {vertex["status"] for vertex in answer["vertices"]}
            self._has_run = bool(states) and states <= {"RUNNING", "FINISHED"}
            return [JOB_RUNS] if self._has_run else []
        return []

    def _state(self) -> str:
        return str(self._cluster.request(f"/jobs/{self._job}")["state"])

    def _end(self, code: int, said: str) -> None:
        """Note that the job is over, after it is cancelled where it still runs."""
        self._exit_code, self._said, self._is_over = code, said, True
        with suppress(FlinkAway, FlinkRefuses):
            if self._job and self._state() not in _ENDED:
                self._cluster.request(f"/jobs/{self._job}?mode=cancel", "PATCH")
                deadline = time.monotonic() + _STOP_S
                while self._state() not in _ENDED and time.monotonic() < deadline:
                    time.sleep(_SECONDS_BETWEEN_REQUESTS)
        self._find_checkpoints()

    def _find_checkpoints(self) -> None:
        """Find the complete checkpoints of this start; without one the next start begins as it did."""
        if self._job:
            for folder in sorted((self._pool.checkpoints / self._job).glob("chk-*"), key=_number):
                self._trial.complete(folder)

    def _has_failed(self) -> bool:
        """Return whether the job has failed more often than Flink may restart it."""
        if self._restarts > MOST_RESTARTS or not self._restarts:
            return bool(self._restarts)
        return not self._trial.follower.was_struck and not _LATE.search(self._cause())

    def _cause(self) -> str:
        """Return why the last attempt of the job has failed."""
        with suppress(FlinkAway, FlinkRefuses):
            entries = self._cluster.request(f"/jobs/{self._job}/exceptions")["exceptionHistory"]["entries"]
            if entries:
                return _innermost(entries[0]["stacktrace"])
        return ""


def _number(folder: Path) -> int:
    return int(folder.name.removeprefix("chk-"))


def _innermost(trace: str) -> str:
    """Return the innermost cause in a stack trace of Java, in one line."""
    lines = trace.replace("\\n", "\n").replace("\\t", "\t")
    causes = _CAUSE.findall(lines)
    return (causes[-1] if causes else lines.strip().splitlines()[0]).strip()[:600]
