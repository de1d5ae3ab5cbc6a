"""What the tests of the textbook's programs share: printed lines as values, clicks that are written out."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from onceproof.engine import Configuration
from onceproof.scenarios.textbook.click_source import Click
from tests.conformance.recordings import assert_as_on_flink


def printed(text: str) -> list[object]:
    """Return the lines of a program whose own functions print; tuples as such."""
    return [ast.literal_eval(line) if line.startswith("(") else line for line in text.splitlines()]


def printed_as_on_flink(program: str, text: str) -> list[str]:
    """Return the lines of a program of the textbook, which are those that it printed on real Flink.

    Args:
        program: its file, and its arguments if it has some.
        text: what it has printed here.
    """
    lines = text.splitlines()
    assert_as_on_flink(f"textbook/{program}", lines)
    return lines


class Clicks:
    """Makes the given clicks in turn; then the stream ends."""

    def __init__(self, clicks: Sequence[Click]) -> None:
        self._clicks: Iterator[Click] = iter(clicks)

    def __call__(self) -> Click | None:
        return next(self._clicks, None)


def watermark_before_each_click() -> Configuration:
    """Return settings by which a watermark follows each click, if clicks are some milliseconds apart."""
    return Configuration.from_mapping({"pipeline.auto-watermark-interval": "1 ms"})
