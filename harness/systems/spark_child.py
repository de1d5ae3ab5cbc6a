"""The driver under trial: ``python -m harness.systems.spark_child FOLDER MUTANT MUTANT_FILE MASTER``.

The rules this module lives by:

- It starts Spark once and then runs one job after another, each by a specification whose path comes as a line
  on the standard input. It answers with a line when it is ready, and when a job has ended; all that anybody
  prints goes to the standard error.
- Each job is one incarnation, told everything by its specification and its checkpoint directory. The process
  may be killed at any instruction, and takes all that it knows with it.
- Whatever ends a job other than a kill is told in the log before it ends.
- It ends when its standard input does, or when Spark has gone, and leaves nothing of its folder.
- The bug to plant is planted here, and in the process from which all workers are forked.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from pyspark import SparkContext

from engine.protocol_points import COORDINATOR
from engine.runtime.recovery import recover
from engine.runtime.result import JobExecutionFailed
from engine.runtime.spark.folder import spark_storage
from engine.runtime.spark_session import spark_context
from harness.systems.event_log import EventLog
from harness.systems.fault_board import FaultBoard
from harness.systems.spark_daemon import DAEMON, planted, variables
from harness.systems.spark_driver import ENDED, READY
from harness.systems.spark_observed import ObservedSparkExecution
from harness.systems.spark_subtask import FaultyStorage, assembly_of
from harness.systems.spec import Spec, read_spec
from harness.systems.told import RunOver, say_error, say_started


def run(spec: Spec, board: FaultBoard, context: SparkContext) -> int:
    """Go on with the job until it has ended; the exit code that a process for it alone would have."""
    board.begin()
    graph = assembly_of(spec, board).graph(spec.parallelism)
    storage = FaultyStorage(spark_storage(graph).root, board, COORDINATOR)
    with storage.exclusive():
        recovered = recover(storage, spec.retained)
        if not say_started(board.log, recovered):
            return 0
        execution = ObservedSparkExecution(spec, graph, context, storage, recovered, board)
        try:
            execution.run()
        except (JobExecutionFailed, RunOver):
            return 1
    return 0


def serve(path: str, context: SparkContext) -> int:
    """Do what the specification in a file says."""
    try:
        spec = read_spec(path)
        log = EventLog(spec.events)
    except (OSError, ValueError) as error:
        print(f"{path}: {error}", file=sys.stderr, flush=True)
        return 2
    board = FaultBoard(spec.board, spec.faults, spec.in_turn, os.getpid(), log)
    try:
        return run(spec, board, context)
    except Exception as error:
        say_error(log, "process", error)
        return 1


def main(folder: str, mutant: str, mutant_file: str, master: str) -> int:
    """Serve until the standard input ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    configuration = {"spark.python.daemon.module": DAEMON}
    # Executors that are processes of their own look for modules where they are told to, and nowhere else.
    python_path = [Path(each) for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    for name, value in variables(mutant, mutant_file).items():
        configuration[f"spark.executorEnv.{name}"] = value
    try:
        with (
            planted(mutant, mutant_file),
            spark_context(master, "onceproof trial", configuration, python_path) as context,
        ):
            print(READY, file=answers, flush=True)
            for line in sys.stdin:
                code = serve(line.rstrip("\n"), context)
                print(ENDED, code, file=answers, flush=True)
                if context._jsc.sc().isStopped():
                    break
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
