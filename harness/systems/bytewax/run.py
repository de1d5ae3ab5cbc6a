"""The program of a driver under test: ``python -m ...bytewax.run FOLDER PACKAGES``.

The rules this module lives by:

- The process imports Bytewax once, from the folder with its packages, and forks the worker processes of one
  incarnation after another. It runs no thread and no worker of its own, so a fork of it is whole.
- An incarnation is a number of processes with the same number of workers each. Scenarios decide which of the
  two their parallelism is, and how many databases the recovery store has.
- When one process has ended with a failure, the others are given a moment, and ended: as by a supervisor,
  who starts all of them again.
- A flow that fails although no fault has struck since it was started has failed by itself.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Final

from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.services.service import free_port
from onceproof.harness.systems.kit.drivers import (
    UNREADABLE,
    ForkedKills,
    claim_standard_output,
    open_job,
    serve_jobs,
)
from onceproof.harness.systems.process.fault_board import FaultBoard
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.recording.event_log import EventLog, log_beside
from onceproof.harness.systems.recording.event_logging_driver import log_error, log_task_failure

MOST_DATABASES: Final = 3
_SECONDS_TO_END: Final = 1.0
"""How long the other processes of a flow may take to end after one of them has failed."""
_SECONDS_BETWEEN_LOOKS: Final = 0.002
_FAILED: Final = 1


def layout(spec: Spec) -> tuple[int, int]:
    """Return the number of processes, and of workers in each."""
    return (spec.parallelism, 1) if spec.source_parallelism % 2 == 0 else (1, spec.parallelism)


def run(spec: Spec, log: EventLog) -> int:
    """Run one incarnation of a flow until it is dead; the exit code of a process for it alone."""
    from bytewax.recovery import init_db_dir

    family = load_family(spec.family)
    store = Path(spec.checkpoints)
    if not any(store.iterdir()):
        init_db_dir(store, 1 + spec.max_parallelism % MOST_DATABASES)
    board = FaultBoard(spec.board, spec.faults, spec.in_turn, log, ForkedKills())
    board.begin()
    struck = board.state().struck
    processes, workers = layout(spec)
    addresses = _free_addresses(processes) if processes > 1 else []
    children = [_fork(family, spec, index, workers, addresses) for index in range(processes)]
    if not any(_codes(children)):
        log.write(event_log.JOB_FINISHED, points={})
        return 0
    return -signal.SIGKILL if board.state().struck > struck else _FAILED


def _fork(family: Family, spec: Spec, index: int, workers: int, addresses: list[str]) -> int:
    """Start a worker process; return its id."""
    child = os.fork()
    if child:
        return child
    code = _FAILED
    try:
        code = work(family, spec, index, workers, addresses)
    finally:
        os._exit(code)


def work(family: Family, spec: Spec, index: int, workers: int, addresses: list[str]) -> int:
    """Run the flow in this process; return its exit code."""
    from bytewax.recovery import RecoveryConfig
    from bytewax.run import cli_main

    from onceproof.harness.systems.bytewax.ends import build_flow
    from onceproof.harness.systems.bytewax.source import PACE

    log = log_beside(spec.events)
    board = FaultBoard(spec.board, spec.faults, spec.in_turn, log, ForkedKills())
    name = f"workers-{index}"
    board.tasks_live([name], "")
    struck = board.state().struck
    try:
        board("restoring", name, 0)
        flow, sink = build_flow(family, spec, board)
        cli_main(
            flow,
            workers_per_process=workers,
            process_id=index if addresses else None,
            addresses=addresses or None,
            epoch_interval=_epoch_interval(spec, PACE),
            recovery_config=RecoveryConfig(Path(spec.checkpoints)),
        )
        sink.finish()
    # A panic of Rust is no Exception.
    except BaseException as error:
        if board.state().struck > struck:
            log_task_failure(log, name, "", f"{type(error).__name__}: {error}"[:200], injected=True)
        else:
            log_error(log, name, _cause(error))
        return _FAILED
    return 0


def _cause(error: BaseException) -> BaseException:
    """Return the error that Bytewax has wrapped."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _epoch_interval(spec: Spec, pace: timedelta) -> timedelta:
    """Return the length of an epoch in which about as many records are read as between two checkpoints."""
    from onceproof.harness.systems.process.job_specification import read_records

    splits = sum(map(bool, read_records(spec.records).values()))
    return pace * max(1, spec.interval_records // max(1, splits))


def _free_addresses(number: int) -> list[str]:
    """Return addresses of this machine at which no process listens."""
    ports: dict[int, None] = {}
    while len(ports) < number:
        ports[free_port()] = None
    return [f"127.0.0.1:{port}" for port in ports]


def _codes(children: list[int]) -> list[int]:
    """Wait for worker processes; return their exit codes, negative for signals."""
    codes: dict[int, int] = {}
    ends_at = float("inf")
    while len(codes) < len(children):
        for child in [each for each in children if each not in codes]:
            ended, status = os.waitpid(child, os.WNOHANG)
            if not ended:
                continue
            codes[child] = os.waitstatus_to_exitcode(status)
            if codes[child]:
                ends_at = min(ends_at, time.monotonic() + _SECONDS_TO_END)
        if time.monotonic() > ends_at:
            for child in [each for each in children if each not in codes]:
                os.kill(child, signal.SIGKILL)
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    return [codes[child] for child in children]


def serve(path: str) -> int:
    """Run the incarnation of a specification file; return its exit code, 2 if the file cannot be read."""
    opened = open_job(path)
    if opened is None:
        return UNREADABLE
    spec, log = opened
    try:
        return run(spec, log)
    except Exception as error:
        log_error(log, "process", error)
        return _FAILED


def main(folder: str, packages: str) -> int:
    """Run flows until the standard input ends; return the exit code of the process."""
    answers = claim_standard_output()
    # Behind everything else: where a package is in both places, the harness's own is taken.
    sys.path.append(packages)
    try:
        # All imports of a worker: they are made once.
        import onceproof.harness.systems.bytewax.ends  # noqa: F401

        return serve_jobs(serve, answers)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
