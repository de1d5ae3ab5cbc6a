"""What a process that user code forks must neither keep nor do of its parent's job.

Rules:

- A child closes its copies of the parent's connections before it runs anything else (``close_in_children``).
  Else a parent that is killed would still be connected, and its death unnoticed. Programs that are executed
  have no copies, because the descriptors close on exec.
- A child that was forked by user code while the job ran, and comes back into the engine, exits at once: it
  emits nothing, commits nothing, and no ``finally`` of the engine deletes files of the parent. It may fork
  again, execute a program, or run a job of its own; what it must not do is to return from the user function.
- The parent pays nothing for this. Python's tracing watches the one frame of the engine that has called the
  user code, in the child alone. Python code of the child runs slower, about half as fast.
- A child of ``multiprocessing`` never comes back, so it is not watched, and not slower.
- A fork made by C code runs no Python first. So the death of a process is also noticed by its pidfd and by
  heartbeats (runtime/workers).
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any, Final, ParamSpec, TypeVar
from weakref import WeakSet

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

EXIT_CODE: Final = 70
"""Of a child that came back (EX_SOFTWARE)."""
_ENGINE: Final = f"{__package__}."
_NEVER_COME_BACK: Final = frozenset(("multiprocessing.popen_fork",))
"""Modules whose forks end with os._exit, whatever happens in them."""

_connections: Final[WeakSet[socket.socket]] = WeakSet()
_loops: Final[set[CodeType]] = set()


def close_in_children(*connections: socket.socket) -> None:
    """Let every process that is forked from this one close its copies of these connections first of all."""
    _connections.update(connections)


def runs_user_code(loop: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Mark what runs a job or a thread of one: no fork made below it comes back into the engine."""
    _loops.add(loop.__code__)
    return loop


def _in_child() -> None:
    for connection in list(_connections):
        with suppress(OSError):
            connection.close()
    _connections.clear()
    caller = _caller_of_user_code(sys._getframe(1))
    if caller is not None:
        caller.f_trace = _exit_at_once
        caller.f_trace_opcodes = True
        sys.settrace(_trace_no_call)


def _caller_of_user_code(forking: FrameType | None) -> FrameType | None:
    """Return the frame of the engine to which the code that forks returns; None: it may return."""
    frame = forking
    inner: list[FrameType] = []
    """What the engine has called."""
    caller: FrameType | None = None
    while frame is not None:
        if caller is None:
            module = _module_of(frame)
            if module in _NEVER_COME_BACK:
                return None
            if module.startswith(_ENGINE):
                caller = frame
            else:
                inner.append(frame)
        if frame.f_code in _loops:
            break
        frame = frame.f_back
    if frame is None or caller is forking:
        # No job runs below this fork, or the engine itself forks.
        return None
    while inner and _module_of(inner[-1]).startswith("asyncio."):
        # The engine's own event loop, which would go on in the child, and take what is meant for the parent.
        caller = inner.pop()
    return caller


def _module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _trace_no_call(frame: FrameType, event: str, argument: Any) -> None:
    """Trace no function that is called from now on."""


def _exit_at_once(frame: FrameType, event: str, argument: Any) -> None:
    """Called before the engine's frame goes on: by a return, a value of a generator, or an error."""
    with suppress(OSError):
        os.write(
            2,
            f"process {os.getpid()}, which a user function has forked, has returned from that function and"
            " ends here: let such a process end with os._exit()\n".encode(),
        )
    os._exit(EXIT_CODE)


os.register_at_fork(after_in_child=_in_child)
