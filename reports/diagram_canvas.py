"""The background and the texts of a space-time diagram: attempts, lanes, time scale, kills, legend, tooltips.

The lane names are a separate picture, so that they stay visible while a long trace scrolls. Every kind of
message has a line style and every kind of mark a letter, so that colour is never the only sign.
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from markupsafe import Markup

from onceproof.reports.diagram_layout import Space, TimeAxis
from onceproof.reports.svg import add, markup, picture
from onceproof.reports.text import counted, joined, shortened, visible, width
from onceproof.reports.trace import (
    Arrow,
    Attempt,
    Kill,
    Lane,
    Mark,
    Trace,
    all_steps,
    lane_indexes,
    lane_name,
    lane_names,
)

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


ATTEMPT_NAME_LINE = 17.0
ATTEMPT_DETAIL_LINE = 32.0
TICK_LINE = 52.0
KILL_LINE = 72.0
FIRST_LANE = 100.0
BELOW_LANES = 32.0
LONGEST_NAME = 26
NAME_SIZE = 12.0
LABEL_SIZE = 11.0
CROSS = 6.0


class Canvas:
    """One diagram under construction: positions, sizes, and the areas that are already occupied."""

    def __init__(self, trace: Trace, name: str) -> None:
        self.trace = trace
        self.name = name
        self.names = lane_names(trace)
        self.rows = lane_indexes(trace)
        self.shown_names = [shortened(visible(name), LONGEST_NAME) for name in self.names]
        self.names_width = max((width(name, NAME_SIZE) for name in self.shown_names), default=40.0) + 24.0
        self.axis = TimeAxis(all_steps(trace), self.names_width)
        self.spacing = 50.0 if len(self.names) <= 6 else 45.0 if len(self.names) <= 10 else 38.0
        self.width = self.axis.width
        self.height = FIRST_LANE + self.spacing * max(0, len(self.names) - 1) + BELOW_LANES
        self.space = Space()
        self.lines = Space()
        self.picture = picture(name, self.width, self.height, "Space-time diagram", describe(trace))
        # The strips for printing refer to this group, so styles must match from here downwards.
        self.root = add(self.picture, "g", class_="space-time", id=f"{name}-all")

    def y(self, lane: Lane) -> float:
        """Return the y coordinate of a lane."""
        return FIRST_LANE + self.spacing * self.rows[lane]

    def write(
        self,
        group: Element,
        text: str,
        x: float,
        y: float,
        anchor: str,
        class_: str = "",
        crossings: int = 99,
        at: str | None = None,
    ) -> bool:
        """Write a text if its area is free and at most `crossings` lines cross it; return success.

        ``at`` holds lanes and steps of what the text names, for the script of the page.
        """
        wide = width(text, LABEL_SIZE)
        left = x if anchor == "start" else x - wide if anchor == "end" else x - wide / 2
        box = (left - 1, y - 9.5, left + wide + 1, y + 2.5)
        if left < 0 or left + wide > self.width or not self.space.is_free(*box):
            return False
        if crossings < 99 and self.lines.overlaps(*box) > crossings:
            return False
        self.space.take(*box)
        add(group, "text", text, x=x, y=y, text_anchor=anchor, class_=class_ or None, data_at=at)
        return True


def draw_lane_names(canvas: Canvas) -> Markup:
    """Return the picture with the lane names, which stands to the left of the diagram."""
    wide = canvas.names_width
    name = f"{canvas.name}-lanes"
    root = picture(name, wide, canvas.height, "Lanes", ", ".join(canvas.names))
    group = add(root, "g", class_="space-time lane-names", id=f"{name}-all")
    for index, text in enumerate(canvas.shown_names):
        y = FIRST_LANE + canvas.spacing * index
        label = add(group, "text", text, x=wide - 12.0, y=y + 4.0, text_anchor="end")
        if text != canvas.names[index]:
            add(label, "title", canvas.names[index])
    return markup(root)


def attempt_span(canvas: Canvas, index: int) -> tuple[float, float, float]:
    """Return the left and right edge of an attempt's background, and the left edge of the next attempt."""
    attempts = canvas.trace.attempts
    left = 0.0 if index == 0 else canvas.axis.at(attempts[index].begin)
    if index == len(attempts) - 1:
        return left, canvas.width, canvas.width
    following = canvas.axis.at(attempts[index + 1].begin)
    end = attempts[index].end
    return left, following if end is None else min(canvas.axis.at(end), following), following


def attempt_details(attempt: Attempt) -> tuple[str, str, str]:
    """Return the parallelism and the restored checkpoint of an attempt as texts of three lengths."""
    if not attempt.parallelism:
        return "", "", restored_text(attempt).removeprefix(", ")
    origin = f" · checkpoint {attempt.restored}" if attempt.restored is not None else ""
    long = f"parallelism {attempt.parallelism}"
    return f"p {attempt.parallelism}", long + origin, long + restored_text(attempt)


def draw_attempts(canvas: Canvas) -> None:
    """Draw the background of each attempt with its name, parallelism and restored checkpoint."""
    group = add(canvas.root, "g", class_="attempts")
    for index, attempt in enumerate(canvas.trace.attempts):
        left, right, following = attempt_span(canvas, index)
        tone = "attempt odd" if index % 2 else "attempt"
        box = add(group, "rect", class_=tone, x=left, y=0, width=max(1.0, right - left), height=canvas.height)
        add(box, "title", attempt_text(attempt))
        if following - right > 1.0:
            down = add(
                group, "rect", class_="down", x=right, y=0, width=following - right, height=canvas.height
            )
            add(down, "title", "between two attempts: no task runs")
        if index:
            add(group, "path", class_="border", d=f"M{left:.1f} 0V{canvas.height:.0f}")
        short, long, full = attempt_details(attempt)
        details = (full, long, short)
        names = (f"attempt {attempt.name}", attempt.name)
        lines = ((names, ATTEMPT_NAME_LINE, "name"), (details, ATTEMPT_DETAIL_LINE, "detail"))
        for texts, y, class_ in lines:
            fitting = next((text for text in texts if width(text, LABEL_SIZE) <= right - left - 14.0), "")
            if fitting:
                add(group, "text", fitting, class_=class_, x=left + 8.0, y=y)


def draw_ground(canvas: Canvas) -> None:
    """Draw the lanes and the time scale."""
    ground = add(canvas.root, "g", class_="ground")
    for lane in range(len(canvas.names)):
        add(ground, "path", d=f"M0 {FIRST_LANE + canvas.spacing * lane:.0f}H{canvas.width:.0f}")
    for step, x in canvas.axis.ticks():
        add(ground, "text", f"{step}", x=x, y=TICK_LINE, text_anchor="middle")
    for x in canvas.axis.cuts:
        cut = add(ground, "text", "≈", class_="cut", x=x, y=TICK_LINE, text_anchor="middle")
        add(cut, "title", "no events here: the time axis is shortened")


def draw_kills(canvas: Canvas) -> None:
    """Draw a vertical line for each kill, with a cross on each killed lane."""
    group = add(canvas.root, "g", class_="kills")
    for kill in canvas.trace.kills:
        x = canvas.axis.at(kill.step)
        line = add(group, "path", class_="line", d=f"M{x:.1f} {KILL_LINE - 6:.0f}V{canvas.height:.0f}")
        strokes = ""
        for lane in kill.lanes:
            y = canvas.y(lane)
            strokes += f"M{x - CROSS:.1f} {y - CROSS:.1f}l12 12m0 -12l-12 12"
            canvas.space.take(x - CROSS - 1, y - CROSS - 1, x + CROSS + 1, y + CROSS + 1)
        crossed = add(group, "path", class_="cross", d=strokes) if strokes else line
        if kill.lanes:
            crossed.set("data-at", " ".join(f"{canvas.rows[lane]} {kill.step}" for lane in kill.lanes))
        add(crossed, "title", kill_text(canvas.trace, kill))
        for text in (shortened(visible(kill.label), 40), "kill", "✕"):
            if canvas.write(group, text, x + 5, KILL_LINE, "start") or canvas.write(
                group, text, x - 5, KILL_LINE, "end"
            ):
                break
        # Reserve the line, so that no label crosses it.
        canvas.space.take(x - 1.5, KILL_LINE + 4, x + 1.5, canvas.height)
