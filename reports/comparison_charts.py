"""Bars that compare systems: how long each needs to recover, and what a scenario costs on it.

Where the values span decades the scale is logarithmic, and says so: the simulation takes milliseconds, a
cluster takes minutes. Each bar has its value as a text, so that no information is in its length alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from onceproof.reports.charts import LEFT, RIGHT, WIDTH
from onceproof.reports.sections import SystemResult
from onceproof.reports.svg import add, markup, picture
from onceproof.reports.text import counted, duration, number, shortened, visible

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
