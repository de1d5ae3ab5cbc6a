"""The process under trial: ``python -m onceproof.harness.systems.local.local_child SPEC.json``.

The rules this module lives by:

- One process is one incarnation of the job. It depends only on its specification and the job's folders, and
  may be killed at any instruction.
- The module imports little more than a production job would, because recovery time includes the imports.
- Each process keeps the job's record in the registry, and checks that another program under the job's name
  would be refused (second_program.py).
- Unless it is killed, the process logs why it ends. Exit codes: 0 finished, 1 the job or the engine failed, 2
  the process could not begin.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from onceproof.engine.graph import JobGraph
from onceproof.engine.protocol_points import COMMITTING
from onceproof.engine.runtime.job_identity import registered
from onceproof.engine.runtime.job_result import JobExecutionFailed
from onceproof.engine.runtime.job_startup import find_starting_point, resume_from_starting_point
from onceproof.engine.runtime.lease import JobLost
from onceproof.engine.runtime.local import LocalExecution
from onceproof.engine.runtime.mounted_storage import MountedStorage, open_storage
from onceproof.engine.runtime.recovery import Recovered, recover
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.leaving_functions import changes_folder
from onceproof.harness.systems.local.observed_local_job import ObservedLocalExecution
from onceproof.harness.systems.local.second_program import check_guard, other_program
from onceproof.harness.systems.local.unreliable_storage import (
    UnreliableObjects,
    UnreliableStorage,
    unreliable_storage,
)
from onceproof.harness.systems.process.job_assembly import Assembly
from onceproof.harness.systems.process.job_specification import Spec, read_spec
from onceproof.harness.systems.process.strike_requests import is_server_away
from onceproof.harness.systems.recording.event_log import ERROR, JOB_FAILED, SERVER_AWAY, EventLog
from onceproof.harness.systems.recording.event_logging_driver import RunOver, log_error, log_process_start


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


Run: TypeAlias = Callable[[Spec, Any, ExitStack], int]


def main(path: str, run: Run = run, log_of: Callable[[str], EventLog] = EventLog) -> int:
    """Run the specification in a file, with its mutant if it names one. Return the exit code."""
    try:
        spec = read_spec(path)
        log = log_of(spec.events)
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
            return run(spec, log, stack)
    except Exception as error:
        log_error(log, "process", error, SERVER_AWAY if is_server_away(error) else ERROR)
        return 1


if __name__ == "__main__":
    # A crash of the interpreter names its place, also in workers, which inherit it.
    faulthandler.enable(all_threads=False)
    sys.exit(main(sys.argv[1]))
