"""The texts of a space-time diagram: its legend, its tooltips, and its description for screen readers.

Every kind of message has a line style and every kind of mark a letter, so that colour is never the only sign.
"""

from __future__ import annotations

from typing import Final

from onceproof.reports.text import counted, joined
from onceproof.reports.trace import Arrow, Attempt, Kill, Mark, Trace, lane_name, lane_names

# The letter in the circle and the text of the legend, in the legend's order.
MARKS: Final = {
    "trigger": ("T", "checkpoint triggered"),
    "write": ("w", "row written, into the open transaction if there is one"),
    "snapshot": ("S", "state snapshotted"),
    "prepare": ("P", "transaction prepared"),
    "stored": ("U", "upload durable"),
    "complete": ("C", "checkpoint complete"),
    "visible": ("V", "output visible"),
    "restored": ("R", "restored"),
    "aborted": ("A", "transaction aborted"),
    "checkpoint_aborted": ("X", "checkpoint aborted"),
    "finished": ("F", "finished"),
}
# In drawing order; the most important kinds lie on top.
ARROWS: Final = {
    "acknowledge": "acknowledgement",
    "trigger": "trigger",
    "control": "control message",
    "barrier": "barrier",
    "record": "record",
    "notify": "commit notification",
}


def restored_text(attempt: Attempt) -> str:
    """Return `, restored from checkpoint 1`; empty for an attempt without a checkpoint."""
    return f", restored from checkpoint {attempt.restored}" if attempt.restored is not None else ""


def attempt_text(attempt: Attempt) -> str:
    """Return a text such as `Attempt 1.2, parallelism 3, restored from checkpoint 1`."""
    parallelism = f", parallelism {attempt.parallelism}" if attempt.parallelism else ""
    return f"Attempt {attempt.name}{parallelism}{restored_text(attempt)}"


def kill_text(trace: Trace, kill: Kill) -> str:
    """Return the step of a kill, its label, and the killed lanes."""
    victims = joined([lane_name(trace, lane) for lane in kill.lanes]) or "no task"
    return f"step {kill.step}, {kill.label}: {victims} died"


def mark_text(trace: Trace, mark: Mark) -> str:
    """Return the step, the lane and the meaning of a mark."""
    label = f": {mark.label}" if mark.label else ""
    return f"step {mark.step}, {lane_name(trace, mark.lane)}: {MARKS[mark.kind][1]}{label}"


def arrow_text(trace: Trace, arrow: Arrow) -> str:
    """Return the kind of a message, its sender, its receiver, and whether it was lost."""
    label = f" {arrow.label}" if arrow.label else ""
    sent = f"{ARROWS[arrow.kind]}{label}: {lane_name(trace, arrow.sent[0])} at step {arrow.sent[1]}"
    target = arrow.received[0] if arrow.received is not None else arrow.toward
    to = f", to {lane_name(trace, target)}" if target is not None else ""
    if arrow.lost or arrow.received is None:
        return f"{sent}{to}; it never arrived"
    return f"{sent}{to} at step {arrow.received[1]}"


def describe(trace: Trace) -> str:
    """Return the trace as a text for screen readers."""
    names = lane_names(trace)
    parts = [
        f"{counted(len(names), 'lane')}: {', '.join(names)}.",
        f"{counted(len(trace.arrows), 'message')} over {counted(trace.steps, 'step')}.",
        *(f"{attempt_text(attempt)}, from step {attempt.begin}." for attempt in trace.attempts),
        *(f"{kill_text(trace, kill).capitalize()}." for kill in trace.kills),
    ]
    return " ".join(parts)
