"""Queries about processes of the operating system: parent, command, session, alive or not."""

from __future__ import annotations

import os

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


def session_members(session: int) -> list[int]:
    """Return the ids of the living processes of a session."""
    return [process for process in psutil.pids() if is_in_session(process, session) and is_alive(process)]


def is_in_session(process: int, session: int) -> bool:
    """Return whether a process belongs to a session; False if the process has ended."""
    try:
        return os.getsid(process) == session
    except OSError:
        return False
