"""The answer of a task to the driver: a tally of its outcomes, their lines, and the file of its trials.

The rules this module lives by:

- A task gives an answer for each family that it has run, which names the scenarios by ranges of turns.
- The tally is filled on the executor. The driver merges one for each answer, whatever the task has run.
- Lines travel compressed. The driver opens an answer where its first line is due in outcomes.jsonl, so it
  holds the lines of one answer for each family, not those of a wave.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from heapq import heappop, heappush, heapreplace
from typing import Any, Final

import msgspec
import pyarrow as pa

from onceproof.harness.campaign.trial_files import WRITTEN, WrittenFile
from onceproof.harness.checkers.outcome import from_line, to_line
from onceproof.harness.trials.tally import FamilyTally, Group, Tally

ANSWERS: Final = pa.schema(
    [
        ("place", pa.int64()),
        ("turns", pa.list_(pa.struct([("start", pa.int64()), ("stop", pa.int64())]))),
        ("lines", pa.binary()),
        ("tally", pa.binary()),
        ("written", WRITTEN),
    ]
)
"""The columns of a table of answers: the fields of Answer."""

_QUICKLY: Final = 1
_LINES_AT_ONCE: Final = 1000


@dataclass(frozen=True, slots=True)
class Answer:
    """What a task has run of a family, or found."""

    place: int
    """The place of its family in the campaign."""
    turns: tuple[range, ...]
    """The turns of the family that it has run."""
    lines: bytes = b""
    """The lines of their outcomes, compressed; empty for files that are only found."""
    tally: Tally | None = None
    written: WrittenFile | None = None
    """Their trials in a file, if this answer acknowledges them."""

    @classmethod
    def of(
        cls,
        place: int,
        families: int,
        turns: Sequence[int],
        lines: Sequence[bytes],
        written: WrittenFile | None = None,
    ) -> Answer:
        """Return the answer with some outcomes.

        Args:
            families: how many families take turns in the campaign.
            turns: the turn of each line.
        """
        tally = Tally()
        for turn, line in zip(turns, lines, strict=True):
            tally.add(from_line(line), turn * families + place)
        return cls(place, ranges_of(turns), zlib.compress(b"".join(lines), _QUICKLY), tally, written)

    @property
    def scenarios(self) -> int:
        """Return the number of its scenarios."""
        return sum(map(len, self.turns))

    def batch(self) -> pa.RecordBatch:
        """Return the answer as a row of ANSWERS."""
        row: dict[str, Any] = {
            "place": self.place,
            "turns": [{"start": turns.start, "stop": turns.stop} for turns in self.turns],
            "lines": self.lines,
            "tally": None if self.tally is None else _packed(self.tally),
            "written": None if self.written is None else msgspec.structs.asdict(self.written),
        }
        return pa.RecordBatch.from_pylist([row], ANSWERS)


def answers_in(table: pa.Table) -> Iterator[Answer]:
    """Yield the answers in a table with the columns of ANSWERS."""
    for batch in table.to_batches(max_chunksize=1):
        [row] = batch.to_pylist()
        yield Answer(
            row["place"],
            tuple([range(each["start"], each["stop"]) for each in row["turns"]]),
            row["lines"],
            None if row["tally"] is None else _unpacked(row["tally"]),
            None if row["written"] is None else WrittenFile(**row["written"]),
        )


def _packed(tally: Tally) -> bytes:
    """Return a tally as MessagePack: mappings by names of fields, failures by their lines."""
    groups = [[to_line(each.first), each.number, each.count, each.broken] for each in tally.groups.values()]
    families = {name: _fields_of(family) for name, family in tally.families.items()}
    # The sum is longer than an integer of MessagePack.
    changed = {"traces": str(tally.traces), "families": families, "groups": groups}
    return msgspec.msgpack.encode({**_fields_of(tally), **changed})


def _unpacked(data: bytes) -> Tally:
    plain = msgspec.msgpack.decode(data)
    families = {name: FamilyTally(**_restored(each)) for name, each in plain.pop("families").items()}
    traces, groups = int(plain.pop("traces")), plain.pop("groups")
    tally = Tally(**_restored(plain), traces=traces, families=families)
    for line, number, count, broken in groups:
        first = from_line(line)
        assert first.signature is not None, "a failure has one"
        tally.groups[first.family, first.signature] = Group(
            first, first.signature, number, count, Counter(broken)
        )
    return tally


def _fields_of(tally: Tally | FamilyTally) -> dict[str, Any]:
    return {each.name: getattr(tally, each.name) for each in fields(tally)}


def _restored(plain: dict[str, Any]) -> dict[str, Any]:
    """Return fields with the types that MessagePack does not have."""
    return {
        name: Counter(value)
        if isinstance(value, dict)
        else [tuple(each) for each in value]
        if isinstance(value, list)
        else value
        for name, value in plain.items()
    }


def lines_in_order(answers: Sequence[Answer], families: int) -> Iterator[bytes]:
    """Yield the lines of all answers in the order of the campaign, many at a time."""

    def numbered_lines(answer: Answer) -> Iterator[tuple[int, bytes]]:
        lines = iter(zlib.decompress(answer.lines).splitlines(keepends=True))
        for turns in answer.turns:
            for turn in turns:
                yield turn * families + answer.place, next(lines)

    waiting = sorted(
        [each for each in answers if each.lines],
        key=lambda each: each.turns[0].start * families + each.place,
        reverse=True,
    )
    opened: list[tuple[int, bytes, Iterator[tuple[int, bytes]]]] = []
    block: list[bytes] = []
    while waiting or opened:
        while waiting and (
            not opened or waiting[-1].turns[0].start * families + waiting[-1].place < opened[0][0]
        ):
            rest = numbered_lines(waiting.pop())
            number, line = next(rest)
            heappush(opened, (number, line, rest))
        _, line, rest = opened[0]
        block.append(line)
        if following := next(rest, None):
            heapreplace(opened, (*following, rest))
        else:
            heappop(opened)
        if len(block) == _LINES_AT_ONCE:
            yield b"".join(block)
            block.clear()
    yield b"".join(block)


def ranges_of(turns: Sequence[int]) -> tuple[range, ...]:
    """Return turns as ranges of those that follow each other."""
    ranges: list[range] = []
    for turn in turns:
        if ranges and ranges[-1].stop == turn:
            ranges[-1] = range(ranges[-1].start, turn + 1)
        else:
            ranges.append(range(turn, turn + 1))
    return tuple(ranges)
