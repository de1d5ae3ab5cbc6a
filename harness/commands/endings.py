"""Endings of a command before its result: the line of an error, and signals.

Rules:

- SIGTERM, by which CI and supervisors end a process, ends a command as Ctrl-C does. Only the exit code tells
  them apart: 130 and 143.
- The second signal of either kind ends the process at once and without a traceback. Worker processes and
  servers end with it by themselves.
- A signal that the process was started to ignore stays ignored, as a shell asks for its background processes.
- Python drops an exception that is raised in a finalizer or a `__del__`. If the signal strikes there, it is
  sent once more.
- Only the main thread can set handlers, and what it had set is set again at the end: tests and programs call
  the command line in processes of their own.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType

import typer

from onceproof.harness.model.exit_codes import INTERRUPTED, TERMINATED


def missing_extra_in(error: ImportError, program: str, given: Sequence[str]) -> Exception:
    """Return the error that names the extra, where a failed import needs one; else the error itself."""
    from onceproof.engine.extras import missing_extra

    words = [word for word in given if not word.startswith("-")]
    return missing_extra(error, " ".join((program, *words[:1]))) or error


def usage_line(error: typer.TyperException) -> str:
    """Return the parser's message in one line, with the nearest option where it knows one."""
    possible = getattr(error, "possibilities", None)
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "onceproof"
    message = " ".join((error.message if possible else error.format_message()).split()).rstrip(".")
    hint = f"; did you mean {' or '.join(sorted(possible))}?" if possible else ""
    message = message[:1].lower() + message[1:]
    return f"{message}{hint} (see {command} --help)"


# While a scenario runs, another function stands in for it.
_end_process = os._exit
_SECONDS_TO_LEAVE = 0.01
"""Until a signal is sent again; a finalizer that is still running drops it once more."""
EXIT_CODES = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}


class Interruption:
    """Which signal has come, if one has."""

    def __init__(self) -> None:
        self._first: int | None = None
        self._heard = 0
        """How many signals have been taken."""
        self._dropped = 0
        """How many exceptions have been dropped."""
        self._report = sys.unraisablehook

    def unraised(self, dropped: sys.UnraisableHookArgs) -> None:
        """Send the signal again if its exception was dropped; report others as before."""
        number = self._first
        if number is None or not issubclass(dropped.exc_type, KeyboardInterrupt):
            self._report(dropped)
            return
        self._first = None
        self._dropped += 1
        threading.Thread(target=self._send_again, args=(number, self._dropped), daemon=True).start()

    def _send_again(self, number: int, dropped: int) -> None:
        """Send the signal until it strikes behind the hook: what is raised in the hook is dropped, too."""
        while self._first is None and self._dropped == dropped:
            time.sleep(_SECONDS_TO_LEAVE)
            heard = self._heard
            os.kill(os.getpid(), number)
            while self._heard == heard:
                time.sleep(_SECONDS_TO_LEAVE)

    def exit_code(self, code: int) -> int:
        """Return the exit code of a command that ended with ``code``: 143 where SIGTERM interrupted it."""
        return TERMINATED if code == INTERRUPTED and self._first == signal.SIGTERM else code

    def take(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: raise KeyboardInterrupt, or end the process if it is the second one.

        Where the engine is loaded, it is the engine's own Interrupted, which no job takes for an error of the
        function that it strikes in.
        """
        if self._first is not None:
            _end_process(EXIT_CODES[signal.Signals(number)])
        if not _is_within(frame, Interruption.unraised.__code__):
            self._first = number
        # Only now: the thread that sends again looks at the first signal as soon as one is heard.
        self._heard += 1
        if self._first is None:
            return
        errors = sys.modules.get("onceproof.engine.errors")
        raise KeyboardInterrupt if errors is None else errors.Interrupted


def _is_within(frame: FrameType | None, code: CodeType) -> bool:
    """Return whether a call of a function with that code is under way."""
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Take SIGINT and SIGTERM until the context ends."""
    interruption = Interruption()
    before = {}
    hook = sys.unraisablehook
    if threading.current_thread() is threading.main_thread():
        for number in EXIT_CODES:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, interruption.take)
        sys.unraisablehook = interruption.unraised
    try:
        yield interruption
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)
