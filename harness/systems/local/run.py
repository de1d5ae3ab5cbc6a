"""The process under trial: ``python -m onceproof.harness.systems.local.run SPEC.json``.

Rules:

- One process is one incarnation of the job, with the workers that it forks, if the job has any. It depends
  only on its specification and the job's folders, and may be killed at any instruction.
- The module imports little more than a production job would, because recovery time includes the imports.
- Each process keeps the job's record in the registry. It asks twice, before it recovers and after the job has
  ended, whether another program could resume under the job's name: the job itself must be accepted and the
  other program refused, as soon as there is a checkpoint or an end to resume from. Whether there is one is
  read off the names of the files, not asked of the engine.
- The other program is the same job over another input, so nothing else tells the two apart. Its sources are
  replaced in the job graph, whatever a family has built around the source that it was given.
- Unless it is killed, the process logs why it ends. Exit codes: 0 finished, 1 the job or the engine failed, 2
  the process could not begin.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from onceproof.engine.connectors.source import Source, SourceIdentity, SplitReader
from onceproof.engine.graph import JobGraph, JobVertex
from onceproof.engine.operators.base import Operator
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.protocol_points import COMMITTING
from onceproof.engine.runtime.job_identity import OtherProgram, check_identity, registered
from onceproof.engine.runtime.job_result import JobExecutionFailed
from onceproof.engine.runtime.job_startup import find_starting_point, resume_from_starting_point
from onceproof.engine.runtime.lease import JobLost
from onceproof.engine.runtime.local import LocalExecution
from onceproof.engine.runtime.mounted_storage import MountedStorage, open_storage
from onceproof.engine.runtime.recovery import RecoverableStorage, Recovered, recover
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.leaving_functions import changes_folder
from onceproof.harness.systems.local.observed_job import ObservedLocalExecution
from onceproof.harness.systems.local.unreliable_storage import (
    UnreliableObjects,
    UnreliableStorage,
    unreliable_storage,
)
from onceproof.harness.systems.process.job_assembly import Assembly
from onceproof.harness.systems.process.job_specification import Spec, read_spec
from onceproof.harness.systems.process.strike_requests import is_server_away
from onceproof.harness.systems.recording.event_log import (
    ERROR,
    JOB_FAILED,
    SERVER_AWAY,
    EventLog,
    ForkedEventLog,
)
from onceproof.harness.systems.recording.event_logging_driver import RunOver, log_error, log_process_start

_ENDS = ("/_metadata", "finished")


class Trial(NamedTuple):
    """A job that a process is about to run."""

    graph: JobGraph
    storage: MountedStorage
    files: UnreliableStorage | UnreliableObjects
    """Its own folder; no fault strikes it before it has a fault clock."""
    recovered: Recovered
    check_guard: Callable[[], None]
    """Checks that no other program goes on under the job's name."""


def begin(spec: Spec, log: EventLog, assembly: Assembly, locked: ExitStack) -> Trial | None:
    """Lock the job's folder, recover it and log that; None if the job has finished.

    ``locked`` keeps the folder locked.
    """
    if changes_folder(spec.faults):
        # The program is started beside its output, which it names by a relative path.
        os.chdir(Path(spec.output).parent)
    graph = assembly.graph(spec.parallelism)
    files = unreliable_storage(f"{spec.checkpoints}/{graph.job_id}")
    storage = MountedStorage(files)
    locked.enter_context(storage.exclusive())
    other = other_program(graph)
    # No fault strikes the questions of the harness.
    reliable = open_storage(storage.root)
    check_guard(reliable, graph, other)
    recovered = resume_from_starting_point(
        storage,
        recover(storage, spec.retained),
        partial(find_starting_point, storage),
        spec.retained,
        is_claimed=False,
    )
    if not log_process_start(log, recovered):
        return None
    return Trial(graph, storage, files, recovered, partial(check_guard, reliable, graph, other))


def finish(trial: Trial, execution: LocalExecution, log: EventLog) -> int:
    """Run the job to its end, and return the exit code."""
    try:
        registered(trial.graph, execution, trial.recovered.incarnation).run()
    except JobLost as error:
        # No job master has failed: what ends the run is that this process no longer has the job.
        log.write(JOB_FAILED, cause=str(error))
        return 1
    except (JobExecutionFailed, RunOver):
        return 1
    trial.check_guard()
    return 0


def run(spec: Spec, log: EventLog, locked: ExitStack) -> int:
    """Run the job to its end in this process, and return the exit code."""
    execution: ObservedLocalExecution | None = None

    def commit_fault(task: str) -> Fault | None:
        return None if execution is None else execution.fault_clock.other_at(COMMITTING, task, 0)

    assembly = Assembly(spec, log, commit_fault)
    trial = begin(spec, log, assembly, locked)
    if trial is None:
        return 0
    execution = ObservedLocalExecution(spec, assembly.graph, trial.storage, trial.recovered, log)
    trial.files.fault_clock = execution.fault_clock
    return finish(trial, execution, log)


def run_in_workers(spec: Spec, log: EventLog, locked: ExitStack) -> int:
    """Run the job to its end in workers, and return the exit code."""
    # They import what only jobs with workers need.
    from onceproof.harness.systems.local.kills import ProcessKills
    from onceproof.harness.systems.local.observed_workers import ObservedWorkersExecution
    from onceproof.harness.systems.process.fault_board import FaultBoard

    kills = ProcessKills(os.getpid(), spec.strikes, spec.output, spec.checkpoints)
    board = FaultBoard(spec.board, spec.faults, spec.in_turn, log, kills, spec.operations)
    board.begin()
    assembly = Assembly(spec, log, board.commit_fault)
    trial = begin(spec, log, assembly, locked)
    if trial is None:
        return 0
    execution = ObservedWorkersExecution(
        spec, assembly.graph, trial.storage, trial.files, trial.recovered, board
    )
    return finish(trial, execution, log)


def main(path: str) -> int:
    """Run the specification in a file, with its mutant if it names one. Return the exit code."""
    try:
        spec = read_spec(path)
        log = ForkedEventLog(spec.events) if spec.workers > 1 else EventLog(spec.events)
    except (OSError, ValueError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 2
    try:
        with ExitStack() as stack:
            if spec.mutant:
                from onceproof.harness.model.mutants import find_mutant

                stack.enter_context(find_mutant(spec.mutant, spec.mutant_file).applied())
            if spec.objects is not None:
                # It imports a client, which only some families need.
                from onceproof.harness.systems.process.object_io import reach_store

                reach_store(spec)
            return (run_in_workers if spec.workers > 1 else run)(spec, log, stack)
    except Exception as error:
        log_error(log, "process", error, SERVER_AWAY if is_server_away(error) else ERROR)
        return 1


class SecondProgramGoesOn(AssertionError):
    """Another program may go on from the checkpoints of the job."""


class OtherInput(Source):
    """A source of the job, as if it read something else."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def splits(self) -> Sequence[str]:
        """Return the splits of the job's source."""
        return self._source.splits()

    def open_split(self, split: str, position: Any | None) -> SplitReader:
        """Open a split of the job's source."""
        return self._source.open_split(split, position)

    def identity(self) -> SourceIdentity:
        """Return what no family reads."""
        return SourceIdentity("the input of another program")


def other_program(graph: JobGraph) -> JobGraph:
    """Return the job over another input."""
    return replace(graph, vertices=tuple([_over_other_input(vertex) for vertex in graph.vertices]))


def _over_other_input(vertex: JobVertex) -> JobVertex:
    if vertex.inputs:
        return vertex
    head, *chain = vertex.operators
    return replace(vertex, operators=(replace(head, create=partial(_other_source, head.create)), *chain))


def _other_source(create: Callable[[], Operator]) -> Operator:
    operator = create()
    if isinstance(operator, SourceOperator):
        operator.source = OtherInput(operator.source)
    return operator


def check_guard(storage: RecoverableStorage, own: JobGraph, other: JobGraph) -> None:
    """Check that a job is accepted under its name, and another program is not.

    Raises OtherProgram if the job itself is refused, and SecondProgramGoesOn.
    """
    check_identity(own, storage)
    if not any(path.endswith(_ENDS) for path in storage.list("")):
        return
    try:
        check_identity(other, storage)
    except OtherProgram:
        return
    raise SecondProgramGoesOn(f"another program resumes from the checkpoints of job {own.name!r}")


if __name__ == "__main__":
    # A crash of the interpreter names its place, also in workers, which inherit it.
    faulthandler.enable(all_threads=False)
    sys.exit(main(sys.argv[1]))
