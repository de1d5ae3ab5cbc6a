"""Tables in the file of a program: its processes, and faults of the user's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, TypeAlias

import msgspec

Restart: TypeAlias = Literal["always", "never"]
Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Milliseconds: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=60_000)]
Words: TypeAlias = Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
_Name: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^\w[\w.-]*$")]


class Process(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A process of a program, which the harness starts and restarts by itself."""

    name: _Name
    command: Words
    resume: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    ready: str = ""
    restart: Restart = "always"
    """What the harness does when the process has ended or was killed alone."""
    alone: bool = True
    """Whether it is also killed alone."""


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An HTTP request; any answer with a status below 400 is a success."""

    url: str
    method: Method = "GET"
    body: str = ""
    headers: dict[str, str] = {}


class OwnFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fault of the user's own: a command or a request, and what takes it back."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    command: Words | None = None
    request: Request | None = None
    undo: Words | Request | None = None
    lasts_ms: Milliseconds = 0
    """From the fault to its undoing, at most."""

    @property
    def texts(self) -> Iterator[str]:
        """All texts in which placeholders may stand."""
        for each in (self.command, self.request, self.undo):
            if isinstance(each, Request):
                yield from (each.url, each.body, *each.headers.values())
            elif each is not None:
                yield from each
