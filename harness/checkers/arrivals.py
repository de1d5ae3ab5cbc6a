"""Which records of a run may be late, and which may come again after a restore.

Rules:

- A run's effect is that of a line of attempts: each resumes from a checkpoint of the one before it, and what
  an attempt did after that checkpoint is discarded. The cuts of these checkpoints say in which attempt of the
  line each record was read.
- Watermarks begin anew with an attempt. A record may be late only where earlier records of the same attempt
  gave a watermark as far as its due time.
- A record may come again where an attempt before the restore may have reached its due time, and so emitted
  what it belongs to. A record in flight at an unaligned barrier is read before the restore and arrives after
  it.
- All of this follows from the records, the watermark strategies and the history. Nothing that the job says of
  its own lateness is asked.
- Where the history does not tell where attempts resumed, any record may have been read in any attempt.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from onceproof.harness.model.family import Records
from onceproof.harness.model.history import ATTEMPT_STARTED, CHECKPOINT_COMPLETED, Cut, History
from onceproof.harness.model.scenario import InputRecord, RecordValue
from onceproof.harness.model.watermarks import MAX_WATERMARK, NO_WATERMARK, Timed


class Attempt(NamedTuple):
    """An attempt of the line that led to some rows: where it resumed."""

    name: str
    start: Cut
    """By split, the offset of the first record that it read; 0 for a split that is not named."""
    in_flight: int = 0
    """How many records were in flight in the checkpoint from which it resumed."""


Line: TypeAlias = "tuple[Attempt, ...] | None"
"""The attempts that led to some rows, in order; None if the history does not tell."""

FROM_THE_BEGINNING: Final = (Attempt("", {}),)


def line_of(history: History, checkpoint: int | None = None) -> Line:
    """Return the attempts that led to the end of a run, or to one of its checkpoints."""
    line: list[Attempt] = []
    completed: dict[int, tuple[str, Cut, int]] = {}
    for _, kind, subject, payload in history.events:
        if kind == CHECKPOINT_COMPLETED:
            completed[subject] = (payload["attempt"], payload["cut"], payload["in_flight"])
            if subject == checkpoint:
                return _up_to(line, payload["attempt"])
        elif kind == ATTEMPT_STARTED:
            restored = payload["restored"]
            if "outside" in payload or (restored is not None and restored not in completed):
                return None
            if restored is None:
                line = [Attempt(subject, {})]
                continue
            writer, cut, in_flight = completed[restored]
            before = _up_to(line, writer)
            if before is None:
                return None
            line = [*before, Attempt(subject, cut, in_flight)]
    return tuple(line) or None


def _up_to(line: Sequence[Attempt], name: str) -> Line:
    """Return the line up to an attempt; None if that is not on it."""
    for index, attempt in enumerate(line):
        if attempt.name == name:
            return tuple(line[: index + 1])
    return None


class Arrival(NamedTuple):
    """A record, and the furthest watermarks that may have come before it."""

    split: str
    offset: int
    timestamp: int
    value: RecordValue
    watermark: int
    """The furthest that may precede it in the attempt that processed it."""
    earlier: int
    """The furthest that an attempt may have reached before the restore that the record came after."""
    is_timed: bool = True
    """Whether its split has a watermark strategy. If not, it is never late, such as a row of a table."""

    @property
    def furthest(self) -> int:
        """The furthest watermark that may have come before it in any attempt."""
        return max(self.watermark, self.earlier)


def arrivals_of(records: Records, strategies: Sequence[Timed] | None, line: Line) -> list[Arrival]:
    """Return all records with the watermarks that may have come before them.

    Args:
        records: by split, in the order of offsets.
        strategies: those of the job; where a split has several, the furthest watermark of them counts. None:
            they are not known, and any watermark may come before any record.
        line: the attempts that led to the rows in question.
    """
    if strategies is None:
        return [
            Arrival(split, offset, timestamp, value, MAX_WATERMARK, MAX_WATERMARK)
            for split, own in records.items()
            for offset, (timestamp, value) in enumerate(own)
        ]
    found: dict[tuple[str, int], Arrival] = {}
    for strategy in strategies:
        for arrival in _of_one_strategy(records, strategy, line):
            place = arrival.split, arrival.offset
            other = found.get(place, arrival)
            found[place] = arrival._replace(
                timestamp=min(arrival.timestamp, other.timestamp),
                watermark=max(arrival.watermark, other.watermark),
                earlier=max(arrival.earlier, other.earlier),
            )
    for split, own in records.items():
        for offset, (timestamp, value) in enumerate(own):
            untimed = Arrival(split, offset, timestamp, value, NO_WATERMARK, NO_WATERMARK, is_timed=False)
            found.setdefault((split, offset), untimed)
    return list(found.values())


def _of_one_strategy(records: Records, strategy: Timed, line: Line) -> list[Arrival]:
    attempts = FROM_THE_BEGINNING if line is None else line
    found = []
    beside = _beside(records, strategy, attempts)
    for split, own in records.items():
        if not strategy.times(split):
            continue
        starts = [attempt.start.get(split, 0) for attempt in attempts]
        ends = [*starts[1:], len(own)]
        within = [
            [max(mark, beside[index]) for mark in strategy.watermarks(own[start:end])]
            for index, (start, end) in enumerate(zip(starts, ends, strict=True))
        ]
        timestamps = strategy.timestamps(own)
        for offset, (_, value) in enumerate(own):
            index = bisect_right(starts, offset) - 1
            watermark = within[index][offset - starts[index]]
            before = [reached[-1] for reached in within[:index]]
            resumed = attempts[index + 1 : index + 2]
            if line is None or (resumed and resumed[0].in_flight):
                # It may have been in flight: read before that restore, processed after it.
                before.append(watermark)
            earlier = max(before, default=NO_WATERMARK)
            found.append(Arrival(split, offset, timestamps[offset], value, watermark, earlier))
    return found


def _beside(records: Records, strategy: Timed, attempts: Sequence[Attempt]) -> list[int]:
    """Return by attempt the furthest watermark that splits give each other's records."""
    if strategy.is_of_one_split:
        return [NO_WATERMARK] * len(attempts)
    return [
        max(
            (strategy.watermarks(own[attempt.start.get(split, 0) :])[-1] for split, own in records.items()),
            default=NO_WATERMARK,
        )
        for attempt in attempts
    ]


def only(arrivals: Sequence[Arrival], splits: Mapping[str, Sequence[InputRecord]]) -> Records:
    """Return some records alone, in their splits and their order; each split is there."""
    chosen: dict[str, list[InputRecord]] = {split: [] for split in splits}
    for arrival in sorted(arrivals):
        chosen[arrival.split].append(splits[arrival.split][arrival.offset])
    return chosen
