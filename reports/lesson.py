"""How to read a space-time diagram, taught on one that is there.

Each lesson points, by a number, at the first place in the trace where the thing it explains happens; what the
trace does not show is not taught. The texts say what a record, a barrier, a checkpoint, a death and a restore
mean for the one question of the page: was every record counted once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from onceproof.reports.diagram import Callout
from onceproof.reports.text import listing, visible
from onceproof.reports.trace import Arrow, Attempt, Mark, Place, Trace, lane_name


@dataclass(frozen=True)
class Lesson:
    """One numbered explanation."""

    number: int
    title: str
    text: str
    place: Place
    to: Place | None

    @property
    def callout(self) -> Callout:
        """The number in the diagram."""
        return Callout(self.number, self.place, self.to)


Part = tuple[str, str, Place, Place | None]


def first_mark(trace: Trace, kind: str, since: int = 0) -> Mark | None:
    """The first mark of a kind from a step on."""
    return min(
        (mark for mark in trace.marks if mark.kind == kind and mark.step >= since),
        key=lambda mark: mark.step,
        default=None,
    )


def first_arrow(trace: Trace, kind: str, where: Callable[[Arrow], bool] = lambda arrow: True) -> Arrow | None:
    """The first arrow of a kind, by when it was sent."""
    return min(
        (arrow for arrow in trace.arrows if arrow.kind == kind and where(arrow)),
        key=lambda arrow: arrow.sent[1],
        default=None,
    )


def arrives(arrow: Arrow) -> bool:
    """Whether the message reached its lane."""
    return arrow.received is not None and not arrow.lost


def record_parts(trace: Trace) -> Iterator[Part]:
    """A record, and the row that it becomes."""
    arrow = first_arrow(trace, "record", arrives)
    if arrow is not None and arrow.received is not None:
        sender, receiver = lane_name(trace, arrow.sent[0]), lane_name(trace, arrow.received[0])
        what = f"record {visible(arrow.label)}" if arrow.label else "a record"
        yield (
            "A record travels",
            f"{sender} sends {what} at step {arrow.sent[1]}; {receiver} takes it at step {arrow.received[1]}."
            " In between it waits in the channel: how long is the schedule’s choice, and where bugs hide.",
            arrow.sent,
            arrow.received,
        )
    write = first_mark(trace, "write")
    if write is not None:
        yield (
            "A row is written, invisibly",
            f"{lane_name(trace, write.lane)} writes its row into a transaction that is still open. "
            "Nobody outside can see it yet.",
            (write.lane, write.step),
            None,
        )


def checkpoint_parts(trace: Trace) -> Iterator[Part]:
    """From the trigger to the visible rows."""
    trigger = first_mark(trace, "trigger")
    if trigger is not None:
        name = f"checkpoint {trigger.label}" if trigger.label.isdigit() else "a checkpoint"
        yield (
            "A checkpoint begins",
            f"The coordinator triggers {name}. Sources note how far they have read and send barriers (dashed)"
            " after the records: what was sent before a barrier belongs to the checkpoint.",
            (trigger.lane, trigger.step),
            None,
        )
    prepare = first_mark(trace, "prepare")
    if prepare is not None:
        yield (
            "The sink prepares",
            f"All barriers have reached {lane_name(trace, prepare.lane)}: it closes its transaction, which"
            " from here on survives a crash but is still invisible, and acknowledges (dotted).",
            (prepare.lane, prepare.step),
            None,
        )
    complete = first_mark(trace, "complete")
    if complete is not None:
        yield (
            "The checkpoint completes",
            "Every subtask has acknowledged. This is the instant that decides: what came before will count, "
            "what comes after can be undone.",
            (complete.lane, complete.step),
            None,
        )
    seen = first_mark(trace, "visible")
    if seen is not None:
        yield (
            "The rows become visible",
            f"The commit notification (thick) reaches {lane_name(trace, seen.lane)}, which commits. "
            "If it never arrives, the next attempt commits instead.",
            (seen.lane, seen.step),
            None,
        )


def restored_attempt(trace: Trace, since: int) -> tuple[Attempt, Attempt] | None:
    """The first attempt that began after a step, and the one before it."""
    for before, after in zip(trace.attempts, trace.attempts[1:], strict=False):
        if after.begin >= since:
            return before, after
    return None


def death_parts(trace: Trace) -> Iterator[Part]:
    """A death, and what makes it good."""
    if not trace.kills:
        return
    kill = min(trace.kills, key=lambda kill: kill.step)
    victims = listing([lane_name(trace, lane) for lane in kill.lanes]) or "nobody"
    place: Place = (kill.lanes[-1] if kill.lanes else 0, kill.step)
    yield (
        "Tasks die",
        f"At step {kill.step}, {victims} die: a cross on each lane. Their state, their open transactions and "
        "all messages under way are gone; an arrow that ends in a cross never arrived.",
        place,
        None,
    )
    pair = restored_attempt(trace, kill.step)
    if pair is None:
        return
    before, after = pair
    origin, rest = "starts from nothing", "No checkpoint had completed, so nothing had become visible."
    if after.restored is not None:
        origin = f"restores checkpoint {after.restored}"
        rest = "What that checkpoint had prepared is committed, what came later is aborted."
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
            "Reading goes on from the checkpoint",
            f"{lane_name(trace, again.sent[0])} is back where the checkpoint had it: what the dead attempt"
            " had read beyond that passes again. It counts once all the same, since that count died with it.",
            again.sent,
            again.received,
        )


def end_parts(trace: Trace) -> Iterator[Part]:
    """Why it all comes out right."""
    seen = [mark for mark in trace.marks if mark.kind == "visible"]
    deaths = [kill.step for kill in trace.kills]
    last = max(seen, key=lambda mark: mark.step, default=None)
    if last is not None and deaths and last.step >= max(deaths):
        yield (
            "Each row is seen once",
            f"At step {last.step} the last rows become visible. A row may have been written twice, but only"
            " one of the two was ever committed: to a reader outside, nobody had died.",
            (last.lane, last.step),
            None,
        )


def lessons(trace: Trace) -> tuple[Lesson, ...]:
    """What this trace can teach, in the order in which it is best learnt."""
    parts = [*record_parts(trace), *checkpoint_parts(trace), *death_parts(trace), *end_parts(trace)]
    return tuple(Lesson(number, *part) for number, part in enumerate(parts, 1))
