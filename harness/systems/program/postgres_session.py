"""A connection between a program and PostgreSQL, as its messages show it: which transactions write and end.

Rules:

- Messages are those of PostgreSQL's documentation, "Message Formats". What is encrypted is not seen.
- A transaction is one between BEGIN and its end. A statement outside of one commits by itself, and is none.
- A transaction writes once the server says that rows were changed. It is being committed when the client asks
  for it, and prepared when the server says so.
- Both directions are followed apart, because a client may send a whole transaction at once.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from onceproof.harness.model.program_ends import COMMITTING_MARK, OPEN_MARK, PREPARED_MARK

_HEAD: Final = struct.Struct(">ci")
"""The kind of a message, and its length without the kind."""
_FIRST: Final = struct.Struct(">ii")
"""The first message of a client has a length and a code."""
_ASKS_FOR_ENCRYPTION: Final = (80877103, 80877104)
_PLAIN: Final = b"N"
_WORDS: Final = re.compile(r"\s*(?:--[^\n]*\n\s*|/\*.*?\*/\s*)*(\w+)(?:\s+(\w+))?", re.DOTALL)
_BEGINS: Final = ("BEGIN", "START")
_COMMITS: Final = ("COMMIT", "END")
_WRITES: Final = ("INSERT", "UPDATE", "DELETE", "MERGE", "COPY")


@dataclass(slots=True)
class _Transaction:
    """The one in which a direction is."""

    is_open: bool = False
    writes: bool = False


class PostgresSession:
    """Observes one connection.

    Args:
        passed: is called with each mark before the message that passes it is forwarded.
    """

    def __init__(self, passed: Callable[[str], None]) -> None:
        self._passed = passed
        self._requests, self._answers = bytearray(), bytearray()
        self._has_begun = self._is_encrypted = False
        self._bytes_of_encryption = 0
        """How many answers of a single byte are still to come."""
        self._statements: dict[bytes, str] = {}
        self._portals: dict[bytes, str] = {}
        self._asked, self._done = _Transaction(), _Transaction()

    def request(self, data: bytes) -> None:
        """Follow what the client asks for."""
        if self._is_encrypted:
            return
        self._requests += data
        while not self._has_begun and len(self._requests) >= _FIRST.size:
            length, code = _FIRST.unpack_from(self._requests)
            if len(self._requests) < length:
                return
            del self._requests[:length]
            self._has_begun = code not in _ASKS_FOR_ENCRYPTION
            self._bytes_of_encryption += not self._has_begun
        for kind, body in _messages(self._requests) if self._has_begun else ():
            self._take_request(kind, body)

    def answer(self, data: bytes) -> None:
        """Follow what the server has done."""
        if self._is_encrypted:
            return
        self._answers += data
        while self._bytes_of_encryption and self._answers:
            self._bytes_of_encryption -= 1
            self._is_encrypted = bytes(self._answers[:1]) != _PLAIN
            del self._answers[:1]
        for kind, body in () if self._is_encrypted else _messages(self._answers):
            if kind == b"C":
                self._complete(body.rstrip(b"\0").decode(errors="replace").split())
            elif kind == b"Z" and body == b"I":
                self._done = _Transaction()

    def _take_request(self, kind: bytes, body: bytes) -> None:
        if kind == b"Q":
            for statement in body.rstrip(b"\0").decode(errors="replace").split(";"):
                self._ask(statement)
            return
        first, _, rest = body.partition(b"\0")
        second = rest.partition(b"\0")[0]
        if kind == b"P":
            self._statements[first] = second.decode(errors="replace")
        elif kind == b"B":
            self._portals[first] = self._statements.get(second, "")
        elif kind == b"E":
            self._ask(self._portals.get(first, ""))

    def _ask(self, statement: str) -> None:
        found = _WORDS.match(statement)
        first, second = (found[1].upper(), (found[2] or "").upper()) if found else ("", "")
        if first in _BEGINS:
            self._asked = _Transaction(is_open=True)
        elif first in _WRITES:
            self._asked.writes = self._asked.is_open
        elif first in _COMMITS:
            # Of a transaction that was sent at once the server has said nothing yet.
            writes = self._done.writes if self._done.is_open else self._asked.writes
            self._asked = _Transaction()
            if writes or second == "PREPARED":
                self._passed(COMMITTING_MARK)
        elif first == "ROLLBACK" and second != "TO":
            self._asked = _Transaction()

    def _complete(self, words: list[str]) -> None:
        match words:
            case ["BEGIN" | "START", *_]:
                self._done = _Transaction(is_open=True)
            case [verb, *_, count] if verb in _WRITES and count != "0":
                if self._done.is_open and not self._done.writes:
                    self._done.writes = True
                    self._passed(OPEN_MARK)
            case ["PREPARE", "TRANSACTION"]:
                writes, self._done = self._done.writes, _Transaction()
                if writes:
                    self._passed(PREPARED_MARK)
            case ["COMMIT"]:
                self._done = _Transaction()


def _messages(buffer: bytearray) -> Iterator[tuple[bytes, bytes]]:
    """Take the whole messages out of a buffer: kinds and bodies."""
    while len(buffer) >= _HEAD.size:
        kind, length = _HEAD.unpack_from(buffer)
        if len(buffer) <= length:
            return
        body = bytes(buffer[_HEAD.size : 1 + length])
        del buffer[: 1 + length]
        yield kind, body
