"""Errors after which the job master does not restart a job.

Most failures have causes that pass, so the restart strategy decides about them. An UnrecoverableError (a
malformed row, state of the wrong type) would happen again in the same way: it ends the job at once with its
message. The checkpoints stay, and a corrected job restores from them.

Whatever user code raises is a failure of its operator: also SystemExit, KeyboardInterrupt, GeneratorExit and
every other BaseException. Only an Ending passes through user code and ends what runs it.
"""

from __future__ import annotations

import os
import sysconfig
import traceback
from typing import Final


class UnrecoverableError(Exception):
    """The job must not be restarted for this (Flink: SuppressRestartsException). The message is one line."""


class TransientError(Exception):
    """The cause is expected to pass, as that of an OSError: equal ones are retried without a limit."""


class Ending(BaseException):
    """By this the engine or the harness ends a task or a process; no user code has raised it."""


class Interrupted(Ending, KeyboardInterrupt):
    """Ctrl-C, as the engine's own handler of the signal raises it (runtime/interrupts.py)."""


def repeatable(error: BaseException) -> bool:
    """Return whether an error that comes again and again in the same way will come forever.

    Kills and interrupts come from outside. An OSError is what storage, network and files raise while they are
    not there; what was raised from one, or while one was handled, passes with it.
    """
    seen: set[int] = set()
    cause: BaseException | None = error
    # User code may make an error its own cause.
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, OSError | TransientError | Ending | KeyboardInterrupt):
            return False
        seen.add(id(cause))
        cause = cause.__cause__ if cause.__suppress_context__ else cause.__context__
    return True


_UNHASHABLE: Final = "unhashable type: "
_HASHABLE: Final = (
    "; the key of a stream or of a map state must be hashable: declare its class with"
    " @dataclass(frozen=True), or give a tuple of its fields"
)


def _mend_of(error: BaseException) -> str:
    """Return the mend for a key of user code that the engine cannot use, or ""."""
    if not isinstance(error, TypeError) or not str(error).startswith(_UNHASHABLE):
        return ""
    innermost = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    if innermost is None:
        return ""
    frame = innermost.tb_frame
    is_engine = str(frame.f_globals.get("__name__", "")).startswith(f"{__package__}.")
    return _HASHABLE if is_engine or frame.f_code.co_name == "__hash__" else ""


_LIBRARIES: Final = tuple(
    os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_OWN: Final = (f"{__package__}.", "onceproof.harness.")


def user_line(error: BaseException) -> str:
    """Return the file and line of user code where an error came up, as " (prices.py, line 8)", or "".

    It is the innermost line that belongs neither to the engine nor to a library. The file is named without
    its folder, so that a run says the same on every machine.
    """
    found = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        is_own = str(frame.f_globals.get("__name__", "")).startswith(_OWN)
        if not is_own and not file.startswith((*_LIBRARIES, "<")):
            found = f" ({os.path.basename(file)}, line {line})"
    return found


LONGEST_TEXT: Final = 10_000
"""How many characters of a message are shown: it goes through pipes, logs and the registry of jobs."""


def text_of(error: BaseException) -> str:
    """Return the message of an error in one line that can be encoded and is not too long.

    Asking an error of user code for its message may raise another one.
    """
    try:
        text = f"{error}{_mend_of(error)}"
        if len(text) > LONGEST_TEXT:
            text = f"{text[:LONGEST_TEXT]}... ({len(text)} characters)"
        return " ".join(text.split()).encode("utf-8", "backslashreplace").decode()
    except Ending:
        raise
    except BaseException as failed:
        return f"it has no message, because its __str__ raises {type(failed).__name__}"
