"""The program of a driver under test: ``python -m ...structured.run FOLDER``.

The rules this module lives by:

- The process starts Spark once and runs one query after another, with the protocol of `drivers.py`.
- Each query is one incarnation with its checkpoint location. If it fails after a fault struck, the process
  restarts it from there, as an operator would, with another number of partitions if the fault asked for it.
  If it fails without a fault, the run is over.
- A query that ends other than by a kill logs the reason first.
- Spark pickles a user's modules by value, because the workers cannot import from the user's folder.
- A user's query is looked at once, by a request in a file of its own, and run like that of a family. When it
  has ended, the driver says what it should have written.
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from onceproof import scenarios
from onceproof.engine.runtime.spark_session import SPARK_ERRORS, spark_session
from onceproof.harness.model.family import Family, source_file
from onceproof.harness.model.family_places import load_family
from onceproof.harness.systems.kit.drivers import (
    UNREADABLE,
    claim_standard_output,
    open_job,
    serve_jobs,
)
from onceproof.harness.systems.process.fault_board import FaultBoard
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.recording.event_logging_driver import log_error, log_task_failure
from onceproof.harness.systems.structured.ends import start
from onceproof.harness.systems.structured.history import ANSWERED, LOOKED, QUERY_STOPPED, look
from onceproof.harness.systems.structured.kills import (
    DRIVER,
    QueryRescaled,
    begin_query,
    query_board,
    wanted_partitions,
)
from onceproof.harness.systems.structured.output import batch_ends, finished_batches
from onceproof.harness.systems.structured.queries.query_answer import LOOK_SUFFIX
from onceproof.harness.systems.structured.queries.query_run import QueryRun, answer_look
from onceproof.harness.systems.structured.queries.user_query import user_query
from onceproof.harness.systems.structured.rescale import rescale_query
from onceproof.harness.systems.structured.sinks import RowSink
from onceproof.harness.systems.structured.source import RecordSource

SETTINGS: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # Otherwise timers and watermarks start batches without end.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # The lock of a dead task is released soon.
    "spark.sql.streaming.stateStore.rocksdb.lockAcquireTimeoutMs": "5000",
}


def run(spec: Spec, path: str, board: FaultBoard, session: SparkSession) -> int:
    """Go on with the query until its input is consumed; the exit code of a process for it alone."""
    query = user_query(spec.family, session)
    family = load_family(spec.family) if query is None else None
    _by_value(family)
    checkpoints = Path(spec.checkpoints)
    board.log.write(event_log.PROCESS_STARTED, found=[])
    while True:
        struck = board.state().struck
        partitions = _rescaled(spec, checkpoints, board, session)
        planned = batch_ends(checkpoints)
        board.log.write(
            event_log.ATTEMPT_STARTED,
            attempt=f"{os.getpid()}.{struck}",
            parallelism=partitions,
            restored=max(planned, default=-1) + 1 or None,
            over=len(finished_batches(checkpoints)),
        )
        try:
            board("restoring", DRIVER, 0)
            attempt = msgspec.structs.replace(spec, parallelism=partitions)
            if query is not None:
                of_user = QueryRun(query, attempt, path, session)
                of_user.start(os.getpid(), board).awaitTermination()
            elif family is not None:
                start(family, attempt, path, session, board).awaitTermination()
        except Exception as error:
            board.log.write(LOOKED, **look(spec))
            if QueryRescaled.__name__ in str(error):
                board.log.write(QUERY_STOPPED)
            elif board.state().struck == struck:
                log_error(board.log, "query", error)
                return 1
            else:
                log_task_failure(board.log, "query", "", str(error)[:200], injected=True)
        else:
            board.log.write(LOOKED, **look(spec))
            if query is not None:
                board.log.write(ANSWERED, answer=msgspec.to_builtins(of_user.answer(os.getpid())))
            board.log.write(event_log.JOB_FINISHED, points={})
            return 0
        finally:
            _stop_all(session)


def _rescaled(spec: Spec, checkpoints: Path, board: FaultBoard, session: SparkSession) -> int:
    """Deal state out anew where that was asked for and can be done; return with how many partitions."""
    before = batch_ends(checkpoints)
    partitions, is_refused = rescale_query(session, checkpoints, wanted_partitions(board, spec), board.log)
    begin_query(board, partitions, is_refused)
    if batch_ends(checkpoints) != before:
        board.log.write(LOOKED, **look(spec))
    return partitions


def _stop_all(session: SparkSession) -> None:
    for query in session.streams.active:
        with suppress(*SPARK_ERRORS):
            query.stop()


def _by_value(family: Family | None) -> None:
    """Register the modules in a user's folder to be pickled by value."""
    file = None if family is None else source_file(family)
    if file is None or Path(file).is_relative_to(scenarios.__path__[0]):
        return
    folder = Path(file).absolute().parent
    for module in list(sys.modules.values()):
        beside = getattr(module, "__dict__", {}).get("__file__")
        if beside and Path(beside).absolute().parent == folder:
            cloudpickle.register_pickle_by_value(module)


def serve(path: str, session: SparkSession) -> int:
    """Run the query of a specification file; return its exit code, 2 if the file cannot be read."""
    if path.endswith(LOOK_SUFFIX):
        return answer_look(Path(path), session)
    opened = open_job(path)
    if opened is None:
        return UNREADABLE
    spec, log = opened
    try:
        return run(spec, path, query_board(spec, os.getpid(), log), session)
    except Exception as error:
        log_error(log, "process", error)
        return 1


def main(folder: str) -> int:
    """Run queries until the standard input ends; return the exit code of the process."""
    answers = claim_standard_output()
    try:
        with spark_session(name="onceproof structured streaming", configuration=SETTINGS) as session:
            session.dataSource.register(RecordSource)
            session.dataSource.register(RowSink)
            is_over = session.sparkContext._jsc.sc().isStopped
            return serve_jobs(lambda path: serve(path, session), answers, is_over)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
