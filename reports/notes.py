"""Notes: what a run has noticed that affects no verdict, in one list for each kind.

The rules this module lives by:

- A kind has a title and a remedy, and an item for each family, state, timer or sink that it concerns.
- Notes are for users. The results of built-in families hold none.
- All notes of the terminal, the page and JUnit XML come from ``notes_of``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from onceproof.reports.model import FamilyResult, KnownFailure, Report
from onceproof.reports.text import counted, words

UNDECIDED = "undecided: "
"""Begins what a run says of rows that a checker could not judge."""
JUDGED = "judged by "
"""Begins what a run of a script of Flink SQL says of who has judged it."""
NO_JUDGE = "no judge: "
"""Stands behind it, before the reason, where there is none."""
MOST_ITEMS = 4
"""How many items of a kind a line in the terminal names."""

NEVER = {
    "expiry": (
        "Times to live that never expired",
        "draw more records of a key; time passes by 25 hours at most, so let a trial have a shorter one",
    ),
    "timer": (
        "Timers in processing time that never fired",
        "draw more records, so that time passes while a timer waits",
    ),
    "read": (
        "State that was never read after a restore",
        "draw more records of a key, so that some of them come after a restore",
    ),
    "rows": (
        "Sinks without a row",
        "look at the records that come, and at what the job filters out",
    ),
    "kill": (
        "No kill between the first row and the last",
        "draw more records, so that several checkpoints complete",
    ),
    "upgrade": (
        "No upgrade",
        "give more records, so that a checkpoint completes before the old version has ended",
    ),
}
"""By kind of what never happened, the title and the remedy."""


@dataclass(frozen=True)
class Note:
    """The notes of one kind."""

    title: str
    items: tuple[str, ...]
    remedy: str

    def __str__(self) -> str:
        """Return the note as a line."""
        more = len(self.items) - MOST_ITEMS
        rest = f"; and {more:,} more" if more > 0 else ""
        return f"note: {self.title}: {'; '.join(self.items[:MOST_ITEMS])}{rest} ({self.remedy})"


class HasSignature(Protocol):
    """An object with a family and a signature."""

    @property
    def family(self) -> str:
        """Name of the family."""

    @property
    def anomaly(self) -> str:
        """The anomaly, or the function that raised."""

    @property
    def property(self) -> str:
        """The violated property, or the type of the exception."""


def signature_text(broken: HasSignature) -> str:
    """Return a text such as `word_count: exactly once, lost`."""
    return f"{broken.family}: {words(broken.property)}, {broken.anomaly}"


def notes_of(report: Report) -> tuple[Note, ...]:
    """Return the notes of a report, one for each kind."""
    families = report.families
    late = [
        f"{each.family}: {counted(each.timers_only_at_end, 'timer')}"
        for each in families
        if each.timers_only_at_end
    ]
    noticed = [
        (what, f"{each.family}: {what.removeprefix(UNDECIDED)}, in {counted(scenarios, 'scenario')}")
        for each in families
        for what, scenarios in each.notes.items()
        if not what.startswith(JUDGED)
    ]
    changed = [text for what, text in noticed if not what.startswith(UNDECIDED)]
    undecided = [text for what, text in noticed if what.startswith(UNDECIDED)]
    kinds = [
        Note(
            "Known failures that did not occur",
            _absent(report),
            "if it is fixed, remove it from the settings",
        ),
        Note(
            "Event-time timers that fired only at the end of the input, so no fault came after one",
            tuple(late),
            "let timestamps span more than the timers wait for",
        ),
        Note(
            "Values that were modified after they were handed over",
            tuple(changed),
            "the rows are right, because the engine had taken a copy",
        ),
        Note(
            "Rows with more records behind the watermark than can be examined",
            tuple(undecided),
            "they are not judged: let fewer records of a row be late",
        ),
        *(Note(title, _never(families, kind), remedy) for kind, (title, remedy) in NEVER.items()),
    ]
    return tuple(note for note in kinds if note.items)


def judges_of(notes: Mapping[str, int]) -> dict[str, int]:
    """Return by who has judged the scenarios of a script in how many; why there is none comes last."""
    found = {what.removeprefix(JUDGED): each for what, each in notes.items() if what.startswith(JUDGED)}
    return dict(sorted(found.items(), key=lambda each: (each[0].startswith(NO_JUDGE), -each[1])))


def judged_text(notes: Mapping[str, int], scenarios: int) -> str:
    """Return `judged by DuckDB in 9 of 12 scenarios, not judged in 3 (…)`; "" where no note says so."""
    judges = judges_of(notes)
    reasons = {who: each for who, each in judges.items() if who.startswith(NO_JUDGE)}
    by = [f"by {who} in {each:,}" for who, each in judges.items() if who not in reasons]
    parts = [f"judged {', '.join(by)} of {counted(scenarios, 'scenario')}"] if by else []
    if reasons:
        why = [f"{who.removeprefix(NO_JUDGE)} in {each:,}" for who, each in reasons.items()]
        parts.append(f"not judged in {sum(reasons.values()):,} ({'; '.join(why)})")
    return ", ".join(parts)


def absent_known_failures(report: Report) -> tuple[KnownFailure, ...]:
    """Return the known signatures that did not occur although the run of their family was complete."""
    if report.interrupted:
        return ()
    return tuple(known for known in report.known if known.of and not known.scenarios)


def _absent(report: Report) -> tuple[str, ...]:
    return tuple(
        f"{signature_text(known)}, in {counted(known.of, 'scenario')}{without_text(known)}"
        for known in absent_known_failures(report)
    )


def without_text(known: KnownFailure) -> str:
    """Return `, nor in the 4 nights before`; empty if the last night had the failure or is not stored."""
    nights = known.nights_without
    if not nights:
        return ""
    return ", nor in the night before" if nights == 1 else f", nor in the {nights:,} nights before"


def _never(families: tuple[FamilyResult, ...], kind: str) -> tuple[str, ...]:
    """Return an item for each thing of a kind that happened in no scenario of a family."""
    return tuple(
        f"{each.family}: {_what(name)} in 0 of {counted(scenarios, 'scenario')}"
        for each in families
        for name, scenarios in each.never.items()
        if name.partition("/")[0] == kind
    )


def _what(name: str) -> str:
    """Return in words what never happened: `the TTL of 'seen' (60 s) expired`."""
    kind, _, subject = name.partition("/")
    match kind:
        case "expiry":
            state, _, milliseconds = subject.rpartition("/")
            return f"the TTL of {state!r} ({_span_text(int(milliseconds))}) expired"
        case "timer":
            return f"a timer of {subject} fired"
        case "read":
            return f"restored entries of state {subject!r} were read"
        case "rows":
            return f"a row of sink {subject} became visible" if subject else "a row became visible"
        case "upgrade":
            return "the new version began"
    return "a kill came between"


def _span_text(milliseconds: int) -> str:
    """Return a time to live in the largest unit that divides it: `60 s`, `36 h`, `7 days`."""
    for size, unit in ((86_400_000, "days"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if milliseconds % size == 0 and milliseconds > size:
            return f"{milliseconds // size:,} {unit}"
    return f"{milliseconds:,} ms"
