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
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from onceproof.engine.connectors.kafka import wire_protocol as wire

_LEAVE_GROUP, _DESCRIBE_GROUPS, _LIST_GROUPS, _DELETE_GROUPS = 13, 15, 16, 42
_SECONDS_TO_ANSWER: Final = 5.0
_SECONDS_BETWEEN_TRIES: Final = 0.05
_LOOKS_UNTIL_SURE: Final = 40
_NO_GROUP: Final = "onceproof"
_UNKNOWN_MEMBER: Final = 25
_LONGEST_ANSWER: Final = 64 << 20


class Member(NamedTuple):
    """A member of a group."""

    group: str
    name: str


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
            _leave(self._servers, _members(self._servers))
            return
        self._waits = threading.Event()
        threading.Thread(target=self._leave_later, args=(self._waits,), daemon=True).start()

    def close(self) -> None:
        """Wait for the broker no more."""
        if self._waits is not None:
            self._waits.set()

    def _leave_later(self, is_over: threading.Event) -> None:
        # A broker that comes back may take itself for dead once more, and forgets then who has left.
        dead: set[Member] | None = None
        looks = 0
        while looks < _LOOKS_UNTIL_SURE and not is_over.wait(_SECONDS_BETWEEN_TRIES):
            with suppress(OSError):
                found = _members(self._servers)
                # Those of the next start, which come later, stay.
                dead = found if dead is None else dead
                looks = 0 if dead & found else looks + 1
                _leave(self._servers, dead & found)


def delete_groups(servers: str) -> None:
    """Delete all groups with their offsets, and their members; a broker in trouble is left alone."""
    with suppress(OSError):
        _leave(servers, _members(servers))
        names = _groups(servers)
        _ask(servers, _DELETE_GROUPS, struct.pack(">i", len(names)) + b"".join(map(_text, names)))


def _groups(servers: str) -> list[str]:
    """Return the names of all groups. Raises OSError."""
    answer = _ask(servers, _LIST_GROUPS, b"")
    answer.take(2)
    return [name for name, _ in [(answer.text(), answer.text()) for _ in range(answer.count())]]


def _members(servers: str) -> set[Member]:
    """Return the members of all groups. Raises OSError, also while a broker that was started reads them."""
    # It lists the groups that it has read; of one that there is not it says that it does not know yet.
    list(_of(servers, _NO_GROUP))
    return {Member(group, each) for group in _groups(servers) for each in _of(servers, group)}


def _of(servers: str, group: str) -> Iterator[str]:
    """Yield the members of a group. Raises OSError."""
    answer = _ask(servers, _DESCRIBE_GROUPS, struct.pack(">i", 1) + _text(group))
    answer.take(4)
    answer.check()
    for _ in range(4):
        # Its name, state, and protocols.
        answer.text()
    for _ in range(answer.count()):
        yield answer.text()
        answer.text()
        answer.text()
        answer.take(answer.count())
        answer.take(answer.count())


def _leave(servers: str, members: Iterable[Member]) -> None:
    """Remove members. Raises OSError where the broker has not."""
    for each in members:
        _ask(servers, _LEAVE_GROUP, _text(each.group) + _text(each.name)).check()


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

    def check(self) -> None:
        """Read an error. Raises OSError where it is one, unless there is no such member any more."""
        error = int.from_bytes(self.take(2), "big", signed=True)
        if error not in (wire.NONE, _UNKNOWN_MEMBER):
            raise OSError(f"the broker answers with error {error}")

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
