"""Tables in the file of a program: its processes, a job of Flink in their place, faults of the user's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

Restart: TypeAlias = Literal["always", "never"]
Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Milliseconds: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=60_000)]
Words: TypeAlias = Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
_Name: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^\w[\w.-]*$")]
FLINK_VERSION: Final = "2.3.0"
"""Of a job that names none."""


class FlinkJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A job of Flink, which the harness submits to a cluster of its own; it stands in place of a command."""

    jar: str = ""
    """The jar with the job, beside the file."""
    main: str = msgspec.field(default="", name="class")
    """Its main class; none: the one that its manifest names."""
    arguments: tuple[str, ...] = ()
    sql: str = ""
    """The script with the job, beside the file, in place of a jar."""
    connectors: tuple[str, ...] = ()
    """Maven coordinates of what the cluster has beside Flink, as in "GROUP:ARTIFACT:VERSION"."""
    version: str = FLINK_VERSION
    settings: dict[str, str] = {}
    """Of the cluster, in Flink's words; they override those of the harness."""
    prepare: tuple[str, ...] = ()
    """A command that runs once before the first start, in the folder of the file: it builds the jar."""


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

    @property
    def port(self) -> str:
        """The placeholder of a port on which it may listen."""
        return f"port.{self.name}"


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


def contradicting_processes(
    processes: Sequence[Process], faults: Sequence[OwnFault], is_piped: bool
) -> Iterator[str]:
    """Yield what is wrong with processes and faults.

    ``is_piped``: standard input or output is at an end of the program.
    """
    for table, tables in (("process", processes), ("fault", faults)):
        names = [each.name for each in tables]
        if twice := {name for name in names if names.count(name) > 1}:
            yield f"{table}: the name {min(twice)!r} stands twice"
    if len(processes) > 1 and is_piped:
        yield "process: only program.command can have 'stdin' or 'stdout' at its ends, without [[process]]"
    for fault in faults:
        if (fault.command is None) == (fault.request is None):
            yield f"fault {fault.name!r}: give it a command or a request"
        if fault.lasts_ms and fault.undo is None:
            yield f"fault {fault.name!r}: lasts_ms needs undo"
