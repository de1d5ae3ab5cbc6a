"""The cases of the benchmark `peers`: their input as lines of text, and the rows that must come out of it.

The rules this module lives by:

- Every engine reads the same lines and writes rows as lines of its own, which are read back.
- Lines are dealt out to as many files as there are subtasks, in order. For an engine that reads files in
  batches each of them is cut in two; others may read the second half before the first, and find that late.
- No record is late: the rows follow from the input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from onceproof.scenarios.nexmark._generator import Bid, Settings, events
from tests.benchmarks.local import WrongCount

COUNT, WINDOWS, QUERY = "count", "windows", "query"
KEYS: Final = 1_000
WINDOW_MS: Final = 10_000
DISORDER_MS: Final = 500
"""Of the lines of a file."""
PARTS: Final = 2
BATCHES: Final = 2

Fields = tuple[int, ...]
"""The numbers in a line."""


@dataclass(frozen=True, slots=True)
class PeerCase:
    """One case: what its lines are, and what its rows are."""

    title: str
    lines: Callable[[int], Sequence[Fields]]
    rows: Callable[[Sequence[Fields]], Counter[Fields]]


def _keys(records: int) -> Sequence[Fields]:
    draw = Random(1).random
    return [(int(draw() * KEYS),) for _ in range(records)]


def _clicks(records: int) -> Sequence[Fields]:
    draw = Random(2).random
    return [(int(draw() * KEYS), number // PARTS + int(draw() * DISORDER_MS)) for number in range(records)]


def _bids(records: int) -> Sequence[Fields]:
    """Return Nexmark's events; only bids have an auction, a bidder and a price."""
    drawn = events(Settings(delayed_share=0.0), records, Random(3))
    return [
        (1, event.auction, event.bidder, event.price, moment)
        if isinstance(event, Bid)
        else (0, 0, 0, 0, moment)
        for moment, event in drawn
    ]


def _counts(lines: Sequence[Fields]) -> Counter[Fields]:
    totals = Counter(key for (key,) in lines)
    return Counter((key, count) for key, total in totals.items() for count in range(1, total + 1))


def _windows(lines: Sequence[Fields]) -> Counter[Fields]:
    totals = Counter((key, moment - moment % WINDOW_MS) for key, moment in lines)
    return Counter((key, start, count) for (key, start), count in totals.items())


def _highest(lines: Sequence[Fields]) -> Counter[Fields]:
    best: dict[int, Fields] = {}
    for is_bid, auction, bidder, price, moment in lines:
        if is_bid:
            start = moment - moment % WINDOW_MS
            best[start] = max(best.get(start, (0, 0, 0)), (price, auction, bidder))
    return Counter((start, *bid) for start, bid in best.items())


CASES: Final[Mapping[str, PeerCase]] = {
    COUNT: PeerCase("keyed count: every count of every key", _keys, _counts),
    WINDOWS: PeerCase(
        "tumbling windows of event time: a count for each key and ten seconds", _clicks, _windows
    ),
    QUERY: PeerCase("Nexmark q7: the highest bid of each ten seconds", _bids, _highest),
}


def write_input(lines: Sequence[Fields], folder: Path, batches: int = 1) -> None:
    """Write the lines to files that stand in the order in which ``batches`` batches are to read them."""
    folder.mkdir()
    for part in range(PARTS):
        share = lines[part::PARTS]
        for batch in range(batches):
            own = share[len(share) * batch // batches : len(share) * (batch + 1) // batches]
            text = "".join(f"{','.join(map(str, line))}\n" for line in own)
            (folder / f"{batch}-{part}.csv").write_text(text)


def check_output(rows: Counter[Fields], folder: Path, who: str) -> None:
    """Raise WrongCount unless the files below a folder hold these rows, in any order."""
    found = Counter(_rows_below(folder))
    if found != rows:
        differing = (found - rows) + (rows - found)
        raise WrongCount(
            f"{who}: {differing.total():,} rows differ between {found.total():,} that were written and"
            f" {rows.total():,} that were expected, {next(iter(differing))!r} for one"
        )


def _rows_below(folder: Path) -> Iterator[Fields]:
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden:
            with path.open() as lines:
                for line in lines:
                    yield tuple([int(number) for number in line.split(",")])
