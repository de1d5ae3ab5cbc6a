"""Small SVG charts: a distribution as histogram and box plot, shares of variance as bars.

Each chart has a title and a description with its numbers, so that no information is in shape or colour alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from onceproof.reports.model import Distribution, Influence
from onceproof.reports.svg import add, markup, picture
from onceproof.reports.text import counted, number, shortened, visible, width

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
