"""Small SVG charts: distributions, shares of variance, and bars that compare systems.

Each chart has a title and a description with its numbers, so that no information is in shape or colour alone.
Bars have their values as text. Where these span decades the scale is logarithmic, and says so: the simulation
takes milliseconds, a cluster takes minutes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from onceproof.reports.model import Distribution, Influence
from onceproof.reports.sections import SystemResult
from onceproof.reports.svg import add, markup, picture
from onceproof.reports.text import counted, duration, number, shortened, visible, width

EACH: Final = 38.0
TOP: Final = 6.0
BAR_HEIGHT: Final = 12.0
AXIS_HEIGHT: Final = 24.0
LONGEST_NAME: Final = 36
NOT_MEASURED: Final = "not measured"


@dataclass(frozen=True)
class Bar:
    """One system: its value, and the highest value that it had, if there are several."""

    name: str
    value: float | None
    worst: float | None = None
    text: str = NOT_MEASURED


@dataclass(frozen=True)
class ComparisonChart:
    """A picture with its title and a sentence about its scale."""

    title: str
    note: str
    chart: Markup


@dataclass(frozen=True)
class Scale:
    """Maps values to x coordinates; its ticks are the powers of ten, or the ends."""

    is_logarithmic: bool
    low: float
    high: float
    """The ends: values, or for a logarithmic scale their powers of ten."""

    def x(self, value: float) -> float:
        """Return the coordinate of a value; what is below the scale stands at its left end."""
        if self.is_logarithmic:
            value = math.log10(value) if value > 0 else self.low
        share = (value - self.low) / (self.high - self.low)
        return LEFT + min(1.0, max(0.0, share)) * (RIGHT - LEFT)

    def ticks(self) -> tuple[float, ...]:
        """Return the values that the axis names."""
        if not self.is_logarithmic:
            return self.low, self.high
        return tuple([10.0**power for power in range(int(self.low), int(self.high) + 1)])


def scale_of(values: Sequence[float]) -> Scale:
    """Return a logarithmic scale for values of which one is ten times another, else one from 0."""
    measured = [value for value in values if value > 0]
    if not measured:
        return Scale(is_logarithmic=False, low=0.0, high=1.0)
    smallest, largest = min(measured), max(measured)
    if largest < 10 * smallest:
        return Scale(is_logarithmic=False, low=0.0, high=largest)
    low, high = math.floor(math.log10(smallest)), math.ceil(math.log10(largest))
    # A bar of the smallest value must have a length.
    low -= 10.0**low == smallest
    return Scale(is_logarithmic=True, low=low, high=high)


def bars_chart(title: str, bars: Sequence[Bar], name: str, tick_text: Callable[[float], str]) -> Markup:
    """Return one row per system: its name, its value and a bar, pale up to the worst value."""
    scale = scale_of([value for bar in bars for value in (bar.value, bar.worst) if value is not None])
    text = f"{'; '.join(f'{bar.name}: {bar.text}' for bar in bars)}."
    bottom = TOP + EACH * len(bars)
    root = picture(name, WIDTH, bottom + AXIS_HEIGHT, title, text, "chart influence")
    labels = add(root, "g", class_="labels")
    for index, tick in enumerate(ticks := scale.ticks()):
        x = scale.x(tick)
        add(root, "path", class_="axis", d=f"M{x:.1f} {TOP}V{bottom:.1f}")
        anchor = "start" if not index else "end" if index == len(ticks) - 1 else "middle"
        add(labels, "text", tick_text(tick), x=x, y=bottom + 16, text_anchor=anchor)
    for index, bar in enumerate(bars):
        y = TOP + EACH * index
        row = add(root, "g")
        add(row, "title", f"{bar.name}: {bar.text}")
        add(row, "text", shortened(visible(bar.name), LONGEST_NAME), x=LEFT, y=y + 13)
        add(row, "text", bar.text, x=RIGHT, y=y + 13, text_anchor="end")
        for value, kind in ((bar.worst, "total"), (bar.value, "alone")):
            if value is not None:
                wide = max(1.5, scale.x(value) - LEFT)
                add(row, "rect", class_=kind, x=LEFT, y=y + 19, width=wide, height=BAR_HEIGHT)
    return markup(root)


def comparison_charts(systems: Sequence[SystemResult], name: str) -> tuple[ComparisonChart, ...]:
    """Return the pictures of recovery time and of cost; ``name`` is the prefix of the ids in them."""
    recovery = [
        Bar(each.name, each.recovery_seconds, each.worst_recovery_seconds, recovery_text(each))
        for each in systems
    ]
    cost = [
        Bar(
            each.name,
            each.scenario_milliseconds,
            text=_cost_text(each.scenario_milliseconds, each.waiting_share),
        )
        if each.scenario_milliseconds is not None
        else Bar(each.name, None)
        for each in systems
    ]
    return (
        _chart("Recovery time", "from a kill to the first new rows", recovery, f"{name}-1", " s"),
        _chart("Cost of a scenario", "run time, on average", cost, f"{name}-2", " ms"),
    )


def _cost_text(milliseconds: float, waiting_share: float | None) -> str:
    text = f"{number(milliseconds)} ms"
    return text if waiting_share is None else f"{text}, {waiting_share:.0%} waiting"


def recovery_text(system: SystemResult) -> str:
    """Return the recovery time of a system as a text."""
    if system.recovery_seconds is None or system.worst_recovery_seconds is None:
        return NOT_MEASURED
    median, worst = duration(system.recovery_seconds), duration(system.worst_recovery_seconds)
    return f"{median}, worst {worst}" if system.recoveries > 1 else median


def _chart(title: str, meaning: str, bars: Sequence[Bar], name: str, unit: str) -> ComparisonChart:
    values = [value for bar in bars for value in (bar.value, bar.worst) if value is not None]
    note = (
        f"{meaning}; dark up to the median, pale up to the worst" if any(b.worst for b in bars) else meaning
    )
    if scale_of(values).is_logarithmic:
        note += ", on a logarithmic scale"
    missing = sum(bar.value is None for bar in bars)
    if missing:
        note += f"; {counted(missing, 'row')} {NOT_MEASURED}"

    def tick_text(value: float) -> str:
        return f"{number(value) if value >= 1 else f'{value:.2g}'}{unit}"

    return ComparisonChart(title, f"{note[:1].upper()}{note[1:]}.", bars_chart(title, bars, name, tick_text))


WIDTH = 460.0
LEFT, RIGHT = 8.0, 452.0
HISTOGRAM_TOP, HISTOGRAM_BOTTOM = 14.0, 118.0
BOX_MIDDLE = 136.0
AXIS_LINE = 166.0
LABEL_SIZE = 11.0


def distribution_text(cost: Distribution) -> str:
    """Return the median, 95th percentile and maximum of a distribution as a sentence."""
    note = f" {cost.note}" if cost.note else ""
    return (
        f"{counted(cost.count, 'scenario')}{note}: half need at most {number(cost.median)} {cost.unit}, "
        f"19 of 20 at most {number(cost.percentile_95)}, and the worst {number(cost.maximum)}."
    )


def distribution_chart(cost: Distribution, name: str) -> Markup:
    """Return a histogram above a box plot with the quartiles, the median and the 95th percentile."""
    root = picture(name, WIDTH, 172, cost.name, distribution_text(cost), "chart")
    low = min([cost.minimum, *(one.low for one in cost.bins)])
    high = max([cost.maximum, *(one.high for one in cost.bins)])
    span = (high - low) or 1.0

    def x(value: float) -> float:
        return LEFT + (value - low) / span * (RIGHT - LEFT)

    tallest = max((one.count for one in cost.bins), default=1) or 1
    bars = add(root, "g", class_="bars")
    for one in cost.bins:
        if one.count:
            # A bin with one scenario stays visible.
            height = max(1.5, one.count / tallest * (HISTOGRAM_BOTTOM - HISTOGRAM_TOP))
            bar = add(
                bars,
                "rect",
                x=x(one.low) + 0.5,
                y=HISTOGRAM_BOTTOM - height,
                width=max(1.0, x(one.high) - x(one.low) - 1.0),
                height=height,
            )
            add(bar, "title", f"{number(one.low)} to {number(one.high)}: {counted(one.count, 'scenario')}")
    add(root, "path", class_="axis", d=f"M{LEFT} {HISTOGRAM_BOTTOM}H{RIGHT}")
    box = add(root, "g", class_="box")
    add(box, "path", d=f"M{x(cost.minimum):.1f} {BOX_MIDDLE}H{x(cost.maximum):.1f}")
    left, right = x(cost.lower_quartile), x(cost.upper_quartile)
    add(box, "rect", x=left, y=BOX_MIDDLE - 7, width=max(1.0, right - left), height=14.0, rx=2)
    add(box, "path", class_="median", d=f"M{x(cost.median):.1f} {BOX_MIDDLE - 9}v18")
    add(box, "path", class_="tail", d=f"M{x(cost.percentile_95):.1f} {BOX_MIDDLE - 5}v10")
    labels = add(root, "g", class_="labels")
    add(labels, "text", number(low), x=LEFT, y=AXIS_LINE)
    add(labels, "text", number(high), x=RIGHT, y=AXIS_LINE, text_anchor="end")
    text = f"median {number(cost.median)}"
    half = width(text, LABEL_SIZE) / 2
    middle = min(max(x(cost.median), LEFT + half + 40), RIGHT - half - 60)
    add(labels, "text", text, class_="strong", x=middle, y=AXIS_LINE, text_anchor="middle")
    return markup(root)


def influence_text(one: Influence) -> str:
    """Return the shares of one parameter as a text."""
    return f"{one.parameter}: {one.first_order:.0%} alone, {one.total:.0%} in total"


def influence_chart(influences: Sequence[Influence], name: str, output: str) -> Markup:
    """Return one bar per parameter: dark for its effect alone, pale for its interactions.

    ``output`` is the name of the cost; ``name`` is the prefix of the ids in the picture.
    """
    height = 30.0 * len(influences) + 6
    text = f"{'; '.join(map(influence_text, influences))}."
    root = picture(name, WIDTH, height, f"What drives {output}", text, "chart influence")
    start = 190.0
    room = RIGHT - start - 44
    for index, one in enumerate(influences):
        y = 30.0 * index + 20
        label = add(root, "text", shortened(visible(one.parameter), 28), x=start - 10, y=y, text_anchor="end")
        add(label, "title", one.parameter)
        total, alone = (min(1.0, max(0.0, share)) for share in (one.total, one.first_order))
        row = add(root, "g")
        add(row, "title", influence_text(one) + (f"; {one.note}" if one.note else ""))
        add(row, "rect", class_="total", x=start, y=y - 11, width=total * room + 1, height=14)
        add(row, "rect", class_="alone", x=start, y=y - 11, width=alone * room + 1, height=14)
        add(row, "text", f"{total:.0%}", x=start + total * room + 8, y=y)
    return markup(root)
