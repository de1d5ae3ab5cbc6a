"""What stops a scenario that never returns, or that would end its process, in the process that runs it.

Rules:

- A timer ticks once a second. It measures the progress of the scenario in processor time, and the time that
  it waits in ticks, which a stopped process does not get. So the load of the machine does not count.
- The scenario is stopped by an exception in the main thread. Its stack is that of the code that did not
  return: the operator, the function and the line.
- ``os._exit`` raises as well while a scenario runs, except in a process that the scenario has forked.
- Code in C that never returns to Python is not stopped here. In a worker, supervision.py ends the process.
- A timer that is set already, such as that of pytest-timeout, is left alone, and so is a debugger that waits.
"""

from __future__ import annotations

import inspect
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any, Final, NoReturn

from onceproof.engine.errors import Ending
from onceproof.engine.operators.base import Operator
from onceproof.engine.task.task import Task
from onceproof.harness.model.step_limits import SECONDS

STILL: Final = 0.002
"""A scenario that computes for less than this part of its time does nothing. Under a load of many processes
for each core, one that wants to compute gets more."""

WAKE_SECONDS: Final = 0.002
"""Processor time that a scenario may seem to use because a tick wakes its process."""

WALL_FACTOR: Final = 60
"""A scenario that computes a little, without an end, may take this many times its processor time."""

STACK_LINES: Final = 3

WAITS: Final = "time exceeded: it waits and does nothing"
COMPUTES: Final = "time exceeded: it computes without an end"
EXCEEDS: Final = "time exceeded"
EXIT: Final = "calls os._exit"

_TICK_SECONDS: Final = 1.0
_DEBUGGERS: Final = frozenset({"bdb", "pdb", "pydevd", "debugpy", "_pydevd_bundle"})

_seconds: Final[ContextVar[float]] = ContextVar("seconds that a scenario may take", default=SECONDS)


class Stopped(Ending):
    """A scenario was stopped. Code that catches every Exception does not catch it."""

    def __init__(self, anomaly: str, stack: tuple[str, ...], operator: str = "") -> None:
        super().__init__(anomaly)
        self.anomaly = anomaly
        self.stack = stack
        """The innermost frames, the innermost first."""
        self.is_exit = anomaly.startswith(EXIT)
        """Whether it would have ended its process."""
        self.operator = operator
        """The operator that ran, with its subtask; empty where there was none."""

    @property
    def place(self) -> str:
        """Where it was stopped, as the end of a sentence."""
        operator = f", in {self.operator}" if self.operator else ""
        return f"{operator}{f', in {self.stack[0]}' if self.stack else ''}"


@contextmanager
def seconds_for_each(seconds: float | None) -> Iterator[None]:
    """Return a context in which each scenario is stopped after so many seconds; None: never."""
    token = _seconds.set(float("inf") if seconds is None else seconds)
    try:
        yield
    finally:
        _seconds.reset(token)


@contextmanager
def stopped_in_time(file: str | None = None) -> Iterator[None]:
    """Return a context that raises Stopped where its code does not return in time, or ends the process.

    Args:
        file: the family's file, whose innermost frame the stack holds.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    timer, exits = _Timer(_seconds.get(), file), _RefusedExit(file)
    vars(os)["_exit"] = exits
    try:
        timer.start()
        yield
    finally:
        timer.end()
        vars(os)["_exit"] = exits.real


class _RefusedExit:
    """Stands in for ``os._exit`` while a scenario runs."""

    def __init__(self, file: str | None) -> None:
        self.real = os._exit
        self._file = file
        self._process_id = os.getpid()

    def __call__(self, status: int) -> NoReturn:
        if os.getpid() != self._process_id or threading.current_thread() is not threading.main_thread():
            self.real(status)
        frame = inspect.currentframe()
        caller = None if frame is None else frame.f_back
        raise _stopped_at(f"{EXIT}({status})", caller, self._file)


class _Timer:
    """Looks once a second at what the code of a context does."""

    def __init__(self, seconds: float, file: str | None) -> None:
        self._seconds = seconds
        self._file = file
        self._every = min(_TICK_SECONDS, seconds / 4)
        self._handler: Any = signal.SIG_DFL
        self._is_set = False
        self._left = self._used = self._moved = 0.0
        self._ticks = self._still = 0

    def start(self) -> None:
        if self._seconds == float("inf") or signal.getitimer(signal.ITIMER_REAL) != (0.0, 0.0):
            return
        self._restart()
        self._handler = signal.signal(signal.SIGALRM, self._tick)
        # Calls of the system that a tick interrupts are begun again.
        signal.siginterrupt(signal.SIGALRM, False)
        self._is_set = True
        signal.setitimer(signal.ITIMER_REAL, self._every, self._every)

    def end(self) -> None:
        if self._is_set:
            self._is_set = False
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, self._handler)

    def _tick(self, number: int, frame: FrameType | None) -> None:
        if not self._is_set:
            return
        # Without what the ticks themselves have used.
        worked = time.process_time() - self._left
        self._used += worked
        self._moved += max(0.0, worked - WAKE_SECONDS)
        self._ticks += 1
        self._still += 1
        if self._moved > STILL * self._seconds:
            self._moved, self._still = 0.0, 0
        anomaly = self._overrun()
        if anomaly and _is_in_a_debugger(frame):
            self._restart()
        elif anomaly:
            raise _stopped_at(anomaly, frame, self._file)
        self._left = time.process_time()

    def _overrun(self) -> str:
        """Return in which way the scenario has exceeded its time; "": in none."""
        if self._used >= self._seconds:
            return COMPUTES
        if self._still * self._every >= self._seconds:
            return WAITS
        return EXCEEDS if self._ticks * self._every >= self._seconds * WALL_FACTOR else ""

    def _restart(self) -> None:
        self._left = time.process_time()
        self._used = self._moved = 0.0
        self._ticks = self._still = 0


def _frames_of(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and those that called it."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_in_a_debugger(frame: FrameType | None) -> bool:
    names = (each.f_globals.get("__name__", "") for each in _frames_of(frame))
    return any(name.partition(".")[0] in _DEBUGGERS for name in names)


def _stopped_at(anomaly: str, frame: FrameType | None, file: str | None) -> Stopped:
    frames = list(_frames_of(frame))
    shown = frames[:STACK_LINES]
    own = next((each for each in frames if each.f_code.co_filename == file), None)
    if own is not None and own not in shown:
        shown.append(own)
    lines = tuple([f"{each.f_code.co_name} ({each.f_code.co_filename}:{each.f_lineno})" for each in shown])
    return Stopped(anomaly, lines, _operator_in(frames))


def _operator_in(frames: list[FrameType]) -> str:
    """Return the operator that the innermost task in a stack runs, by its name in the job."""
    owners = [each.f_locals.get("self") for each in frames if "self" in each.f_code.co_varnames]
    task = next((owner for owner in owners if isinstance(owner, Task)), None)
    if task is None:
        return ""
    for owner in owners:
        if isinstance(owner, Operator) and owner in task.operators:
            node = task.vertex.operators[task.operators.index(owner)]
            return f"operator {node.name!r} of {task.name}"
    return f"task {task.name}"
