"""Charts of the trend over nights: a column per night with its verdict, and a line per figure.

A sign and a tooltip show the verdict of a night as well as the colour. Tonight is the last column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from onceproof.reports.charts import LEFT, RIGHT, WIDTH
from onceproof.reports.model import Night
from onceproof.reports.svg import add, markup, picture
from onceproof.reports.text import compact, counted, number

NARROWEST, WIDEST = 34.0, 90.0
BASE, HIGHEST = 112.0, 80.0
LINE_TOP, LINE_BOTTOM = 12.0, 60.0
LEAST_SPREAD = 0.2
"""The vertical range of a line is at least this share of its highest value, so that noise looks small."""

TONES: Final = {"passed": "good", "failed": "bad", "known": "warn", "gaps": "good", "interrupted": "idle"}
VERDICTS: Final = {
    "passed": "passed",
    "failed": "failed",
    "known": "known failures only",
    "gaps": "passed, with a gap",
    "interrupted": "interrupted",
    "empty": "nothing ran",
}


TONIGHT: Final = "tonight"
NIGHTS: Final = ("night", "nights")


@dataclass(frozen=True)
class Line:
    """A figure of the nights: its value tonight, its range, and its chart."""

    name: str
    tonight: str
    text: str
    chart: Markup


def night_verdict(night: Night) -> str:
    """Return the verdict of a night as a text."""
    return VERDICTS.get(night.status, night.status)


def night_tone(night: Night) -> str:
    """Return the CSS class of a night: good, bad, warn or idle."""
    return TONES.get(night.status, "idle")


def trend_chart(nights: Sequence[Night], name: str, latest: str = TONIGHT) -> Markup:
    """Return a chart with a column per night; its height shows the scenarios, its sign the verdict.

    ``latest`` is the label of the last column.
    """
    each = min(WIDEST, max(NARROWEST, (RIGHT - LEFT) / max(1, len(nights))))
    wide = max(WIDTH, each * len(nights) + 2 * LEFT)
    failed = sum(night_tone(night) == "bad" for night in nights)
    known = sum(night.status == "known" for night in nights)
    parts = [f"{failed} failed" if failed else "none of them failed"]
    if known:
        parts.append(f"{known} with known failures only")
    text = f"{counted(len(nights), 'night')}, {', '.join(parts)}."
    root = picture(name, wide, 132, "Nights", text, "chart trend")
    tallest = max((night.scenarios for night in nights), default=1) or 1
    for index, night in enumerate(nights):
        x = LEFT + each * index
        height = max(2.0, night.scenarios / tallest * HIGHEST)
        column = add(root, "g", class_=night_tone(night))
        add(column, "title", night_text(night))
        add(column, "rect", x=x + 4, y=BASE - height, width=each - 8, height=height, rx=2)
        add(column, "text", _sign(night), x=x + each / 2, y=BASE - 6 - height, text_anchor="middle")
    add(root, "path", class_="axis", d=f"M{LEFT} {BASE + 0.5}H{wide - LEFT}")
    labels = add(root, "g", class_="labels")
    if len(nights) > 1:
        add(labels, "text", nights[0].started[:10], x=LEFT, y=127)
    if nights:
        end = LEFT + each * (len(nights) - 0.5)
        add(labels, "text", latest, class_="strong", x=end, y=127, text_anchor="middle")
    return markup(root)


def night_text(night: Night) -> str:
    """Return a night as a sentence."""
    outcome = night_verdict(night)
    if night.failed:
        outcome += f", {counted(night.failed, 'scenario')} failed"
        outcome += f", {number(night.known)} of them known" if 0 < night.known < night.failed else ""
    broke = f": {'; '.join(night.broke)}" if night.broke else ""
    return f"{night.started}: {counted(night.scenarios, 'scenario')}, {outcome}{broke}"


def _sign(night: Night) -> str:
    new = night.failed - night.known
    if night.status == "failed":
        return f"✕{compact(new)}" if new > 0 else "✕"
    if night.status == "known":
        return f"!{compact(night.failed)}"
    return {"passed": "✓", "gaps": "✓!"}.get(night.status, "–")


def scenarios_per_second(night: Night) -> float | None:
    """Return the number of scenarios per second, or None."""
    return night.scenarios / night.seconds if night.seconds and night.scenarios else None


def caught_percent(night: Night) -> float | None:
    """Return the share of the planted bugs that were caught, in percent, or None."""
    return 100 * night.mutants_killed / night.mutants_tried if night.mutants_tried else None


FIGURES: Final[tuple[tuple[str, str, Callable[[Night], float | None]], ...]] = (
    ("scenarios per second", "", scenarios_per_second),
    ("records read again, median", "", lambda night: night.records_replayed),
    ("steps without a running job, median", "", lambda night: night.recovery_steps),
    ("planted bugs caught", " %", caught_percent),
)


def lines_of(
    nights: Sequence[Night], name: str, latest: str = TONIGHT, noun: tuple[str, str] = NIGHTS
) -> tuple[Line, ...]:
    """Return the figures that the last night and at least one earlier one have.

    ``latest`` says what the last one is, ``noun`` what one and several of them are.
    """
    found = []
    for index, (figure, unit, value_of) in enumerate(FIGURES, 1):
        values = [value_of(night) for night in nights]
        if values and values[-1] is not None and sum(value is not None for value in values) > 1:
            found.append(_line(figure, unit, values, f"{name}-{index}", latest, noun))
    return tuple(found)


def _line(
    figure: str, unit: str, values: Sequence[float | None], name: str, latest: str, noun: tuple[str, str]
) -> Line:
    measured = [value for value in values if value is not None]
    low, high = min(measured), max(measured)
    tonight = f"{number(measured[-1])}{unit}"
    spread = f"from {number(low)}{unit} to {number(high)}{unit}" if low < high else "constant"
    text = f"{spread} in {counted(len(measured), *noun)}"
    root = picture(name, WIDTH, 74, figure, f"{tonight} {latest}, {text}.", "chart line")
    step = (RIGHT - LEFT - 8) / max(1, len(values) - 1)
    points = [
        (LEFT + 4 + step * index, _height(value, low, high))
        for index, value in enumerate(values)
        if value is not None
    ]
    add(root, "path", class_="axis", d=f"M{LEFT} {LINE_BOTTOM + 6}H{RIGHT}")
    add(root, "path", class_="course", d="M" + " ".join(f"{x:.1f} {y:.1f}" for x, y in points))
    x, y = points[-1]
    add(root, "circle", class_="now", cx=x, cy=y, r=3.5)
    return Line(figure, tonight, text, markup(root))


def _height(value: float, low: float, high: float) -> float:
    """Return the y coordinate of a value; a nearly constant line runs through the middle."""
    span = max(high - low, LEAST_SPREAD * abs(high)) or 1.0
    share = 0.5 + (value - (low + high) / 2) / span
    return LINE_BOTTOM - share * (LINE_BOTTOM - LINE_TOP)
