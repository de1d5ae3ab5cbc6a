"""Processes of the operating system: parent, command, session, work, alive or not; the end of a session."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import Final

import psutil


def parent_of(process: int) -> int:
    """Return the id of a process's parent; 0 if the process has ended."""
    try:
        return psutil.Process(process).ppid()
    except psutil.Error:
        return 0


def command_of(process: int) -> list[str]:
    """Return the command line of a process as a list of words; empty if the process has ended."""
    try:
        return psutil.Process(process).cmdline()
    except psutil.Error:
        return []


def is_alive(process: int) -> bool:
    """Return whether a process runs or is stopped; False for one that ended and was not waited for."""
    try:
        return psutil.Process(process).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.Error:
        return False


def worked_seconds(process: int) -> float:
    """Return the processor time that a process has used; 0.0 if it has ended."""
    try:
        return float(sum(psutil.Process(process).cpu_times()[:2]))
    except psutil.Error:
        return 0.0


def session_members(session: int) -> list[int]:
    """Return the ids of the living processes of a session."""
    return [process for process in psutil.pids() if is_in_session(process, session) and is_alive(process)]


def is_in_session(process: int, session: int) -> bool:
    """Return whether a process belongs to a session; False if the process has ended."""
    try:
        return os.getsid(process) == session
    except OSError:
        return False


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
