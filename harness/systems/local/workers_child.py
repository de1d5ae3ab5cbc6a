"""The coordinator under trial: ``python -m onceproof.harness.systems.local.workers_child SPEC.json``.

The process is one incarnation of the job, with the workers that it forks, as `local_child.py` is one without.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from contextlib import ExitStack

from onceproof.harness.systems.local.local_child import begin, finish, main
from onceproof.harness.systems.local.observed_workers_job import ObservedWorkersExecution
from onceproof.harness.systems.local.process_kills import ProcessKills
from onceproof.harness.systems.process.fault_board import FaultBoard
from onceproof.harness.systems.process.job_assembly import Assembly
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.recording.event_log import EventLog, ForkedEventLog


def run(spec: Spec, log: EventLog, locked: ExitStack) -> int:
    """Run the job to its end in workers, and return the exit code."""
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


if __name__ == "__main__":
    # A crash of the interpreter names its place, also in workers, which inherit it.
    faulthandler.enable(all_threads=False)
    sys.exit(main(sys.argv[1], run, ForkedEventLog))
