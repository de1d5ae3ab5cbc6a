"""The trace of one replayed scenario: its messages, protocol steps, kills and attempts, by lane and step.

Only a replay records a trace; bulk runs record visible events alone. The harness writes it as plain JSON,
which `msgspec.convert(mapping, Trace)` accepts. A lane is a name or an index into `lanes`. Lanes that `lanes`
does not list, such as subtasks of a later attempt, are appended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

Lane: TypeAlias = str | int
LaneStep: TypeAlias = tuple[Lane, int]
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
    """A message: lane and step at which it was sent, lane and step at which it was received.

    A lost message has `lost` true or `received` null; then `toward` may name the lane of its receiver.
    """

    kind: ArrowKind
    sent: LaneStep
    received: LaneStep | None = None
    label: str = ""
    lost: bool = False
    toward: Lane | None = None


class Mark(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A protocol step of one lane, drawn as a circle with a letter."""

    kind: MarkKind
    lane: Lane
    step: int
    label: str = ""


class Kill(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The step at which the tasks on `lanes` were killed."""

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
    """One attempt of the job, from its first to its last step (null: the end of the trace)."""

    name: str
    begin: int
    end: int | None = None
    parallelism: int = 0
    restored: int | None = None


class Trace(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The contents of a space-time diagram."""

    lanes: tuple[str, ...] = ()
    arrows: tuple[Arrow, ...] = ()
    marks: tuple[Mark, ...] = ()
    kills: tuple[Kill, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    steps: int = 0


def mentioned_lanes(trace: Trace) -> Iterator[Lane]:
    """Yield the lane of every event in the trace, with repetitions."""
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
    """Return the row of each lane by its name and by its index; unlisted lanes come last."""
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
    """Return the names of the lanes from top to bottom."""
    names = dict(enumerate(trace.lanes))
    for lane, index in lane_indexes(trace).items():
        names.setdefault(index, lane if isinstance(lane, str) else f"lane {lane}")
    return tuple(names[index] for index in sorted(names))


def lane_name(trace: Trace, lane: Lane) -> str:
    """Return the name of a lane."""
    if isinstance(lane, str):
        return lane
    return trace.lanes[lane] if 0 <= lane < len(trace.lanes) else f"lane {lane}"


def all_steps(trace: Trace) -> Iterator[int]:
    """Yield the steps of all events."""
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
