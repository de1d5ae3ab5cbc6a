"""The space-time diagram as SVG: messages between subtasks, their protocol steps, and kills.

Lanes are subtasks, time runs to the right. Every element has a tooltip; a label is drawn only if there is
room. Marks get their place first, then callouts, then the labels of kills and marks, and records last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final, TypeAlias
from xml.etree.ElementTree import Element

from markupsafe import Markup

from onceproof.reports.diagram_canvas import (
    ARROWS,
    MARKS,
    Canvas,
    arrow_text,
    draw_attempts,
    draw_ground,
    draw_kills,
    draw_lane_names,
    mark_text,
)
from onceproof.reports.diagram_layout import FIT_WIDTH
from onceproof.reports.svg import add, markup
from onceproof.reports.text import shortened, visible
from onceproof.reports.trace import Arrow, LaneStep, Mark, Trace

LABELLED_MARKS: Final = ("complete", "trigger", "restored", "visible", "aborted", "checkpoint_aborted")
# If several marks of a lane happen at once, the first of these stands on the lane.
MARK_RANK: Final = ("complete", "visible", "restored", "trigger", "prepare", "aborted", "write", "snapshot")
SMALL_MARKS: Final = ("snapshot", "stored", "finished")
RADIUS = 8.5
SMALL_RADIUS = 7.0
LEVEL = 18.5
LONGEST_LABEL = 18
CALLOUT = 8.0
CALLOUT_PLACES: Final = ((-18, -15), (18, -15), (-18, 15), (18, 15), (0, -22), (0, 22), (-26, 0), (26, 0))
Line: TypeAlias = tuple[float, float, float, float]
SHARES: Final = (0.5, 0.38, 0.62, 0.26, 0.74, 0.14, 0.86)
# Number of line segments that may cross a label: none, else those of one line.
CROSSINGS: Final = (0, 3)


@dataclass(frozen=True)
class Callout:
    """A number in the diagram to which a text refers, beside a place or the middle of an arrow."""

    number: int
    place: LaneStep
    to: LaneStep | None = None


@dataclass(frozen=True)
class Diagram:
    """The picture of the lane names, the picture of the events, and what the legend must explain."""

    lanes: Markup
    lanes_width: float
    body: Markup
    body_width: float
    height: float
    strips: tuple[tuple[float, float], ...]
    """(left, width) of each strip into which a diagram is cut for printing; empty if it fits."""
    arrows: tuple[str, ...]
    marks: tuple[str, ...]
    has_kills: bool
    has_losses: bool
    unlabelled: int
    """Number of records whose label had no room."""


def radius_of(mark: Mark) -> float:
    """Return the radius of a mark's circle."""
    return SMALL_RADIUS if mark.kind in SMALL_MARKS else RADIUS


def place_marks(canvas: Canvas) -> dict[int, tuple[float, float]]:
    """Return (x, y) of each mark by index: on its lane, or above or below if another mark is there."""
    marks = canvas.trace.marks
    ranks = {kind: rank for rank, kind in enumerate(MARK_RANK)}
    places: dict[int, tuple[float, float]] = {}
    for index in sorted(range(len(marks)), key=lambda i: (ranks.get(marks[i].kind, 99), marks[i].step)):
        mark = marks[index]
        x, y, radius = canvas.axis.at(mark.step), canvas.y(mark.lane), radius_of(mark)
        for level in (0.0, -LEVEL, LEVEL):
            middle = y + level
            if canvas.space.take_if_free(x - radius, middle - radius, x + radius, middle + radius):
                break
        else:
            middle = y - LEVEL / 2
        places[index] = (x, middle)
    return places


def draw_marks(canvas: Canvas, places: dict[int, tuple[float, float]]) -> None:
    """Draw a circle with a letter for each mark, with a line to its lane if it was moved."""
    group = add(canvas.root, "g", class_="marks")
    for index, mark in enumerate(canvas.trace.marks):
        (x, y), radius, lane = places[index], radius_of(mark), canvas.y(mark.lane)
        circle = add(group, "g", class_=mark.kind, data_at=f"{canvas.rows[mark.lane]} {mark.step}")
        add(circle, "title", mark_text(canvas.trace, mark))
        if abs(lane - y) > radius:
            edge = y + radius if lane > y else y - radius
            add(circle, "path", class_="leader", d=f"M{x:.1f} {edge:.1f}V{lane:.1f}")
        add(circle, "circle", cx=x, cy=y, r=radius)
        add(circle, "text", MARKS[mark.kind][0], x=x, y=y + 3.7, text_anchor="middle")


def label_marks(canvas: Canvas, group: Element, places: dict[int, tuple[float, float]]) -> None:
    """Write the checkpoint or transaction of each mark beside it, if there is room."""
    for kind in LABELLED_MARKS:
        for index, mark in enumerate(canvas.trace.marks):
            if mark.kind != kind or not mark.label:
                continue
            x, y = places[index]
            label = shortened(visible(mark.label), LONGEST_LABEL)
            texts = (f"checkpoint {label}", label) if label.isdigit() else (label,)
            for text in texts:
                beside = radius_of(mark) + 4
                at = f"{canvas.rows[mark.lane]} {mark.step}"
                if canvas.write(group, text, x + beside, y - 5, "start", kind, at=at) or canvas.write(
                    group, text, x, y - 13, "middle", kind, at=at
                ):
                    break


def arrow_ends(
    canvas: Canvas, arrow: Arrow, places: set[tuple[float, float]]
) -> tuple[float, float, float, float]:
    """Return (x1, y1, x2, y2) of an arrow; a lost message ends before its target."""
    x1, y1 = canvas.axis.at(arrow.sent[1]), canvas.y(arrow.sent[0])
    if arrow.received is not None:
        x2, y2 = canvas.axis.at(arrow.received[1]), canvas.y(arrow.received[0])
        length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
        if not arrow.lost and ((x2, y2) not in places or length < 2 * RADIUS):
            return x1, y1, x2, y2
        # The arrow ends before the mark at its target, or before the cross of a killed lane.
        trim = min(16.0, length / 2) / (length or 1.0) if arrow.lost else (RADIUS + 0.5) / length
        return x1, y1, x2 - (x2 - x1) * trim, y2 - (y2 - y1) * trim
    upward = arrow.kind == "acknowledge" or canvas.rows[arrow.sent[0]] == len(canvas.names) - 1
    target = (
        canvas.y(arrow.toward) if arrow.toward is not None else y1 + canvas.spacing * (-1 if upward else 1)
    )
    # A kill soon after the send ended the message; otherwise its end is arbitrary.
    reach = x1 + 8 * canvas.axis.unit
    deaths = [canvas.axis.at(kill.step) for kill in canvas.trace.kills if kill.step >= arrow.sent[1]]
    x2 = min((x for x in deaths if x <= reach), default=min(canvas.width - 8, x1 + 2 * canvas.axis.unit))
    return x1, y1, x2, y1 + (target - y1) * 0.8


def draw_arrows(canvas: Canvas, places: set[tuple[float, float]]) -> list[tuple[Arrow, Line]]:
    """Draw the messages, kind by kind, and return them with their lines; a lost one ends in a cross."""
    definitions = add(canvas.root, "defs")
    drawn: list[tuple[Arrow, Line]] = []
    for kind in ARROWS:
        arrows = [arrow for arrow in canvas.trace.arrows if arrow.kind == kind]
        if not arrows:
            continue
        head = f"{canvas.name}-{kind}"
        draw_head(definitions, head, kind)
        group = add(canvas.root, "g", class_=f"arrows {kind}")
        for arrow in arrows:
            ends = arrow_ends(canvas, arrow, places)
            x1, y1, x2, y2 = ends
            is_lost = arrow.lost or arrow.received is None
            path = f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}".replace(".0", "")
            at = places_of(canvas, arrow)
            line = add(group, "path", d=path, data_at=at, marker_end=None if is_lost else f"url(#{head})")
            add(line, "title", arrow_text(canvas.trace, arrow))
            if is_lost:
                cross = f"M{x2 - 4.5:.1f} {y2 - 4.5:.1f}l9 9m0 -9l-9 9"
                add(group, "path", class_="miss", d=cross, data_at=at)
            canvas.lines.take_line(*ends)
            drawn.append((arrow, ends))
    return drawn


def places_of(canvas: Canvas, arrow: Arrow) -> str:
    """Return lane and step at which a message was sent, and at which it was received, for the script."""
    ends = (arrow.sent,) if arrow.received is None else (arrow.sent, arrow.received)
    return " ".join(f"{canvas.rows[lane]} {step}" for lane, step in ends)


def draw_head(definitions: Element, name: str, kind: str) -> None:
    """Define the arrowhead of one kind of message."""
    size = 11 if kind == "notify" else 9
    head = add(
        definitions,
        "marker",
        id=name,
        class_=f"head {kind}",
        viewBox="0 0 10 10",
        refX=9,
        refY=5,
        markerWidth=size,
        markerHeight=size,
        markerUnits="userSpaceOnUse",
        orient="auto",
    )
    add(head, "path", d="M0 1L10 5L0 9Z")


def label_places(line: Line) -> list[tuple[float, float, str]]:
    """Return the possible (x, y, anchor) of an arrow's label, the best first.

    An arrow of records runs down and to the right, so the areas up and right, and down and left of a point on
    it are free. At a steep arrow the label stands level with the point.
    """
    x1, y1, x2, y2 = line
    is_steep = abs(y2 - y1) > abs(x2 - x1)
    over, under = ((6.0, 2.0), (-6.0, 8.0)) if is_steep else ((2.0, -4.0), (-2.0, 13.0))
    return [
        (x1 + (x2 - x1) * share + dx, y1 + (y2 - y1) * share + dy, anchor)
        for (dx, dy), anchor in ((over, "start"), (under, "end"))
        for share in SHARES
    ]


def label_records(canvas: Canvas, group: Element, drawn: Sequence[tuple[Arrow, Line]]) -> int:
    """Write the label of each record if there is room; return the number of omitted labels."""
    unlabelled = 0
    for arrow, line in drawn:
        if arrow.kind != "record" or not arrow.label:
            continue
        text = shortened(visible(arrow.label), LONGEST_LABEL)
        unlabelled += not any(
            canvas.write(group, text, x, y, anchor, "record", crossings, places_of(canvas, arrow))
            for crossings in CROSSINGS
            for x, y, anchor in label_places(line)
        )
    return unlabelled


def draw_callouts(canvas: Canvas, callouts: Sequence[Callout]) -> None:
    """Draw the numbers to which a text refers."""
    if not callouts:
        return
    group = add(canvas.root, "g", class_="callouts")
    for callout in callouts:
        (x, y), half = callout_anchor(canvas, callout), CALLOUT
        for right, down in CALLOUT_PLACES:
            left, top = x + right - half, y + down - half
            if left > 0 and canvas.space.take_if_free(left, top, left + 2 * half, top + 2 * half):
                break
        else:
            left, top = x - half, y - 3 * half
        add(group, "rect", x=left, y=top, width=2 * half, height=2 * half, rx=3)
        add(group, "text", f"{callout.number}", x=left + half, y=top + half + 4, text_anchor="middle")


def callout_anchor(canvas: Canvas, callout: Callout) -> tuple[float, float]:
    """Return (x, y) of the place to which a callout points."""
    x, y = canvas.axis.at(callout.place[1]), canvas.y(callout.place[0])
    if callout.to is None:
        return x, y
    return (x + canvas.axis.at(callout.to[1])) / 2, (y + canvas.y(callout.to[0])) / 2


def strips(wide: float) -> tuple[tuple[float, float], ...]:
    """Return (left, width) of the strips for printing a diagram of this width; empty if it fits."""
    if wide <= 1.5 * FIT_WIDTH:
        return ()
    count = ceil(wide / FIT_WIDTH)
    return tuple((index * wide / count, wide / count) for index in range(count))


def draw(trace: Trace, name: str, callouts: Sequence[Callout] = ()) -> Diagram:
    """Return the diagram of a trace; `name` is the prefix of its ids and must be unique on the page."""
    canvas = Canvas(trace, name)
    draw_attempts(canvas)
    draw_ground(canvas)
    places = place_marks(canvas)
    drawn = draw_arrows(canvas, set(places.values()))
    draw_kills(canvas)
    draw_marks(canvas, places)
    draw_callouts(canvas, callouts)
    labels = add(canvas.root, "g", class_="labels")
    label_marks(canvas, labels, places)
    unlabelled = label_records(canvas, labels, drawn)
    used_arrows = {arrow.kind for arrow in trace.arrows}
    used_marks = {mark.kind for mark in trace.marks}
    return Diagram(
        lanes=draw_lane_names(canvas),
        lanes_width=canvas.names_width,
        body=markup(canvas.picture),
        body_width=canvas.width,
        height=canvas.height,
        strips=strips(canvas.width),
        arrows=tuple(kind for kind in reversed(ARROWS) if kind in used_arrows),
        marks=tuple(kind for kind in MARKS if kind in used_marks),
        has_kills=bool(trace.kills),
        has_losses=any(arrow.lost or arrow.received is None for arrow in trace.arrows),
        unlabelled=unlabelled,
    )
