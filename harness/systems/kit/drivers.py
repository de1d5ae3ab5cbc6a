"""Drivers under test: processes that run one job after another, in processes which they start.

Rules:

- A driver takes seconds to start, so it runs one job after another until it is killed. If a fault of a
  scenario will kill it, the pool starts the next driver beforehand.
- A driver and its child processes form one operating system session. After the driver's death the rest of the
  session is killed, and the next incarnation waits until no process of it is left; otherwise late writes of
  its Java or its workers would count for that incarnation. No other process belongs to the session.
- The protocol is lines: the parent writes the path of a specification; the driver writes when it is ready,
  and then one line for each job, with its exit code. It writes nothing else to that pipe: the standard output
  of jobs goes to the standard error, which is a log. Temporary files go to a folder that is deleted at its
  end.
- A driver ends when its standard input ends, that is with its parent; when it can run no other job; or when
  its Java was killed, which only its exit code says.
- Points are counted on the fault board of the run, which the driver shares with its workers.
- Where a driver of the harness forks workers, as for Bytewax and Quix, a kill of a task is SIGKILL to the
  process of the worker that passes the point. Workers of one process are threads, and die together. Any other
  kill is SIGKILL to all worker processes. The driver lives on, and waits for them.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, TextIO
from weakref import finalize

import msgspec

from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.kit.incarnations import Ending, JobRun, last_line
from onceproof.harness.systems.kit.patience import Patience, bytes_logged
from onceproof.harness.systems.process.fault_board import BoardFile, BoardState, FaultBoard, Kills
from onceproof.harness.systems.process.job_specification import Spec, read_spec
from onceproof.harness.systems.process.process_table import end_session
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.recording.event_log import EventLog, read_all_events

JAVA_DIED: Final = 70
"""Exit code of a driver whose Java was killed."""

READY: Final = "ready"
ENDED: Final = "ended"

_LONGEST_FOLDER: Final = 30
"""Spark makes sockets below the folder for temporary files, and paths of sockets must be short."""
_SECONDS_TO_START: Final = 240.0


class DriverFailed(Exception):
    """A driver did not start, or its processes do not die; the message is one line."""


class Answer(NamedTuple):
    """The result of a job on a driver."""

    code: int
    """Exit code of the job; of the driver if that died."""
    in_time: bool


class Driver:
    """One driver process. The constructor starts it; ``run`` waits until it is ready."""

    def __init__(self, child: str, *arguments: str) -> None:
        """Start the module ``child`` with its folder and further arguments."""
        self.folder = Path(_short_folder())
        """The driver's log and temporary files."""
        self._log = self.folder / "log"
        self._ready = False
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                # -P: a json.py in the working directory must not stand in for Python's.
                [sys.executable, "-P", "-m", child, str(self.folder), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "TMPDIR": str(self.folder)},
                start_new_session=True,
            )
        self._finalizer = finalize(self, _finish, self._process, self.folder)

    @property
    def process_id(self) -> int:
        """Process id of the driver, which is also its session id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Wait until the driver can take a job. Raises DriverFailed if it does not start."""
        if self._ready:
            return
        line, _ = self._read_line(Patience(_SECONDS_TO_START))
        if line != READY:
            reason = last_line(self._log)
            self.end()
            raise DriverFailed(f"the driver process did not start: {reason}")
        self._ready = True

    def run(self, specification: Path, patience: Patience) -> Answer:
        """Run the job of a specification file; a driver whose time is over is killed.

        If the driver dies, all processes of its session are dead when this method returns.
        """
        self.wait_until_ready()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{specification}\n".encode())
            self._process.stdin.flush()
        line, in_time = self._read_line(patience)
        word, _, code = line.partition(" ")
        if word == ENDED and in_time:
            return Answer(int(code), in_time)
        self._process.wait()
        end_session(self.process_id)
        return Answer(self._process.returncode, in_time)

    def last_words(self) -> str:
        """Return the last line of the driver's log; a driver that ended normally has deleted it."""
        return last_line(self._log) if self._log.exists() else "it ended by itself"

    def end(self) -> None:
        """Kill the process and its session, and delete its folder."""
        self._finalizer()

    def _read_line(self, patience: Patience) -> tuple[str, bool]:
        """Return the driver's next line, empty if it died, and whether it came in time."""
        assert self._process.stdout is not None
        with patience.ended_by(self._process.kill) as is_in_time:
            line = self._process.stdout.readline()
        return line.decode().strip(), is_in_time()


def _finish(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Kill a driver and delete its folder; also runs at the end of this process."""
    process.kill()
    end_session(process.pid)
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(BrokenPipeError):
                stream.close()
    shutil.rmtree(folder, ignore_errors=True)


def _short_folder() -> str:
    here = tempfile.gettempdir()
    return tempfile.mkdtemp(prefix="once-", dir=here if len(here) < _LONGEST_FOLDER - 15 else "/tmp")


class Drivers:
    """The drivers of one system; ``start`` starts a new one."""

    def __init__(self, start: Callable[[], Driver]) -> None:
        self._start = start
        self._idle: deque[Driver] = deque()

    def take(self) -> Driver:
        """Return a living driver, which may still be starting."""
        while self._idle:
            driver = self._idle.popleft()
            if driver.is_alive:
                return driver
            driver.end()
        return self._start()

    def give_back(self, driver: Driver) -> None:
        """Return a driver to the pool after its job; clean up after a dead one."""
        if driver.is_alive:
            self._idle.append(driver)
        else:
            driver.end()

    def prepare(self) -> None:
        """Start a driver if none is idle."""
        if not self._idle:
            self._idle.append(self._start())

    @property
    def idle(self) -> int:
        """Number of idle drivers."""
        return len(self._idle)

    def close(self) -> None:
        """End all idle drivers."""
        while self._idle:
            self._idle.popleft().end()


@dataclass(slots=True)
class DriverRun(JobRun):
    """The run of one job, whose incarnations are driver processes."""

    deaths: ClassVar[frozenset[int]] = frozenset({-signal.SIGKILL})
    """Exit codes of a driver that was killed."""

    drivers: Drivers = field(kw_only=True)
    process_seconds: float = field(kw_only=True)
    is_forked: bool = field(default=False, kw_only=True)
    """Whether the processes that faults kill are forks of the driver, which lives on."""

    def kills_driver(self, fault: Fault) -> bool:
        """Return whether the driver dies of a fault."""
        return FAULTS[fault.kind].strikes == "process" and not self.is_forked

    def deaths_to_come(self) -> int:
        """Return how many faults still wait that kill a driver."""
        waiting = BoardFile(self.spec.board).read().waiting
        return sum(
            waiting.waits_for(number) and self.kills_driver(fault)
            for number, fault in enumerate(self.spec.faults)
        )

    def needs_another_driver(self) -> bool:
        """Return whether the driver that is about to start will die, and another one will go on."""
        return self.deaths_to_come() > 0

    def run(self) -> History:
        """Run the job on one driver after another until it has ended, and return its history."""
        board = self.folder / "faults.json"
        self.spec = msgspec.structs.replace(self.spec, board=str(board))
        # super() without arguments fails here, because dataclass(slots=True) creates a new class.
        history = JobRun.run(self)
        history.statistics.points = dict(BoardFile(board).read().points)
        return history

    def live(self, number: int, path: Path) -> Ending:
        """Run the job on one driver until it ends or the driver dies."""
        driver = self.drivers.take()
        begun = time.monotonic()
        driver.wait_until_ready()
        self.waited_seconds += time.monotonic() - begun
        if self.needs_another_driver():
            self.drivers.prepare()
        try:
            log = self.events_path(number)
            answer = driver.run(path, Patience(self.process_seconds, lambda: bytes_logged(log)))
            at = time.monotonic_ns()
            last_words = f"exit code {answer.code}: {driver.last_words()}"
        except BaseException:
            driver.end()
            raise
        self.drivers.give_back(driver)
        return Ending(
            at=at,
            was_killed=answer.code in self.deaths,
            in_time=answer.in_time,
            events=read_all_events(log),
            last_words=last_words,
        )


UNREADABLE: Final = 2
"""Exit code of a job whose specification cannot be read."""


def claim_standard_output() -> TextIO:
    """Return the pipe to the parent; from now on the standard output goes to the standard error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


def open_job(path: str) -> tuple[Spec, EventLog] | None:
    """Return a specification and its event log; None if one cannot be opened, with a line in the log."""
    try:
        spec = read_spec(path)
        return spec, EventLog(spec.events)
    except (OSError, ValueError) as error:
        print(f"{path}: {error}", file=sys.stderr, flush=True)
        return None


def serve_jobs(
    serve: Callable[[str], int], answers: TextIO, is_over: Callable[[], bool] = lambda: False
) -> int:
    """Call ``serve`` with the path of each job until the driver ends; return the driver's exit code.

    ``is_over`` is asked after each job whether the driver can run no other.
    """
    print(READY, file=answers, flush=True)
    for line in sys.stdin:
        code = serve(line.rstrip("\n"))
        if code == JAVA_DIED:
            return code
        print(ENDED, code, file=answers, flush=True)
        if is_over():
            break
    return 0


@dataclass(frozen=True)
class ForkedKills(Kills):
    """The kills of the workers of one job."""

    def parallelism_after(self, fault: Fault) -> int:
        """Return 0: all processes end, and the next ones start in another number."""
        return 0

    def strike(
        self, board: FaultBoard, fault: Fault, task: str, checkpoint_id: int, state: BoardState
    ) -> Callable[[], None] | None:
        """Kill the process of the worker that passes the point, or all of them."""
        row = FAULTS[fault.kind]
        if not row.is_kill:
            return None
        processes = {os.getpid()}
        if not row.kills_tasks or row.victims != "passing":
            processes.update([each.process for each in state.living])
        board.kill(processes, state, event_log.TASK_FAILED)
        return None
