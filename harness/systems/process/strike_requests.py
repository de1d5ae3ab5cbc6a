"""How a process of the job asks for strikes of its servers, and the errors of a server that is away.

Rules:

- It imports nothing of the servers, because each process of a job imports it (`local/run.py`).
- An error that says a server is away counts as injected once a server was struck: a connection may be found
  broken long after. Where a pause is planned, requests have a short time-out, which a busy machine may exceed
  before; so there the error counts from the beginning.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Final

import msgspec

from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.runtime.remote_storage import RemoteStorageError
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.fault_clock import ClockState

DONE: Final = b"done\n"
"""What the system answers once it has carried a request out."""
_CONNECTORS: Final = "onceproof.engine.connectors."
"""The modules of connectors, whose errors are their servers'."""


def strike_server(address: str, fault: Fault) -> None:
    """Ask the system to strike a server of this trial, or the topic that its job reads.

    Return when the server is dead or paused, a cut is due, or the topic has changed.

    Raises:
        OSError: the system does not answer.
    """
    if not _is_done(address, fault):
        raise OSError(f"the fault {fault.kind} of {fault.server or 'the topic'} was not carried out")


def tell_of_attempt(address: str) -> None:
    """Tell the system that an attempt begins; return when it may open its sources. Raises OSError."""
    if not _is_done(address, None):
        raise OSError("the changed topic was not filled")


def _is_done(address: str, request: Fault | None) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        connection.sendall(msgspec.json.encode(request) + b"\n")
        return connection.makefile("rb").readline() == DONE


def is_server_away(error: BaseException) -> bool:
    """Return whether an error comes of one by which a connector says that its server is not there now.

    An error that no restart mends says something else, such as that rows are lost.
    """
    cause: BaseException | None = error
    is_away = False
    while cause is not None:
        if isinstance(cause, UnrecoverableError):
            return False
        if isinstance(cause, OSError) and type(cause).__module__.startswith(_CONNECTORS):
            is_away = True
        is_away |= isinstance(cause, RemoteStorageError)
        cause = cause.__cause__
    return is_away


def may_be_away(faults: Iterable[Fault], state: ClockState) -> bool:
    """Return whether a server of a run may be away because of its faults."""
    return any(
        fault.server and (fault.kind == "pause_server" or not state.waits_for(number))
        for number, fault in enumerate(faults)
    )
