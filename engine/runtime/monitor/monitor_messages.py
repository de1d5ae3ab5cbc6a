"""The messages between a job's process and its monitor process: frames of JSON over a socket pair.

The rules this module lives by:

- JSON, because the monitor process answers all clients of its port: nothing that it sends is unpickled.
- The job sends ``Setup`` first, then views and answers. The monitor process sends requests only.
- Texts and numbers of users may be what JSON does not hold: a lone surrogate, a number of more than 64 bits.
  They are written another way; no view is lost for one of them.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from onceproof.engine.configuration.monitor_options import ReporterSettings
from onceproof.engine.runtime.job_requests import JobRequest
from onceproof.engine.runtime.monitor.job_view import JobView


class Setup(msgspec.Struct, frozen=True, tag="setup"):
    """To the monitor process: what it offers. Sockets are descriptors that it has inherited, -1: none."""

    rest_socket: int
    token: str
    hosts: tuple[str, ...]
    """The names by which clients may address it, without a port."""
    guards_reading: bool
    """Whether reading needs the token as well."""
    reporters: tuple[ReporterSettings, ...]
    reporter_sockets: tuple[int, ...]
    """One for each reporter."""


class Answered(msgspec.Struct, frozen=True, tag="answer"):
    """To the monitor process: what came of its request ``number``."""

    number: int
    savepoint: str
    error: str


class Asked(msgspec.Struct, frozen=True, tag="asked"):
    """To the job: a user's request."""

    number: int
    request: JobRequest


ToMonitor: TypeAlias = Setup | JobView | Answered

to_monitor: Final = msgspec.json.Decoder(ToMonitor)
to_job: Final = msgspec.json.Decoder(Asked)
_MOST: Final = 1 << 63


def encoded(message: ToMonitor | Asked) -> bytes:
    """Return a message as JSON."""
    try:
        return msgspec.json.encode(message)
    except (ValueError, OverflowError):
        cleaned: dict[str, Any] = _cleaned(msgspec.to_builtins(message))
        return msgspec.json.encode(cleaned)


def _cleaned(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case bool():
            return value
        case int():
            return value if -_MOST <= value < _MOST else str(value)
        case dict():
            return {_cleaned(key): _cleaned(each) for key, each in value.items()}
        case list() | tuple():
            return [_cleaned(each) for each in value]
        case _:
            return value
