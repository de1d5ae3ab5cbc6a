"""Waits for the end of all processes of a session, and brings it about."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import Final

from onceproof.harness.systems.process.process_table import session_members

_SECONDS_TO_DIE: Final = 30.0
_SECONDS_BETWEEN_LOOKS: Final = 0.005


class SessionLives(Exception):
    """Processes of a session do not die; the message is one line."""


def is_session_gone(session: int, seconds: float) -> bool:
    """Wait until no process of a session lives, ``seconds`` at most; return whether none does."""
    deadline = time.monotonic() + seconds
    while session_members(session):
        if time.monotonic() > deadline:
            return False
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    return True


def end_session(session: int) -> None:
    """Kill all processes of a session and wait until they are dead. Raises SessionLives after a time-out."""
    deadline = time.monotonic() + _SECONDS_TO_DIE
    while members := session_members(session):
        for process in members:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise SessionLives(f"processes {members} of a driver that was killed do not die")
        time.sleep(_SECONDS_BETWEEN_LOOKS)
