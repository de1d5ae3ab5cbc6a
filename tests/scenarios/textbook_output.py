"""What the tests of the textbook's programs share: printed lines as values, clicks that are written out."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from onceproof.engine import Configuration
from onceproof.scenarios.textbook.click_source import Click


def printed(text: str) -> list[object]:
    """Return the lines of a program; tuples as such."""
    return [ast.literal_eval(line) if line.startswith("(") else line for line in text.splitlines()]


class Clicks:
    """Makes the given clicks in turn; then the stream ends."""

    def __init__(self, clicks: Sequence[Click]) -> None:
        self._clicks: Iterator[Click] = iter(clicks)

    def __call__(self) -> Click | None:
        return next(self._clicks, None)


def watermark_before_each_click() -> Configuration:
    """Return settings by which a watermark follows each click, if clicks are some milliseconds apart."""
    return Configuration.from_mapping({"pipeline.auto-watermark-interval": "1 ms"})
