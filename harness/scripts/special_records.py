"""Values and times at which jobs tend to break, in the records of a script.

Rules:

- A cell takes an extreme value of its declared type; of a column without one, of the Python type that it has.
  None is one where the type admits it. Only records that a scenario holds cell by cell are changed.
- Event time is no ordinary cell. It is moved to the boundaries of the job's windows and timers, and to just
  their length after the record before it, and never goes back further than the watermark strategy allows. So
  no record is late, and what runs without faults determined before stays determined by windows; whether also
  by timers is tried.
- State expires in processing time, which no record reaches: scenarios set the clock by a time to live, or by
  how long a timer of processing time waits.
- Where a timestamp is assigned to something other than a number of the source's own records, the job's event
  time may hang on any of their cells. Such records stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import gcd
from typing import Any, Final, NamedTuple

from onceproof.engine.api.adapters import OperatorFactory
from onceproof.engine.elements import MIN_WATERMARK
from onceproof.engine.functions import ProcessFunction
from onceproof.engine.graph import StreamNode
from onceproof.engine.operators.event_time import TimestampedSourceOperator, TimestampsAndWatermarksOperator
from onceproof.engine.operators.window_parts import WindowSettings
from onceproof.engine.timer_service import TimerService
from onceproof.engine.types import TypeInformation
from onceproof.engine.types.composite import TupleType
from onceproof.engine.types.row import RowType
from onceproof.engine.watermarks.strategy import WatermarkStrategy
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.scenario import InputRecord, RecordValue
from onceproof.harness.scripts.ends import ScriptSource
from onceproof.harness.scripts.records import Pool
from onceproof.harness.systems.simulation.checkpoint_recorder import RecordedCheckpoint

_LONG_TEXT: Final = 300
_MOST_CHANGED: Final = 3
_MANY: Final = 1_000
_MOST_LENGTHS: Final = 2
_LEAST_STEP_MS: Final = 10
_MOST_ROWS: Final = 100
_OF_PYTHON: Final[Mapping[type, tuple[RecordValue, ...]]] = {
    str: ("", "x" * _LONG_TEXT),
    int: (0, -1),
    float: (0.0, -1.0, 2.0**52),
    bool: (True, False),
}


class EventTime(NamedTuple):
    """Where the records of a source have their event time."""

    column: int
    unit_ms: int
    bound_ms: int
    """How far a record may be behind the latest one and not be late; 0 where that is not known."""
    lengths_ms: tuple[int, ...]
    """Sizes, slides and gaps of the job's windows of event time, and how long its timers wait."""


class Specials(NamedTuple):
    """What may be changed in the records of a source."""

    values: Mapping[int, tuple[RecordValue, ...]]
    """By column, the extreme values."""
    time: EventTime | None


def specials_of(
    operators: Sequence[StreamNode],
    source: ScriptSource,
    pool: Pool,
    rows_of_one: Callable[[RecordValue], int],
    timers_ms: Sequence[int] = (),
) -> Specials | None:
    """Return what may be changed in the records of a source; None: nothing.

    Args:
        rows_of_one: returns how many rows come of one record.
        timers_ms: how long the job's timers wait.
    """
    if not pool.records or not all(
        type(held) is tuple or held is value for held, (value, _) in zip(pool.held, pool.records, strict=True)
    ):
        return None
    rows = [held if type(held) is tuple else (held,) for held in pool.held]
    if len(set(map(len, rows))) != 1:
        return None
    time = None
    for node in operators:
        strategy = _strategy_in(node)
        if strategy is None or strategy.create_timestamp_assigner() is None:
            continue
        read = [node, *(upstream.node for upstream in node.inputs)]
        own = not node.inputs or not read[1].inputs
        found = _column_of(strategy, pool, len(rows[0])) if source.node in read else None
        if not own or (source.node in read and found is None):
            return None
        if found is not None:
            time = EventTime(*found, strategy.bound_ms or 0, (*_lengths_ms(operators), *timers_ms))
    kind = source.node.output_type
    kinds = kind.fields if isinstance(kind, RowType | TupleType) else (kind,) * len(rows[0])
    values = {
        column: _extremes(kinds[column], [row[column] for row in rows])
        for column in range(len(rows[0]))
        if time is None or column != time.column
    }
    for column in list(values):
        # A number of times that something is done would keep the job busy without an end.
        if type(rows[0][column]) is int and rows_of_one(_with(pool.held[0], column, _MANY)) > _MOST_ROWS:
            del values[column]
    return Specials({column: each for column, each in values.items() if each}, time)


def _strategy_in(node: StreamNode) -> WatermarkStrategy | None:
    create = node.create
    if isinstance(create, partial) and create.func in (
        TimestampedSourceOperator,
        TimestampsAndWatermarksOperator,
    ):
        strategy: WatermarkStrategy = create.args[-1]
        return strategy
    return None


def _column_of(strategy: WatermarkStrategy, pool: Pool, width: int) -> tuple[int, int] | None:
    """Return the column that is the event time of records, and its unit in milliseconds."""
    assigner = strategy.create_timestamp_assigner()
    assert assigner is not None, "asked of a strategy with one"
    for column in range(width):
        units = set()
        for held in pool.held:
            cell: Any = held[column] if isinstance(held, tuple) else held
            if type(cell) is not int:
                break
            try:
                here, there = [
                    assigner.extract_timestamp(pool.restore(_with(held, column, value)), 0)
                    for value in (cell, cell + 1)
                ]
            except Exception:
                # The user's assigner does not take such a value: this is another column.
                break
            units.add((there - here, here - cell * (there - here)))
        else:
            # The time is the number itself, in one unit: nothing else has part in it.
            [(unit, rest), *others] = units
            if unit > 0 and rest == 0 and not others:
                return column, unit
    return None


class Timers(NamedTuple):
    """The timers that functions register: at which time, and for which."""

    event: list[tuple[int, int]]
    processing: list[tuple[int, int]]


@contextmanager
def noted_timers() -> Iterator[Timers]:
    """Note the timers that functions register in the block."""
    found = Timers([], [])
    serve = ProcessFunction.Context.timer_service

    def timer_service(context: ProcessFunction.Context) -> TimerService:
        return _NotingTimers(serve(context), context.timestamp(), found)

    with replaced(ProcessFunction.Context, "timer_service", timer_service):
        yield found


class _NotingTimers(TimerService):
    """Passes everything on, and notes the timers."""

    def __init__(self, service: TimerService, now: int, found: Timers) -> None:
        self._service, self._now, self._found = service, now, found

    def current_processing_time(self) -> int:
        return self._service.current_processing_time()

    def current_watermark(self) -> int:
        return self._service.current_watermark()

    def register_processing_time_timer(self, timestamp: int) -> None:
        if type(timestamp) is int:
            self._found.processing.append((self.current_processing_time(), timestamp))
        self._service.register_processing_time_timer(timestamp)

    def register_event_time_timer(self, timestamp: int) -> None:
        if self._now > MIN_WATERMARK and type(timestamp) is int:
            self._found.event.append((self._now, timestamp))
        self._service.register_event_time_timer(timestamp)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self._service.delete_processing_time_timer(timestamp)

    def delete_event_time_timer(self, timestamp: int) -> None:
        self._service.delete_event_time_timer(timestamp)


def timer_lengths(timers: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Return how long timers wait, where many wait equally long; else the multiples at which they are due."""
    waits = Counter(due - now for now, due in timers if due > now)
    equal = [wait for wait, count in waits.most_common(_MOST_LENGTHS) if count * 2 >= len(timers)]
    if equal:
        return tuple(equal)
    # A timer that belongs to a window is due at its last millisecond.
    steps = [gcd(*[due + last for _, due in timers]) for last in (0, 1)]
    return tuple([step for step in steps if step >= _LEAST_STEP_MS][:1])


def clock_waits(
    operators: Sequence[StreamNode], checkpoints: Iterable[RecordedCheckpoint], timers: Timers
) -> tuple[int, ...]:
    """Return how long state lives, and how long windows and timers of processing time wait.

    Args:
        operators: those of the job.
        checkpoints: those of a run.
        timers: the timers of that run.
    """
    lifetimes = [ms for each in checkpoints for ms in each.lifetimes.values()]
    waits = Counter(due - now for now, due in timers.processing)
    common = [wait for wait, _ in waits.most_common(_MOST_LENGTHS)]
    lengths = (*lifetimes, *_lengths_ms(operators, is_event_time=False), *common)
    return tuple([length for length in dict.fromkeys(lengths) if length > 0])


def _lengths_ms(operators: Sequence[StreamNode], *, is_event_time: bool = True) -> tuple[int, ...]:
    """Return the sizes, slides and gaps of windows of one kind of time."""
    lengths: dict[int, None] = {}
    for node in operators:
        arguments = node.create.arguments if isinstance(node.create, OperatorFactory) else ()
        for settings in arguments:
            if isinstance(settings, WindowSettings) and settings.assigner.is_event_time() is is_event_time:
                lengths.update(dict.fromkeys(settings.assigner.lengths_ms))
    return tuple(lengths)


def _extremes(kind: TypeInformation | None, cells: Sequence[Any]) -> tuple[RecordValue, ...]:
    found = {type(cell) for cell in cells if cell is not None}
    if len(found) != 1:
        return ()
    values = _OF_PYTHON.get(found.pop(), ())
    values += getattr(kind, "limits", ())
    if kind is not None and kind.admits_none:
        values += (None,)
    return values


def _with(held: RecordValue, column: int, cell: RecordValue) -> Any:
    """Return what a scenario holds, with another cell."""
    return (*held[:column], cell, *held[column + 1 :]) if isinstance(held, tuple) else cell


def with_specials(chance: Chance, records: Sequence[InputRecord], specials: Specials) -> list[InputRecord]:
    """Return records with some extreme values, or with their event times at boundaries, or both."""
    changed = list(records)
    if specials.values and changed and chance.chance(0.6):
        for _ in range(chance.integer(1, _MOST_CHANGED)):
            place = chance.integer(0, len(changed) - 1)
            column = chance.choice(tuple(specials.values))
            timestamp, held = changed[place]
            changed[place] = timestamp, _with(held, column, chance.choice(specials.values[column]))
    if specials.time is not None and specials.time.lengths_ms:
        changed = _at_boundaries(chance, changed, specials.time)
    return changed


def _at_boundaries(chance: Chance, records: Sequence[InputRecord], time: EventTime) -> list[InputRecord]:
    """Return records whose event times are at boundaries of windows in many cases, and never late."""
    moved: list[InputRecord] = []
    latest: int | None = None
    for timestamp, held in records:
        cells: Any = held if isinstance(held, tuple) else (held,)
        own = cells[time.column] * time.unit_ms
        length = chance.choice(time.lengths_ms)
        if latest is None:
            latest = own
        match chance.weighted((("boundary", 6), ("after", 2), ("behind", 2))):
            case "boundary":
                own = latest = max(latest, chance.at_boundary(own, length))
            case "after":
                own = latest = latest + length + chance.integer(-1, 1)
            case "behind":
                own = latest - chance.integer(0, time.bound_ms)
        # Rounded up, so that it is not late.
        moved.append((timestamp, _with(held, time.column, -(-own // time.unit_ms))))
        latest = max(latest, -(-own // time.unit_ms) * time.unit_ms)
    return moved
