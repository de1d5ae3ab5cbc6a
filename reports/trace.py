"""A trace: who sent what to whom, and when, in one replayed scenario.

Only a replay makes one; bulk runs record visible events alone. The form is the one the harness writes as
plain JSON, so `msgspec.convert(mapping, Trace)` takes it as it is. A lane is named, or given by its place in
`lanes`. A trace may name a lane that it does not list (a subtask that only a later attempt had): a drawing
that is less tidy is worth more in the morning than an error, so such lanes are added at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

Lane: TypeAlias = str | int
Place: TypeAlias = tuple[Lane, int]
ArrowKind: TypeAlias = Literal["record", "barrier", "trigger", "acknowledge", "notify", "control"]
MarkKind: TypeAlias = Literal[
    "trigger",
    "write",
    "snapshot",
    "prepare",
    "stored",
    "complete",
    "visible",
    "restored",
    "aborted",
    "finished",
    "checkpoint_aborted",
]


class Arrow(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename={"sent": "from", "received": "to"},
):
    """A message: where and when it left, where and when it arrived.

    `received` is null, or `lost` is true, where it never arrived. `toward` names the lane it was meant for,
    where `received` cannot.
    """

    kind: ArrowKind
    sent: Place
    received: Place | None = None
    label: str = ""
    lost: bool = False
    toward: Lane | None = None


class Mark(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Something that one lane did by itself: a circle with a letter in it."""

    kind: MarkKind
    lane: Lane
    step: int
    label: str = ""


class Kill(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The instant at which the tasks on `lanes` died."""

    step: int
    lanes: tuple[Lane, ...] = ()
    label: str = "kill"


class Attempt(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename={"begin": "from", "end": "to"},
):
    """One attempt at running the job, from its start to its end (null: until the trace ends)."""

    name: str
    begin: int
    end: int | None = None
    parallelism: int = 0
    restored: int | None = None


class Trace(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Everything that a space-time diagram draws."""

    lanes: tuple[str, ...] = ()
    arrows: tuple[Arrow, ...] = ()
    marks: tuple[Mark, ...] = ()
    kills: tuple[Kill, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    steps: int = 0


def mentioned_lanes(trace: Trace) -> Iterator[Lane]:
    """Every lane that anything in the trace touches, repeats included."""
    for arrow in trace.arrows:
        yield arrow.sent[0]
        if arrow.received is not None:
            yield arrow.received[0]
        if arrow.toward is not None:
            yield arrow.toward
    for mark in trace.marks:
        yield mark.lane
    for kill in trace.kills:
        yield from kill.lanes


def lane_indexes(trace: Trace) -> dict[Lane, int]:
    """The row of each lane, by its name and by its number; lanes that are not listed come last."""
    indexes: dict[Lane, int] = {}
    for index, name in enumerate(trace.lanes):
        indexes.setdefault(name, index)
        indexes[index] = index
    following = len(trace.lanes)
    for lane in mentioned_lanes(trace):
        if lane not in indexes:
            indexes[lane] = following
            following += 1
    return indexes


def lane_names(trace: Trace) -> tuple[str, ...]:
    """The lanes from top to bottom, as they are written beside the diagram."""
    names = dict(enumerate(trace.lanes))
    for lane, index in lane_indexes(trace).items():
        names.setdefault(index, lane if isinstance(lane, str) else f"lane {lane}")
    return tuple(names[index] for index in sorted(names))


def lane_name(trace: Trace, lane: Lane) -> str:
    """The name of one lane."""
    if isinstance(lane, str):
        return lane
    return trace.lanes[lane] if 0 <= lane < len(trace.lanes) else f"lane {lane}"


def all_steps(trace: Trace) -> Iterator[int]:
    """Every step at which something begins, happens or ends."""
    for arrow in trace.arrows:
        yield arrow.sent[1]
        if arrow.received is not None:
            yield arrow.received[1]
    for mark in trace.marks:
        yield mark.step
    for kill in trace.kills:
        yield kill.step
    for attempt in trace.attempts:
        yield attempt.begin
        if attempt.end is not None:
            yield attempt.end
