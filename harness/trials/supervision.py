"""The watch over a process that runs scenarios: which one it runs, its budget, and how it ended.

The rules this module lives by:

- The process notes the number of each scenario before it begins, in memory that its parent shares. So
  whatever ends the process, the parent knows the culprit, and a note costs a few microseconds.
- A scenario that does not return is stopped in its process first (stopping.py). What follows is for code that
  never returns to Python, such as an extension.
- The operating system enforces the budget: RLIMIT_CPU ends a scenario that computes forever, and RLIMIT_DATA
  makes an allocation fail before the machine is out of memory. Processor time does not depend on the load of
  the machine.
- Only a scenario that neither ends nor computes is seen by the clock alone. A process that a
  user has stopped is waited for.
- faulthandler writes the stack of a process that is about to die. Its last lines become a part of the
  failure.
- A budget is for simulated scenarios. Those of real processes wait for others, and have limits of their own.
"""

from __future__ import annotations

import faulthandler
import mmap
import os
import re
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import msgspec

from onceproof.harness.checkers import Violation
from onceproof.harness.checkers.no_error import NoError
from onceproof.harness.checkers.outcome import Outcome, outcome_of
from onceproof.harness.checkers.verdict import Verdict
from onceproof.harness.generation.generator import generator_version
from onceproof.harness.model.family import Family
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Scenario, Schedule
from onceproof.harness.model.step_limits import MEMORY_MB, Budget
from onceproof.harness.systems.simulation.stopping import (
    COMPUTES,
    EXCEEDS,
    STACK_LINES,
    STILL,
    WAITS,
    WALL_FACTOR,
    Stopped,
)

SECONDS_TO_DIE: Final = 5.0
"""How long a scenario has to return after its time, and then its process to write its stack."""
GENERATE: Final = "generate()"

IDLE: Final = -1
GENERATING: Final = 0
RUNNING: Final = 1

_LAYOUT: Final = struct.Struct("<qqd")
_FRAME: Final = re.compile(r'  File "(.*)", line (\d+) in (.*)')

FROM_OUTSIDE: Final = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""The signals that another process may have sent. A death by one of them does not show who is to blame."""


class Lost(msgspec.Struct, frozen=True):
    """A scenario that gave no outcome, because it ended its process or exceeded its budget."""

    place: int
    """Its place in the batch."""
    anomaly: str
    """What happened, without numbers of a run: a part of the signature."""
    is_generated: bool
    """Whether ``generate`` had returned."""
    stack: tuple[str, ...] = ()
    """The innermost frames, as far as they are known, the innermost first."""
    operator: str = ""
    """The operator that ran, if it is known."""

    @property
    def during(self) -> str:
        """What was going on, for messages."""
        return "its run" if self.is_generated else GENERATE


def lost_by(stopped: Stopped, is_generated: bool, place: int = 0) -> Lost:
    """Return a scenario that was stopped in this process."""
    return Lost(place, stopped.anomaly, is_generated, stopped.stack, stopped.operator)


def lost_outcome(family: Family, seed: int, lost: Lost) -> Outcome:
    """Return the outcome of a scenario that gave none. No code of the family runs: it would do so again."""
    return outcome_of(without_records(family, seed), *judged_lost(lost))


def judged_lost(lost: Lost) -> tuple[History, Verdict]:
    """Return the history and the verdict of a scenario that gave no outcome."""
    witness: dict[str, Any] = {"during": lost.during, "stack": list(lost.stack)}
    if lost.operator:
        witness["operator"] = lost.operator
    history = History()
    history.trace_hash = blake2b(f"{lost.during} {lost.anomaly}".encode(), digest_size=16).hexdigest()
    return history, Verdict((Violation(NoError.property, lost.anomaly, lost.during, witness),))


def is_lost(outcome: Outcome) -> bool:
    """Return whether an outcome is that of a scenario that gave none."""
    return bool(outcome.violations) and "during" in msgspec.json.decode(outcome.violations[0][3])


def is_lost_in_generate(outcome: Outcome) -> bool:
    """Return whether a scenario gave no outcome because it could not even be drawn."""
    return is_lost(outcome) and outcome.violations[0][2] == GENERATE


def without_records(family: Family, seed: int) -> Scenario:
    """Return what stands for a scenario that cannot be drawn."""
    return Scenario(
        family=family.name,
        generator_version=generator_version(family),
        seed=seed,
        parameters={},
        records={"": ()},
        parallelism=1,
        max_parallelism=1,
        source_parallelism=0,
        sink_parallelism=0,
        channel_capacity=1,
        checkpoint_interval_ms=1,
        checkpoint_timeout_ms=1,
        tolerable_failures=0,
        retained=1,
        restart_delay_ms=0,
        faults=(),
        schedule=Schedule(),
        step_budget=1,
    )


@dataclass(frozen=True, slots=True)
class Death:
    """How a process ended."""

    how: str
    """A clause for a message: "was killed by SIGKILL"."""
    lost: Lost | None
    """The scenario that it ran; None: none."""
    may_be_from_outside: bool
    """Whether another process may have ended it, so that its scenario deserves another try."""


class Notes:
    """The side of the process that runs scenarios."""

    def __init__(self, notes: int, stacks: int, budget: Budget | None) -> None:
        """Begin to write notes to an open file, and stacks to another one."""
        self._memory = mmap.mmap(notes, _LAYOUT.size)
        self._stacks = os.fdopen(stacks, "wb", buffering=0)
        self._budget = budget
        self._process_id = os.getpid()
        self.idle()
        faulthandler.enable(self._stacks)
        if budget is None:
            return
        faulthandler.register(signal.SIGXCPU, self._stacks, all_threads=True, chain=True)
        # A core of each scenario that aborts would fill the disk.
        _limit(resource.RLIMIT_CORE, 0)

    def begin_batch(self) -> None:
        """Give the scenarios of a batch their memory, beside what the process keeps from earlier ones."""
        if self._budget is not None:
            limit_memory(self._budget.memory_mb)

    def begin(self, place: int) -> None:
        """Note that a scenario begins, and give it its processor time."""
        used = time.process_time()
        _LAYOUT.pack_into(self._memory, 0, place, GENERATING, used)
        if self._budget is not None:
            # Whole seconds of the process since its start.
            most = used + self._budget.seconds + SECONDS_TO_DIE
            _limit(resource.RLIMIT_CPU, int(most) + 1)

    def generated(self, place: int) -> None:
        """Note that the scenario is drawn and is run now."""
        _LAYOUT.pack_into(self._memory, 0, place, RUNNING, time.process_time())

    def idle(self) -> None:
        """Note that no scenario runs; a child that a scenario has forked ends here, and does not go on."""
        if os.getpid() != self._process_id:
            os._exit(0)
        _LAYOUT.pack_into(self._memory, 0, IDLE, GENERATING, 0.0)


def _limit(kind: int, most: int) -> None:
    _, hard = resource.getrlimit(kind)
    with suppress(ValueError, OSError):
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def limit_memory(memory_mb: int) -> None:
    """Let this process allocate so much beside what it has."""
    # Of the limits only this one counts what a program allocates, and not what it maps.
    if sys.platform == "linux":
        _limit(resource.RLIMIT_DATA, _allocated_bytes() + (memory_mb << 20))


@contextmanager
def limited_memory(memory_mb: int = MEMORY_MB) -> Iterator[None]:
    """Return a context in which this process may allocate so much beside what it has."""
    if sys.platform != "linux":
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    limit_memory(memory_mb)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _allocated_bytes() -> int:
    """Return what RLIMIT_DATA counts of this process."""
    with open("/proc/self/status", encoding="ascii") as status:
        found = re.search(r"VmData:\s+(\d+) kB", status.read())
    return int(found[1]) << 10 if found else 0


class Watch:
    """The parent's side: the notes of a process, and the clock."""

    def __init__(self, budget: Budget | None) -> None:
        self._budget = budget
        self._notes = tempfile.TemporaryFile()  # noqa: SIM115
        self._notes.truncate(_LAYOUT.size)
        self._memory = mmap.mmap(self._notes.fileno(), _LAYOUT.size)
        _LAYOUT.pack_into(self._memory, 0, IDLE, GENERATING, 0.0)
        self._stacks = tempfile.TemporaryFile()  # noqa: SIM115
        self._began: tuple[int, float] | None = None
        self._began_at = self._moved_at = 0.0
        self._moved_cpu = 0.0
        self._overrun = ""
        self._overrun_at = 0.0

    @property
    def files(self) -> tuple[int, int]:
        """The files that the process inherits."""
        return self._notes.fileno(), self._stacks.fileno()

    @property
    def arguments(self) -> list[str]:
        """The arguments of the process, from which it makes its ``Notes``."""
        return [str(each) for each in self.files]

    def look(self, process_id: int, now: float) -> None:
        """End a process whose scenario does nothing, or goes on and on; call it every second or so."""
        # Only the process that looks needs it, and the one that is looked at starts with this module as well.
        import psutil

        place, _, begun = _LAYOUT.unpack_from(self._memory)
        if self._budget is None or place == IDLE:
            self._began = None
            return
        if self._overrun:
            if now - self._overrun_at > SECONDS_TO_DIE:
                _send(process_id, signal.SIGKILL)
            return
        try:
            process = psutil.Process(process_id)
            cpu = sum(process.cpu_times()[:2])
            is_stopped = process.status() == psutil.STATUS_STOPPED
        except psutil.Error:
            return
        if self._began != (place, begun):
            self._began, self._began_at = (place, begun), now
            self._moved_at, self._moved_cpu = now, cpu
        seconds = self._budget.seconds + SECONDS_TO_DIE
        if is_stopped or cpu - self._moved_cpu > STILL * seconds:
            self._moved_at, self._moved_cpu = now, cpu
        if now - self._moved_at > seconds:
            self._end(process_id, now, WAITS)
        elif now - self._began_at > seconds * WALL_FACTOR:
            self._end(process_id, now, EXCEEDS)

    def _end(self, process_id: int, now: float, why: str) -> None:
        self._overrun, self._overrun_at = why, now
        # It writes its stack before it dies.
        _send(process_id, signal.SIGXCPU)

    def death(self, code: int) -> Death:
        """Return how the process ended, by its exit code or, negative, by a signal."""
        place, phase, _ = _LAYOUT.unpack_from(self._memory)
        name = signal.Signals(-code).name if code < 0 else ""
        how = f"was killed by {name}" if name else f"ended with exit code {code}"
        if self._overrun:
            anomaly = self._overrun
        elif name == "SIGXCPU":
            anomaly = COMPUTES
        elif name:
            anomaly = f"its process died: {name}"
        elif code == OUT_OF_MEMORY:
            anomaly = "memory exceeded"
        else:
            anomaly = f"its process ended: exit code {code}"
        lost = None if place == IDLE else Lost(place, anomaly, phase == RUNNING, self._stack())
        from_outside = not self._overrun and -code in FROM_OUTSIDE
        return Death(how, lost, from_outside)

    def close(self) -> None:
        """Close the files."""
        self._memory.close()
        self._notes.close()
        self._stacks.close()

    def _stack(self) -> tuple[str, ...]:
        """Return the innermost frames of the main thread, if the process has written them."""
        self._stacks.seek(0)
        text = self._stacks.read().decode(errors="replace")
        # The main thread is the last one; the scenario runs there.
        frames = _FRAME.findall(re.split(r"^(?:Current thread|Thread) ", text, flags=re.MULTILINE)[-1])
        return tuple([f"{name} ({file}:{line})" for file, line, name in frames[:STACK_LINES]])


OUT_OF_MEMORY: Final = 86
"""The exit code of a process whose memory was exhausted outside of a job: what it holds is lost."""


def end_out_of_memory() -> None:
    """End this process: after an exhausted memory its state is nothing to go on with."""
    os._exit(OUT_OF_MEMORY)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether an error is a MemoryError, or comes from one."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False


def stack_of(error: BaseException) -> tuple[str, ...]:
    """Return the innermost frames of an error, as those of a process that died."""
    frames = reversed(traceback.extract_tb(error.__traceback__)[-STACK_LINES:])
    return tuple([f"{frame.name} ({frame.filename}:{frame.lineno})" for frame in frames])


def _send(process_id: int, what: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process_id, what)
