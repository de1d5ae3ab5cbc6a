"""The program of a driver under test: ``python -m ...quix.run FOLDER PACKAGES``.

The rules this module lives by:

- The process imports Quix Streams once, from the folder with its packages, and forks the workers of one
  application after another. It runs no client of Kafka itself, so a fork of it is whole.
- It is the supervisor of an application: a worker that dies is started again at once, while the others go
  on. Each start is an attempt. A kill with a rescale is followed by another number of workers; those that are
  too many are ended in order.
- A kill of the process is one of its machine: the states on the disks of all workers are gone, and come from
  the changelog topics. A kill of all tasks, or of one, leaves them.
- An application that fails although no fault has struck has failed by itself. So has one that fails of
  something else than Kafka or the fault. One that fails again and again without a fault has given up.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Final

from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.injected_error import InjectedError
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.kit.drivers import (
    UNREADABLE,
    ForkedKills,
    claim_standard_output,
    open_job,
    serve_jobs,
)
from onceproof.harness.systems.process.fault_actions import send
from onceproof.harness.systems.process.fault_board import FaultBoard
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.quix.events import WORKERS_STARTED, worker_name
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.recording.event_log import EventLog, log_beside
from onceproof.harness.systems.recording.event_logging_driver import log_error, log_task_failure

_FAILED: Final = 1
_FAILED_OF_A_FAULT: Final = 3
MOST_FAILURES: Final = 10
"""As often, workers may fail without a new fault; each is started again."""
_SECONDS_TO_STOP: Final = 20.0
_SECONDS_BETWEEN_LOOKS: Final = 0.005
_SECONDS_BEFORE_RESTART: Final = 0.2
"""Behind a failure of which a supervisor does not know when it is mended."""


class Failed(Exception):
    """The application has failed; the log says why."""


class Supervisor:
    """Starts the workers of one application, and starts them again until all input is processed."""

    def __init__(self, family: Family, spec: Spec, log: EventLog) -> None:
        self._family = family
        self._spec = spec
        self._log = log
        self._board = FaultBoard(spec.board, spec.faults, spec.in_turn, log, ForkedKills())
        self._workers: dict[int, int] = {}
        """By index, the process of each living worker."""
        self._parallelism = spec.parallelism
        self._attempt = 0
        self._struck: set[int] = set()
        """The numbers of the faults that have struck so far."""
        self._failures = 0
        """How many since the last strike."""

    def run(self) -> int:
        """Run the application; return the exit code of a process for it alone."""
        self._board.begin()
        watch = 0
        try:
            if self._to_end(_forked(self._prepare)):
                return _FAILED
            self._start_missing()
            watch = _forked(self._watch)
            while not (over := _ended(watch)):
                self._look_after_workers()
                time.sleep(_SECONDS_BETWEEN_LOOKS)
            watch = 0
            if over[0] < 0:
                error = ChildProcessError(f"the process that asks the broker was killed by signal {-over[0]}")
                log_error(self._log, "watch", error)
            if over[0]:
                return _FAILED
            self._stop(list(self._workers))
            self._log.write(event_log.JOB_FINISHED, points={})
            return 0
        except Failed:
            return _FAILED
        finally:
            for process in filter(None, (watch, *self._workers.values())):
                send(process)
                os.waitpid(process, 0)

    # The workers.

    def _start_missing(self, by_supervisor: bool = False) -> None:
        """Begin an attempt: start the workers that do not live.

        ``by_supervisor``: they have failed by themselves after a fault, and no further one has struck.
        """
        self._attempt += 1
        missing = [index for index in range(self._parallelism) if index not in self._workers]
        self._log.write(
            WORKERS_STARTED,
            attempt=self._attempt,
            parallelism=self._parallelism,
            workers=[worker_name(index) for index in missing],
            by_supervisor=by_supervisor,
        )
        for index in missing:
            self._workers[index] = _forked(partial(self._work, index))

    def _look_after_workers(self) -> None:
        """Take note of workers that have died, and start them again."""
        dead = self._reaped()
        if not dead:
            return
        faults = self._new_strikes()
        for fault in faults:
            self._failures = 0
            self._parallelism = fault.rescale_to or self._parallelism
            row = FAULTS[fault.kind]
            if row.is_kill and not (row.kills_tasks and row.victims == "passing"):
                # One that has begun a moment ago may not be known to the process that was struck.
                self._kill_all()
            if row.strikes == "process":
                shutil.rmtree(self._spec.checkpoints, ignore_errors=True)
        for code in dead.values():
            if code == _FAILED:
                raise Failed
            self._failures += not faults
        if self._failures > MOST_FAILURES:
            self._log.write(
                event_log.JOB_FAILED, cause=f"workers have failed {self._failures} times in a row"
            )
            raise Failed
        if not faults:
            time.sleep(_SECONDS_BEFORE_RESTART)
        self._stop([index for index in self._workers if index >= self._parallelism])
        self._start_missing(by_supervisor=not faults and bool(self._struck))

    def _reaped(self) -> dict[int, int]:
        """Return by index the exit codes of workers that have died, which are forgotten."""
        dead = {}
        for index, process in list(self._workers.items()):
            if ended := _ended(process):
                dead[index] = ended[0]
                del self._workers[index]
                if ended[0] not in (-signal.SIGKILL, _FAILED, _FAILED_OF_A_FAULT):
                    # A process that crashes in C logs nothing.
                    cause = f"killed by signal {-ended[0]}" if ended[0] else "it ended by itself"
                    was_struck = self._board.state().struck > 0
                    log_task_failure(self._log, worker_name(index), "", cause, injected=was_struck)
        return dead

    def _new_strikes(self) -> list[Fault]:
        """Return the faults that have struck since this was asked last."""
        waiting = self._board.state().waiting
        later = {number for number, _, _ in waiting.striking}
        struck = {number for number, left in enumerate(waiting.left) if not left and number not in later}
        new, self._struck = struck - self._struck, struck
        return [self._spec.faults[number] for number in sorted(new)]

    def _kill_all(self) -> None:
        for index, process in list(self._workers.items()):
            send(process)
            os.waitpid(process, 0)
            del self._workers[index]

    def _stop(self, indexes: list[int]) -> None:
        """End workers in order. Raises Failed where one does not end."""
        processes = {index: self._workers.pop(index) for index in indexes}
        for process in processes.values():
            send(process, signal.SIGTERM)
        deadline = time.monotonic() + _SECONDS_TO_STOP
        while processes:
            for index, process in list(processes.items()):
                if ended := _ended(process):
                    del processes[index]
                    if ended[0] == _FAILED:
                        raise Failed
                elif time.monotonic() > deadline:
                    send(process)
                    error = TimeoutError(
                        f"{worker_name(index)} does not end {_SECONDS_TO_STOP:.0f} s after SIGTERM"
                    )
                    log_error(self._log, worker_name(index), error)
            time.sleep(_SECONDS_BETWEEN_LOOKS)

    @staticmethod
    def _to_end(process: int) -> int:
        """Wait for a process; return its exit code."""
        _, status = os.waitpid(process, 0)
        return os.waitstatus_to_exitcode(status)

    # In processes of their own.

    def _prepare(self) -> int:
        """Make the topics of the application: its workers would make them at the same time."""
        return self._with_app(0, 0, runs=False)

    def _work(self, index: int) -> int:
        """Run a worker."""
        return self._with_app(self._attempt, index, runs=True)

    def _with_app(self, attempt: int, index: int, runs: bool) -> int:
        from onceproof.harness.systems.quix.ends import build_app_in_time
        from onceproof.harness.systems.quix.probe import AppProbe

        spec, name = self._spec, worker_name(index)
        assert spec.kafka is not None, "an application lives between topics"
        log = log_beside(spec.events)
        board = FaultBoard(spec.board, spec.faults, spec.in_turn, log, ForkedKills())
        probe = AppProbe(board, spec.kafka, attempt, index)
        try:
            if runs:
                board.tasks_live([name], "")
                board("restoring", name, 0)
            app = build_app_in_time(self._family, spec, index, probe)
            if runs:
                with probe.watching():
                    app.run()
        except BaseException as error:
            if board.state().struck and _is_of_kafka(error):
                text = f"{type(error).__name__}: {error}"
                log_task_failure(log, name, "", text[:200], injected=True)
                return _FAILED_OF_A_FAULT
            log_error(log, name, error)
            return _FAILED
        return 0

    def _watch(self) -> int:
        from onceproof.harness.systems.quix.watch import wait_until_processed

        assert self._spec.kafka is not None, "an application lives between topics"
        try:
            wait_until_processed(self._spec.kafka)
        except BaseException as error:
            log_error(log_beside(self._spec.events), "watch", error)
            return _FAILED
        return 0


def _is_of_kafka(error: BaseException) -> bool:
    """Return whether an error can follow from a fault: the fault's own, or one of Kafka or Quix Streams."""
    module = type(error).__module__
    return isinstance(error, InjectedError) or module.partition(".")[0] in (
        "cimpl",
        "confluent_kafka",
        "quixstreams",
    )


def _forked(action: Callable[[], int]) -> int:
    """Call a function in a new process, whose exit code it returns; return the id of the process."""
    child = os.fork()
    if child:
        return child
    code = _FAILED
    try:
        code = action()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _ended(process: int) -> tuple[int] | None:
    """Return the exit code of a process, negative for signals; None while it lives."""
    ended, status = os.waitpid(process, os.WNOHANG)
    return (os.waitstatus_to_exitcode(status),) if ended else None


def serve(path: str) -> int:
    """Run the application of a specification file; return its exit code, 2 if the file cannot be read."""
    opened = open_job(path)
    if opened is None:
        return UNREADABLE
    spec, log = opened
    try:
        return Supervisor(load_family(spec.family), spec, log).run()
    except Exception as error:
        log_error(log, "process", error)
        return _FAILED


def main(folder: str, packages: str) -> int:
    """Run applications until the standard input ends; return the exit code of the process."""
    answers = claim_standard_output()
    # Before everything else: Quix Streams runs with the client of Kafka that it asks for.
    sys.path.insert(0, packages)
    try:
        # All imports of a worker: they are made once.
        import onceproof.harness.systems.quix.ends
        import onceproof.harness.systems.quix.watch  # noqa: F401

        return serve_jobs(serve, answers)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
