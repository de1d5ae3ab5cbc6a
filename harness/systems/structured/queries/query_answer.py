"""What a driver says of a user's query: its sources, and the rows that it should write."""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from onceproof.harness.model.history import Row

LOOK_SUFFIX: Final = ".look"
"""Of the file that asks a driver to look at a query; it holds the address."""
LOOKED_SUFFIX: Final = ".looked"
"""Of the file with the answer."""


class LookedSource(msgspec.Struct, frozen=True):
    """A source of a query."""

    texts: list[str]
    """Its records, as a scenario holds them."""
    origin: str
    """Where they are from, as the end of a sentence."""


class Look(msgspec.Struct, frozen=True, tag=True):
    """A query as its file describes it."""

    sources: dict[str, LookedSource]
    mode: str
    sink: str
    """The format of its sink, or foreachBatch."""
    delay_ms: int | None
    """The shortest delay of its watermarks; None: it has none."""
    may_be_late: bool = False
    """Whether it is known what becomes of a record behind the watermark: all of it counts, or nothing."""


class Mistake(msgspec.Struct, frozen=True, tag=True):
    """Why a query cannot be looked at, in one line."""

    mistake: str


class Answer(msgspec.Struct, frozen=True):
    """The rows that a query should write."""

    runs: list[list[Row]]
    """Those of runs without faults; if they differ, columns on which they agree are determined."""
    optional: list[Row] = []
    """Rows that may be there or not."""
    is_open: bool = False
    """Whether any other row may be there: in update mode, those of earlier batches."""
    mistake: str = ""
    """Why the rows cannot be judged, in one line; "": they can."""


def accepts(answer: Answer, visible: Counter[Row]) -> bool:
    """Return whether rows are those of the answer."""
    certain = Counter(answer.runs[0])
    return not certain - visible and (answer.is_open or not (visible - certain) - Counter(answer.optional))
