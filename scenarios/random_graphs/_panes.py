"""Which windows the vertices of kind ``panes`` have: each two choices meet in one of a few rows.

Rules:

- A row says a choice of each dimension. It is legal if Flink takes it and its timers end: an interval trigger
  has none to end at in windows without an end, sessions that never fire cannot merge, and only windows of
  event time have late records.
- ``ROWS`` has each legal pair of choices at least once, found greedily and in the same order each time. So a
  run that has drawn each row has drawn each pair; half of the vertices are drawn from all legal rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import combinations, product
from typing import Final, TypeAlias

from onceproof.harness.model.chance import Chance

Row: TypeAlias = tuple[str, ...]
Pair: TypeAlias = tuple[tuple[str, str], tuple[str, str]]
"""Two choices, each with its dimension."""

DIMENSIONS: Final = {
    "assigner": ("tumbling", "sliding", "session", "dynamic", "global", "count", "overlapping"),
    "trigger": (
        "default",
        "end",
        "other_end",
        "every",
        "other_every",
        "count",
        "lasting_count",
        "never",
        "purging_end",
        "purging_every",
        "purging_count",
    ),
    "evictor": ("none", "count", "count_after", "time", "time_after", "delta", "delta_after"),
    "lateness": ("0", "30"),
    "function": ("process", "apply", "reduce", "aggregate"),
    "domain": ("event", "processing"),
    "watermarks": ("steady", "idle"),
}
PLAINEST: Final = "tumbling.default.none.0.process.event.steady"
_MERGING: Final = frozenset({"session", "dynamic"})
_ENDLESS: Final = frozenset({"global", "count", "overlapping"})


STRIDE: Final = 17


def is_legal(row: Row) -> bool:
    """Return whether a row has a choice of each dimension, and they go together."""
    if len(row) != len(DIMENSIONS) or any(
        one not in known for one, known in zip(row, DIMENSIONS.values(), strict=True)
    ):
        return False
    assigner, trigger, _, lateness, _, domain, _ = row
    if lateness != "0" and (assigner in _ENDLESS or domain == "processing"):
        return False
    if assigner in _MERGING and trigger == "never":
        return False
    if assigner in _ENDLESS:
        by_clock = trigger in ("end", "purging_end") and domain == "processing"
        return not by_clock and trigger not in ("every", "other_every", "purging_every", "other_end")
    # An interval in event time has no end in sight where windows end by the clock.
    return trigger != "other_every" or domain == "event"


def pairs_of(row: Row) -> Iterator[Pair]:
    """Yield each two choices of a row; that its windows merge is one more."""
    merging = ("merging", str(row[0] in _MERGING))
    yield from combinations((*zip(DIMENSIONS, row, strict=True), merging), 2)


@cache
def legal_rows() -> tuple[Row, ...]:
    """Return all legal rows."""
    return tuple([row for row in product(*DIMENSIONS.values()) if is_legal(row)])


@cache
def covering_rows() -> tuple[Row, ...]:
    """Return few legal rows in which each two choices meet that meet in any."""
    left = {pair for row in legal_rows() for pair in pairs_of(row)}
    rows: list[Row] = []
    while left:
        # The best of a few, for speed; where none of them has a pair that is left, the first of all.
        few = legal_rows()[len(rows) % STRIDE :: STRIDE]
        row = max(few, key=lambda each: len(left.intersection(pairs_of(each))))
        if left.isdisjoint(pairs_of(row)):
            row = next(row for row in legal_rows() if not left.isdisjoint(pairs_of(row)))
        left.difference_update(pairs_of(row))
        rows.append(row)
    return tuple(rows)


def draw_row(chance: Chance) -> str:
    """Draw the windows of a vertex."""
    return ".".join(chance.choice(covering_rows() if chance.chance(0.7) else legal_rows()))


def covered(said: Iterable[str]) -> tuple[int, int]:
    """Return how many pairs of choices the windows of some vertices have, and how many there are."""
    met = {pair for each in said for pair in pairs_of(tuple(each.split(".")))}
    return len(met), len({pair for row in legal_rows() for pair in pairs_of(row)})
