"""The groups of consumers that a program has on the broker of its trials.

Rules:

- A broker keeps the members of a program that was killed for their session, 45 s by default, and its next
  start waits for them. The harness knows that they are dead and lets them leave, as the session would.
- That is known of all members or of none: which process a member was the broker cannot say.
- A broker that was killed itself is asked again until it answers.
- Groups of the newer protocol are left alone: their sessions are a setting of the broker.
- The client library neither lists the groups of Kafka Connect nor removes a member. These requests are the
  broker's oldest, without tags.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from onceproof.engine.connectors.kafka import wire_protocol as wire

_LEAVE_GROUP, _DESCRIBE_GROUPS, _LIST_GROUPS, _DELETE_GROUPS = 13, 15, 16, 42
_SECONDS_TO_ANSWER: Final = 5.0
_SECONDS_BETWEEN_TRIES: Final = 0.05
_NOT_YET: Final = (wire.COORDINATOR_LOAD_IN_PROGRESS, wire.COORDINATOR_NOT_AVAILABLE, wire.NOT_COORDINATOR)
_LONGEST_ANSWER: Final = 64 << 20


class DeadMembers:
    """Lets the members of a program leave its groups when no process of it lives.

    Args: servers: the address of the only broker, past the proxy of the program.
    """

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._waits: threading.Event | None = None
        """Set where what waits for the broker waits no more."""

    def leave(self) -> None:
        """Let all members leave, at once or as soon as the broker is back from its own death."""
        self.close()
        with suppress(OSError):
            let_members_leave(self._servers)
            return
        self._waits = threading.Event()
        threading.Thread(target=self._leave_later, args=(self._waits,), daemon=True).start()

    def close(self) -> None:
        """Wait for the broker no more."""
        if self._waits is not None:
            self._waits.set()

    def _leave_later(self, is_over: threading.Event) -> None:
        # A new start that is a member by then joins once more; most take longer to come to it.
        while not is_over.wait(_SECONDS_BETWEEN_TRIES):
            with suppress(OSError):
                let_members_leave(self._servers)
                return


def let_members_leave(servers: str) -> None:
    """Remove the members of all groups. Raises OSError."""
    for group in group_names(servers):
        for member in _members(servers, group):
            _ask(servers, _LEAVE_GROUP, _text(group) + _text(member))


def delete_groups(servers: str) -> None:
    """Delete all groups with their offsets, and their members; a broker in trouble is left alone."""
    with suppress(OSError):
        let_members_leave(servers)
        names = group_names(servers)
        _ask(servers, _DELETE_GROUPS, struct.pack(">i", len(names)) + b"".join(map(_text, names)))


def group_names(servers: str) -> list[str]:
    """Return the names of all groups. Raises OSError, also while a broker that was started reads them."""
    # It lists those that it has read; of one that there need not be it says that it does not know yet.
    list(_members(servers, "onceproof"))
    answer = _ask(servers, _LIST_GROUPS, b"")
    answer.take(2)
    return [name for name, _ in [(answer.text(), answer.text()) for _ in range(answer.count())]]


def _members(servers: str, group: str) -> Iterator[str]:
    """Yield the members of a group. Raises OSError."""
    answer = _ask(servers, _DESCRIBE_GROUPS, struct.pack(">i", 1) + _text(group))
    answer.take(4)
    if (error := int.from_bytes(answer.take(2), "big")) in _NOT_YET:
        raise OSError(f"the broker has not read its groups (error {error})")
    for _ in range(4):
        # Its name, state, and protocols.
        answer.text()
    for _ in range(answer.count()):
        yield answer.text()
        answer.text()
        answer.text()
        answer.take(answer.count())
        answer.take(answer.count())


class _Answer:
    """Reads the fields of an answer one after the other. Raises OSError where it ends too early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def take(self, length: int) -> bytes:
        if not 0 <= length <= len(self._data) - self._place:
            raise OSError("an answer that ends too early")
        self._place += length
        return self._data[self._place - length : self._place]

    def count(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def text(self) -> str:
        length = int.from_bytes(self.take(2), "big", signed=True)
        return self.take(max(0, length)).decode(errors="replace")


def _ask(servers: str, request: int, body: bytes) -> _Answer:
    """Send a request in its first version to the only broker, and return the answer. Raises OSError."""
    message = struct.pack(">hhi", request, 0, 1) + _text("onceproof") + body
    host, _, port = servers.rpartition(":")
    with socket.create_connection((host, int(port)), _SECONDS_TO_ANSWER) as connection:
        connection.sendall(struct.pack(">i", len(message)) + message)
        with connection.makefile("rb") as stream:
            length = int.from_bytes(stream.read(4), "big")
            answer = _Answer(stream.read(min(length, _LONGEST_ANSWER)))
    answer.take(4)
    return answer


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data
