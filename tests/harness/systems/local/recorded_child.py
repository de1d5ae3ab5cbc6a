"""A process whose calls are recorded: ``python -m tests.harness.systems.local.recorded_child SPEC``.

It runs a family's job on the local runtime, as a user would, to its end or until a savepoint stops it, or
kills itself after a number of calls. It marks in the log each checkpoint and savepoint that it has reported
complete, and the end of the job.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from onceproof.engine.api.datastream import StreamExecutionEnvironment
from onceproof.engine.checkpoint.events import CheckpointCompleted
from onceproof.engine.configuration import CLAIM, NO_CLAIM, Configuration
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.runtime.job_requests import JobAnswer, JobRequest
from onceproof.engine.runtime.local import LocalExecution
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.scenario import InputRecord
from onceproof.harness.systems.local.part_file_io import PartFileIO
from tests.harness.systems.disk.recorded_calls import CallLog, recorded
from tests.harness.systems.disk.sqlite_calls import recorded_sqlite
from tests.harness.systems.local.recorded_output import (
    OUTPUT,
    DatabaseIO,
    DatabaseTables,
    PartFiles,
    RecordedOutput,
    make_users_table,
    short_logs,
)

FINISHED = "finished"
STOPPED = "stopped"
SAVEPOINT = "savepoint "
"""Begins the mark of a savepoint; its folder follows, relative to the root."""
CHECKPOINTS = "state/checkpoints"
OTHER_CHECKPOINTS = "state/others"
"""Where a process keeps its checkpoints that begins the job from a savepoint."""
SAVED: Final[dict[str, str]] = {"savepoint": "kept/taken", "stop": "ends/stop"}
"""Where savepoints are, by what asks for them."""

COMPLETED_BEFORE_REQUEST: Final = 2


class RecordedProcess(msgspec.Struct, frozen=True, kw_only=True):
    """One process of a recorded job: what it is asked, and when it dies."""

    parallelism: int = 2
    dies_after: int = 0
    """After so many recorded calls it kills itself; 0: it does not."""
    dies_at: tuple[str, str] = ("", "")
    """After the first call of this method with this ending of its path it kills itself; "": it does not."""
    asks: Literal["", "savepoint", "stop"] = ""
    """What a user asks of it, once it has completed two checkpoints."""
    begins_from: Literal["", "savepoint", "stop"] = ""
    """The savepoint with which the user starts it, by what had asked for it."""
    claims: bool = False
    """Whether the savepoint becomes the job's own, which deletes it."""

    @property
    def dies(self) -> bool:
        """Whether the process kills itself."""
        return bool(self.dies_after or self.dies_at[0])


class RecordedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job whose file calls are recorded."""

    family: str
    records: dict[str, tuple[InputRecord, ...]]
    root: str
    """The folder of its checkpoints and its output."""
    interval_records: int = 4
    state_backend: str = "hashmap"
    log: str = ""
    process: RecordedProcess = RecordedProcess()
    savepoint: str = ""
    """The folder of the savepoint with which the process begins."""
    output: str = OUTPUT
    writes_tables: bool = False
    """Whether the sinks write to an SQLite database; else they write part files."""
    has_users_table: bool = False
    """Whether that database was there before, with a table of the user."""

    @property
    def form(self) -> RecordedOutput:
        """The form of the output."""
        return DatabaseTables() if self.writes_tables else PartFiles()


def run(job: RecordedJob) -> None:
    """Run the job to its end, from its checkpoints if there are any."""
    family = load_family(job.family)
    process = job.process
    settings: dict[str, Any] = {
        "execution.checkpointing.dir": f"{job.root}/{OTHER_CHECKPOINTS if job.savepoint else CHECKPOINTS}",
        "execution.checkpointing.interval-records": job.interval_records,
        "execution.checkpointing.incremental": job.state_backend == "rocksdb",
        "state.backend.type": job.state_backend,
        "pipeline.buffer-records": 1,
        # A damaged disk must end the job at once.
        "restart-strategy.type": "none",
    }
    if job.savepoint:
        settings["execution.state-recovery.path"] = job.savepoint
        settings["execution.state-recovery.claim-mode"] = CLAIM if process.claims else NO_CLAIM
    environment = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(settings))
    environment.set_parallelism(process.parallelism)
    splits = {
        split: [(value, timestamp) for timestamp, value in records] for split, records in job.records.items()
    }
    source, root, parallelism = CollectionSource(splits), Path(job.root), process.parallelism
    if not job.writes_tables:
        family.job(environment, PartFileIO(source, root / job.output, {}, parallelism))
        environment.execute(family.name)
        return
    with short_logs():
        if job.has_users_table:
            make_users_table(root)
        family.job(environment, DatabaseIO(source, root, job.output, parallelism, family))
        environment.execute(family.name)


def main(path: str) -> None:
    """Run the specification in a file and record its calls."""
    job = msgspec.json.decode(Path(path).read_bytes(), type=RecordedJob)
    process = job.process
    log = CallLog(job.log, job.root, process.dies_after, process.dies_at)
    reported = LocalExecution.checkpoint_completed
    completed_ids: list[int] = []

    def answered(answer: JobAnswer) -> None:
        if answer.error:
            raise RuntimeError(answer.error)
        log.mark(SAVEPOINT + answer.savepoint.removeprefix(f"{job.root}/"))

    def completed(self: Any, effect: CheckpointCompleted) -> None:
        reported(self, effect)
        completed_ids.append(effect.checkpoint_id)
        log.mark(str(effect.checkpoint_id))
        if process.asks and len(completed_ids) == COMPLETED_BEFORE_REQUEST:
            self.submit(JobRequest(process.asks, f"{job.root}/{SAVED[process.asks]}"), answered)

    databases = recorded_sqlite(log) if job.writes_tables else nullcontext()
    with recorded(log), databases, replaced(LocalExecution, "checkpoint_completed", completed):
        run(job)
    log.mark(STOPPED if process.asks == "stop" else FINISHED)


if __name__ == "__main__":
    main(sys.argv[1])
