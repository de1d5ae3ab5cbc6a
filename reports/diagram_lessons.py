"""Explains how to read a space-time diagram, with the events of a given trace.

Each lesson has a number in the diagram at the first event that it explains. Events that the trace does not
have are not explained. The texts say what a record, a barrier, a checkpoint, a kill and a restore mean for
the question of the page: was every record counted exactly once?
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from onceproof.reports.diagram import Callout
from onceproof.reports.text import joined, visible
from onceproof.reports.trace import Arrow, Attempt, LaneStep, Mark, Trace, lane_name


@dataclass(frozen=True)
class Lesson:
    """One numbered explanation."""

    number: int
    title: str
    text: str
    place: LaneStep
    to: LaneStep | None

    @property
    def callout(self) -> Callout:
        """Number in the diagram."""
        return Callout(self.number, self.place, self.to)


LessonPart = tuple[str, str, LaneStep, LaneStep | None]


def first_mark(trace: Trace, kind: str, since: int = 0) -> Mark | None:
    """Return the first mark of a kind at or after a step, or None."""
    return min(
        (mark for mark in trace.marks if mark.kind == kind and mark.step >= since),
        key=lambda mark: mark.step,
        default=None,
    )


def first_arrow(trace: Trace, kind: str, where: Callable[[Arrow], bool] = lambda arrow: True) -> Arrow | None:
    """Return the first sent arrow of a kind that satisfies ``where``, or None."""
    return min(
        (arrow for arrow in trace.arrows if arrow.kind == kind and where(arrow)),
        key=lambda arrow: arrow.sent[1],
        default=None,
    )


def arrives(arrow: Arrow) -> bool:
    """Return whether the message reached its lane."""
    return arrow.received is not None and not arrow.lost


def record_parts(trace: Trace) -> Iterator[LessonPart]:
    """Yield the lessons about a record and the row that it becomes."""
    arrow = first_arrow(trace, "record", arrives)
    if arrow is not None and arrow.received is not None:
        sender, receiver = lane_name(trace, arrow.sent[0]), lane_name(trace, arrow.received[0])
        what = f"record {visible(arrow.label)}" if arrow.label else "a record"
        yield (
            "A record travels",
            f"{sender} sends {what} at step {arrow.sent[1]}; {receiver} takes it at step {arrow.received[1]}."
            " In between it waits in the channel. The schedule decides how long; many bugs depend on it.",
            arrow.sent,
            arrow.received,
        )
    write = first_mark(trace, "write")
    if write is not None:
        yield (
            "A row is written, but not visible",
            f"{lane_name(trace, write.lane)} writes its row into an open transaction. "
            "Readers outside the job cannot see it yet.",
            (write.lane, write.step),
            None,
        )


def checkpoint_parts(trace: Trace) -> Iterator[LessonPart]:
    """Yield the lessons about a checkpoint, from its trigger to the visible rows."""
    trigger = first_mark(trace, "trigger")
    if trigger is not None:
        name = f"checkpoint {trigger.label}" if trigger.label.isdigit() else "a checkpoint"
        yield (
            "A checkpoint begins",
            f"The coordinator triggers {name}. Each source stores its position and sends a barrier (dashed)"
            " after the records. Records sent before the barrier belong to the checkpoint.",
            (trigger.lane, trigger.step),
            None,
        )
    prepare = first_mark(trace, "prepare")
    if prepare is not None:
        yield (
            "The sink prepares",
            f"All barriers have reached {lane_name(trace, prepare.lane)}. It prepares its transaction, which"
            " now survives a crash but is still invisible, and acknowledges the checkpoint (dotted).",
            (prepare.lane, prepare.step),
            None,
        )
    complete = first_mark(trace, "complete")
    if complete is not None:
        yield (
            "The checkpoint completes",
            "Every subtask has acknowledged. From now on the prepared transactions will be committed, even "
            "after a crash; later work can still be undone.",
            (complete.lane, complete.step),
            None,
        )
    seen = first_mark(trace, "visible")
    if seen is not None:
        yield (
            "The rows become visible",
            f"The commit notification (thick) reaches {lane_name(trace, seen.lane)}, which commits. "
            "If the notification is lost, the next attempt commits instead.",
            (seen.lane, seen.step),
            None,
        )


def restored_attempt(trace: Trace, since: int) -> tuple[Attempt, Attempt] | None:
    """Return the first attempt that began at or after a step, with the attempt before it, or None."""
    for before, after in zip(trace.attempts, trace.attempts[1:], strict=False):
        if after.begin >= since:
            return before, after
    return None


def death_parts(trace: Trace) -> Iterator[LessonPart]:
    """Yield the lessons about the first kill and the recovery from it."""
    if not trace.kills:
        return
    kill = min(trace.kills, key=lambda kill: kill.step)
    victims = joined([lane_name(trace, lane) for lane in kill.lanes]) or "no tasks"
    place: LaneStep = (kill.lanes[-1] if kill.lanes else 0, kill.step)
    yield (
        "Tasks are killed",
        f"At step {kill.step}, {victims} die (a cross on each lane). Their state, their open transactions"
        " and all messages in flight are lost; an arrow that ends in a cross never arrived.",
        place,
        None,
    )
    pair = restored_attempt(trace, kill.step)
    if pair is None:
        return
    before, after = pair
    origin, rest = "starts from the beginning", "No checkpoint had completed, so no row had become visible."
    if after.restored is not None:
        origin = f"restores checkpoint {after.restored}"
        rest = "It commits the transactions that the checkpoint lists and aborts later ones."
    rescaled = before.parallelism and after.parallelism and before.parallelism != after.parallelism
    parallelism = (
        f", now with parallelism {after.parallelism} instead of {before.parallelism}: the keys move to "
        "other subtasks"
        if rescaled
        else ""
    )
    restored = first_mark(trace, "restored", kill.step)
    lane = restored.lane if restored is not None else 0
    step = restored.step if restored is not None else after.begin
    yield (
        f"Attempt {after.name} takes over",
        f"It {origin}{parallelism}. {rest}",
        (lane, step),
        None,
    )
    again = first_arrow(trace, "record", lambda arrow: arrow.sent[1] >= after.begin and arrives(arrow))
    if again is not None:
        yield (
            "Sources read again from the checkpoint",
            f"{lane_name(trace, again.sent[0])} starts at the position in the checkpoint and sends later"
            " records again. Each still counts once, because the state that had counted it was lost.",
            again.sent,
            again.received,
        )


def end_parts(trace: Trace) -> Iterator[LessonPart]:
    """Yield the lesson about the rows that are visible at the end."""
    seen = [mark for mark in trace.marks if mark.kind == "visible"]
    deaths = [kill.step for kill in trace.kills]
    last = max(seen, key=lambda mark: mark.step, default=None)
    if last is not None and deaths and last.step >= max(deaths):
        yield (
            "Each row is seen once",
            f"At step {last.step} the last rows become visible. A row may have been written twice, but only"
            " one of the two was committed: a reader outside the job cannot see that tasks died.",
            (last.lane, last.step),
            None,
        )


def lessons(trace: Trace) -> tuple[Lesson, ...]:
    """Return the lessons of a trace, in reading order."""
    parts = [*record_parts(trace), *checkpoint_parts(trace), *death_parts(trace), *end_parts(trace)]
    return tuple(Lesson(number, *part) for number, part in enumerate(parts, 1))
