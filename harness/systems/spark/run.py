"""The program of a driver under test: ``python -m ...run FOLDER MUTANT MUTANT_FILE MASTER``.

Rules:

- The process starts Spark once and runs one job after another. Each line of the standard input is the path of
  a specification. The process writes a line when it is ready and after each job; all other output goes to the
  standard error.
- Each job is one incarnation. Its specification and its checkpoint directory are its only input, because the
  process may be killed at any instruction.
- A job that ends other than by a kill logs the reason first.
- The process ends when its standard input ends or when Spark has stopped, and deletes its folder. If its Java
  was killed, only its exit code says so; the next driver continues.
- A planted bug is applied here and in the daemon from which Spark forks the workers.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from pathlib import Path
from typing import Final

from pyspark import SparkContext

from onceproof.engine.protocol_points import COORDINATOR
from onceproof.engine.runtime.java import find_java
from onceproof.engine.runtime.job_result import JobExecutionFailed
from onceproof.engine.runtime.mounted_storage import MountedStorage
from onceproof.engine.runtime.recovery import RecoverableStorage, Recovered, recover
from onceproof.engine.runtime.spark.target import spark_storage
from onceproof.engine.runtime.spark_executors import TIMEOUT
from onceproof.engine.runtime.spark_session import spark_context
from onceproof.engine.runtime.spark_settings import settings_on_this_machine
from onceproof.harness.systems.kit.drivers import (
    JAVA_DIED,
    UNREADABLE,
    claim_standard_output,
    open_job,
    serve_jobs,
)
from onceproof.harness.systems.process.fault_board import FaultBoard
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.recording.event_logging_driver import RunOver, log_error, log_process_start
from onceproof.harness.systems.spark.cluster import (
    SETTINGS,
    STANDALONE_MASTER,
    YARN_MASTER,
    start_standalone,
    start_yarn,
)
from onceproof.harness.systems.spark.daemon import DAEMON, planted, variables
from onceproof.harness.systems.spark.kills import WorkerKills
from onceproof.harness.systems.spark.observed_job import ObservedSparkExecution
from onceproof.harness.systems.spark.observed_subtask import FaultyStorage, RefusedByFault, assembly_of

PATIENCE: Final = "10 min"
"""How long a job on a cluster waits for an executor."""
SECONDS_BETWEEN_LOOKS: Final = 0.005
"""Polling interval for faults with a delay."""


def run(spec: Spec, board: FaultBoard, context: SparkContext) -> int:
    """Run the job until it has ended; return 0 if it finished, 1 if it failed."""
    board.begin()
    graph = assembly_of(spec, board).graph(spec.parallelism)
    storage = MountedStorage(FaultyStorage(spark_storage(graph).root, board, COORDINATOR))
    with storage.exclusive():
        recovered = claimed(storage, spec.retained)
        if not log_process_start(board.log, recovered):
            return 0
        execution = ObservedSparkExecution(spec, graph, context, storage, recovered, board)
        try:
            execution.run()
        except (JobExecutionFailed, RunOver):
            return 1
    return 0


def claimed(storage: RecoverableStorage, retained: int) -> Recovered:
    """Claim the job and recover its checkpoints; retry while an injected fault refuses writes."""
    while True:
        try:
            return recover(storage, retained)
        except RefusedByFault:
            continue


def strike_late(board: FaultBoard, over: threading.Event) -> None:
    """Trigger faults with a delay when they are due, until the job is over."""
    while not over.wait(SECONDS_BETWEEN_LOOKS):
        board.strike_late()


def serve(path: str, context: SparkContext) -> int:
    """Run the job of a specification file; return its exit code, 2 if the file cannot be read."""
    opened = open_job(path)
    if opened is None:
        return UNREADABLE
    spec, log = opened
    assert context._gateway is not None
    java = context._gateway.proc.pid
    kills = WorkerKills(os.getpid(), java, os.environ.get("TMPDIR", ""))
    board = FaultBoard(spec.board, spec.faults, spec.in_turn, log, kills)
    over = threading.Event()
    if board.has_late_faults:
        threading.Thread(target=strike_late, args=(board, over), daemon=True).start()
    try:
        code = run(spec, board, context)
    except Exception as error:
        code = 1
        if not board.state().java_is_dead:
            log_error(log, "process", error)
    finally:
        over.set()
    return JAVA_DIED if board.state().java_is_dead else code


def main(folder: str, mutant: str, mutant_file: str, master: str) -> int:
    """Run jobs until the standard input ends; return the exit code of the process."""
    answers = claim_standard_output()
    configuration = {"spark.python.daemon.module": DAEMON}
    # Separate executor processes import modules only from the given python path.
    python_path = [Path(each) for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    for name, value in variables(mutant, mutant_file).items():
        configuration[f"spark.executorEnv.{name}"] = value
    try:
        if master in (STANDALONE_MASTER, YARN_MASTER):
            configuration |= settings_on_this_machine(find_java(os.environ), Path(folder))
            # Executors that a fault has killed come back in the time that a loaded machine needs.
            configuration[TIMEOUT] = PATIENCE
        if master == STANDALONE_MASTER:
            master = start_standalone(Path(folder))
            configuration |= SETTINGS
        elif master == YARN_MASTER:
            configuration |= start_yarn(Path(folder))
        with (
            planted(mutant, mutant_file),
            spark_context(master, "onceproof trial", configuration, python_path) as context,
        ):
            return serve_jobs(lambda path: serve(path, context), answers, context._jsc.sc().isStopped)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
