"""The reductions of a scenario: its cost, and generators of smaller candidates.

The rules this module lives by:

- ``cost_of`` is one number for how hard a scenario is to read. Faults cost most, then records, then choices
  of the schedule that a fair one would not make, then subtasks, then every setting that is not the default.
  The shrinker accepts only candidates of lower cost, so it ends.
- Candidates are values computed from a value, without a run and without randomness, so a shrink is
  repeatable.
- A reduction keeps a scenario valid, and never sets tighter limits than the generator: a failure caused by a
  short step budget or timeout would be another failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.model.fault_kinds import CLIENT_ANSWERS, COORDINATOR_POINTS
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.job_settings import CheckpointMode
from onceproof.harness.model.scenario import (
    ACTION_CLASSES,
    ANY_TASK,
    ActionClass,
    Fault,
    InputRecord,
    Operation,
    Parameter,
    RecordValue,
    Scenario,
    Schedule,
)
from onceproof.harness.model.step_limits import STEPS_PER_RECORD, ample_horizon, ample_timeout_ms
from onceproof.harness.shrinking.splits import exchanging_splits

Item = TypeVar("Item")
SimplerParameters: TypeAlias = Callable[[Mapping[str, Parameter]], Iterable[Mapping[str, Parameter]]]
"""The option ``simpler_parameters`` of a family."""

PLAIN_SETTINGS: Final = {
    "channel_capacity": 8,
    "retained": 1,
    "restart_delay_ms": 1,
    "mode": UNSET,
    "watermark_interval_ms": UNSET,
    "buffer_records": UNSET,
    "endless": UNSET,
    "started_ms": UNSET,
    "state_backend": UNSET,
    "incremental": UNSET,
    "restarts": UNSET,
    "leaves_max_parallelism": UNSET,
    "without_checkpoints": UNSET,
}
PLAIN_MAX_PARALLELISM: Final = 4
SHORT_INTERVALS: Final = (10, 15, 20, 30, 60)
"""Between checkpoints, in milliseconds, the shortest first."""
PART: Final = 10
"""The cost of one part of a scenario, in units in which doubling a number costs 8."""
UNIFORM_PARTS: Final = 2000
PRIORITY_PARTS: Final = 1000
FEW_PRIORITIES: Final = 2
"""A priority schedule with at most this many priorities can be described in a line: "storage is slow"."""
OFTEN_ENOUGH: Final[tuple[tuple[ActionClass, int], ...]] = (
    ("deliver", -1),
    ("poll", -1),
    ("store", -1),
    ("poll", 1),
)
"""The priorities that most failures of planted bugs need, where they need one, the most frequent first."""
SINGLE_PRIORITIES: Final = tuple(
    dict.fromkeys((*OFTEN_ENOUGH, *((action, sign) for action in ACTION_CLASSES for sign in (-1, 1))))
)
"""One kind of step comes before or behind all others, which take turns."""
FEW_FAULTS: Final = 6
"""Of fewer faults every subset is tried, of so many those of up to two, of more each alone."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a scenario, as reports show it."""

    records: int
    faults: int
    schedule: int
    """The number of choices that a fair schedule would not make."""


READABLE: Final = Size(records=6, faults=2, schedule=6)
SEEN_AT_ONCE: Final = Size(records=2, faults=1, schedule=1)
UNREADABLE_FAULT_PARTS: Final = 12
"""The extra cost of each fault beyond READABLE.faults: a third fault is harder to follow than more
records."""
MOST_RECORDS_TO_PAIR: Final = 16
"""The most records for which shorter intervals are combined with fewer records."""


def size_of(scenario: Scenario, choices: int | None = None) -> Size:
    """Return the size of a scenario.

    Args:
        choices: the number of choices of the schedule, if the schedule does not list them.
    """
    if choices is None:
        choices = scenario.schedule.choices
    return Size(scenario.record_count(), len(scenario.faults), choices)


def is_readable(scenario: Scenario) -> bool:
    """Return whether a person can follow the scenario on a page."""
    return _is_within(scenario, READABLE)


def is_seen_at_once(scenario: Scenario) -> bool:
    """Return whether the scenario is so small that a person has nothing to follow."""
    return _is_within(scenario, SEEN_AT_ONCE)


def _is_within(scenario: Scenario, limit: Size) -> bool:
    size = size_of(scenario)
    return (
        size.records <= limit.records
        and size.faults <= limit.faults
        and size.schedule <= limit.schedule
        and not draws_steps(scenario.schedule)
    )


def cost_of(scenario: Scenario) -> int:
    """Return the cost that shrinking lowers."""
    values = {value for records in scenario.records.values() for _, value in records}
    parts = 6 * len(scenario.faults) + 3 * scenario.record_count() + len(values) + len(scenario.records)
    parts += 6 * len(scenario.asked) + sum(
        (operation.parallelism > 0) + (operation.state_backend is not None) + operation.claims
        for operation in scenario.asked
    )
    texts = [value for value in scenario.parameters.values() if isinstance(value, str)]
    # A text that describes a part of a job has a word for each detail.
    parts += sum(len(text.split()) for text in texts)
    parts += UNREADABLE_FAULT_PARTS * max(0, len(scenario.faults) - READABLE.faults)
    parts += 2 * sum(scenario.parallelisms())
    parts += sum(1 for name, plain in PLAIN_SETTINGS.items() if getattr(scenario, name) != plain)
    mode = scenario.checkpoint_mode
    parts += (mode.aligned_timeout_ms > 0) + (mode.max_concurrent > 1) + (mode.min_pause_ms > 0)
    numbers = sum(map(len, texts)) + _magnitude(scenario.max_parallelism - PLAIN_MAX_PARALLELISM)
    numbers += _magnitude(scenario.checkpoint_interval_ms)
    numbers += 0 if scenario.watermark_interval_ms is UNSET else _magnitude(scenario.watermark_interval_ms)
    numbers += sum(_cost_of_fault(fault) for fault in scenario.faults)
    numbers += sum(map(_cost_of_request, scenario.asked))
    schedule = scenario.schedule
    if schedule.kind == "uniform":
        parts += UNIFORM_PARTS
    elif draws_steps(schedule):
        parts += PRIORITY_PARTS + len(schedule.changes)
    else:
        parts += size_of(scenario).schedule + 4 * (schedule.seed > 0)
    return PART * parts + numbers


def draws_steps(schedule: Schedule) -> bool:
    """Return whether a schedule draws its steps from a seed or has more than FEW_PRIORITIES priorities."""
    if schedule.kind == "priority":
        return len(schedule.priorities) > FEW_PRIORITIES
    return schedule.kind == "uniform"


def _cost_of_fault(fault: Fault) -> int:
    numbers = (fault.after, fault.delay, fault.occurrence - 1, fault.checkpoint, fault.rescale_to)
    return sum(_magnitude(number) for number in numbers) + PART * (fault.task != ANY_TASK)


def _cost_of_request(operation: Operation) -> int:
    numbers = _magnitude(operation.after) + _magnitude(operation.occurrence - 1)
    if operation.kind == "rescale":
        numbers += _magnitude(operation.parallelism) + _magnitude(operation.checkpoint)
        numbers += PART * (operation.task != ANY_TASK)
    return numbers


def _magnitude(number: int) -> int:
    """Return a cost that grows with the logarithm of a number, by 8 for each doubling."""
    if number <= 0:
        return 0
    bits = number.bit_length()
    return 8 * bits + ((8 * number) >> bits)


def ddmin(items: Sequence[Item], still_fails: Callable[[list[Item]], bool]) -> list[Item]:
    """Return a sublist that still fails and of which no single item can be left out.

    Delta debugging (Zeller, Hildebrandt 2002) without its complement step: chunks are left out, large ones
    first.
    """
    kept = list(items)
    size = max(1, len(kept) // 2)
    while kept:
        begin = 0
        shorter = False
        while begin < len(kept):
            rest = kept[:begin] + kept[begin + size :]
            if still_fails(rest):
                kept, shorter = rest, True
            else:
                begin += size
        if size > 1:
            size = max(1, size // 2)
        elif not shorter:
            break
    return kept


def with_records(scenario: Scenario, kept: Sequence[tuple[str, InputRecord]]) -> Scenario:
    """Return the scenario with only the given (split, record) pairs."""
    records: dict[str, list[InputRecord]] = {split: [] for split in scenario.records}
    for split, record in kept:
        records[split].append(record)
    return replace(scenario, records={split: tuple(rest) for split, rest in records.items()})


def record_prefixes(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario with its first records only, the fewest first, because short runs are cheap."""
    pairs = listed_records(scenario)
    count = 0
    while count < len(pairs):
        yield with_records(scenario, pairs[:count])
        count = count + max(1, count // 2)


def slower_sources(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario with its first records only, the fewest first, and sources of the lowest priority.

    Under the fair schedule a failure may need many records only because reading them takes time, in which
    another action happens first. One priority for slow sources replaces these records.
    """
    schedule = scenario.schedule
    few = schedule.kind == "fair" or (schedule.kind == "priority" and not draws_steps(schedule))
    if few and "poll" not in schedule.priorities and scenario.record_count() > READABLE.records:
        lowest = min(0, *schedule.priorities.values(), 0) - 1
        priorities = {**schedule.priorities, "poll": lowest}
        slow = Schedule("priority", 0, priorities, schedule.changes, ample_horizon(scenario))
        for shorter in record_prefixes(scenario):
            yield replace(shorter, schedule=slow)


def shorter_intervals(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario with a shorter checkpoint interval and some consecutive records left out.

    Records may be needed only for the time that reading them takes before a checkpoint. Then neither the
    records nor the interval can be reduced alone. Schedules that draw their steps are left out, because there
    the interval is not tied to the number of records read.
    """
    pairs = listed_records(scenario)
    if draws_steps(scenario.schedule) or not READABLE.records < len(pairs) <= MOST_RECORDS_TO_PAIR:
        return
    for count in range(len(pairs) - 1, 0, -1):
        # Fewer records to read take less time; with several source subtasks the time saved is shorter.
        for steps in range(STEPS_PER_RECORD, 0, -1):
            interval = scenario.checkpoint_interval_ms - steps * count
            if interval >= SHORT_INTERVALS[0]:
                shorter = replace(scenario, checkpoint_interval_ms=interval)
                for begin in range(len(pairs) - count + 1):
                    yield with_records(shorter, pairs[:begin] + pairs[begin + count :])


def earlier_faults(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario with all its faults some checkpoints earlier, and its first records only.

    Faults of one pattern must move together, and earlier faults need fewer records before them.
    """
    numbers = [fault.checkpoint for fault in scenario.faults if fault.checkpoint]
    if not numbers or scenario.record_count() <= READABLE.records:
        return
    for earlier in range(min(numbers) - 1, 0, -1):
        faults = tuple(
            replace(fault, checkpoint=fault.checkpoint - earlier) if fault.checkpoint else fault
            for fault in scenario.faults
        )
        moved = replace(scenario, faults=faults)
        for shorter in record_prefixes(moved):
            yield shorter
            if scenario.checkpoint_interval_ms > SHORT_INTERVALS[0]:
                yield replace(shorter, checkpoint_interval_ms=SHORT_INTERVALS[0])


def listed_records(scenario: Scenario) -> list[tuple[str, InputRecord]]:
    """Return all (split, record) pairs in the order of their timestamps."""
    pairs = [(split, record) for split, records in scenario.records.items() for record in records]
    return sorted(pairs, key=lambda pair: pair[1][0])


def simpler_schedules(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario under simpler schedules."""
    schedule = scenario.schedule
    if schedule.kind == "fair":
        return
    yield replace(scenario, schedule=Schedule())
    for action, priority in SINGLE_PRIORITIES:
        few = Schedule("priority", 0, {action: priority}, (), schedule.horizon)
        yield replace(scenario, schedule=few)
    if schedule.changes:
        yield replace(scenario, schedule=replace(schedule, changes=()))
    for index in range(len(schedule.changes)):
        changes = (*schedule.changes[:index], *schedule.changes[index + 1 :])
        yield replace(scenario, schedule=replace(schedule, changes=changes))
    for action in schedule.priorities:
        # The seed stays, because it decides between actions of equal priority.
        rest = {each: priority for each, priority in schedule.priorities.items() if each != action}
        yield replace(scenario, schedule=replace(schedule, priorities=rest))


def first_choices(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario with the first eighth, quarter, half and three quarters of its choices."""
    listed = scenario.schedule.preemptions
    for eighths in (1, 2, 4, 6):
        first = listed[: len(listed) * eighths // 8]
        if len(first) < len(listed):
            yield replace(scenario, schedule=replace(scenario.schedule, preemptions=first))


def simpler_jobs(scenario: Scenario, simpler_parameters: SimplerParameters | None) -> Iterator[Scenario]:
    """Yield the scenario with simpler jobs, where the parameters of its family describe the job.

    Args:
        simpler_parameters: the option of the family; None if it has none.
    """
    if simpler_parameters is not None:
        for parameters in simpler_parameters(scenario.parameters):
            yield replace(scenario, parameters=dict(parameters))


def fault_subsets(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario with proper subsets of its faults, the smallest first.

    These are all of them, or those of up to two faults where there are many: 2 to the power of their number
    is soon more than there is time for. Then ddmin leaves the others out.
    """
    many = len(scenario.faults)
    for count in range(many if many < FEW_FAULTS else 3 if many == FEW_FAULTS else 2):
        for faults in combinations(scenario.faults, count):
            yield replace(scenario, faults=faults)


def fewer_subtasks(scenario: Scenario, original: Scenario | None = None) -> Iterator[Scenario]:
    """Yield the scenario with lower parallelism, without empty splits, or with merged splits.

    Args:
        original: the scenario before shrinking, which shows which splits may be merged.
    """
    full = {split: records for split, records in scenario.records.items() if records}
    if len(full) < len(scenario.records):
        yield replace(scenario, records=full or {next(iter(scenario.records)): ()})
    first_of = exchanging_splits(original or scenario)
    merged: dict[str, list[InputRecord]] = {first_of[split]: [] for split in full}
    if len(merged) < len(full):
        for split, record in listed_records(scenario):
            merged[first_of[split]].append(record)
        yield replace(scenario, records={split: tuple(records) for split, records in merged.items()})
    source, keyed, sink = scenario.parallelisms()
    yield replace(scenario, parallelism=1, source_parallelism=1, sink_parallelism=1)
    for field, current in (
        ("source_parallelism", source),
        ("parallelism", keyed),
        ("sink_parallelism", sink),
    ):
        for lower in range(1, current):
            # Unset source and sink parallelism follow the keyed one, so they are fixed: one change at a time.
            fixed = {"source_parallelism": source, "sink_parallelism": sink, field: lower}
            yield replace(scenario, **fixed)
    highest = max(source, scenario.highest_parallelism, sink)
    if scenario.max_parallelism > PLAIN_MAX_PARALLELISM >= highest:
        yield replace(scenario, max_parallelism=PLAIN_MAX_PARALLELISM)


def simpler_settings(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario with default settings, all at once and one by one, and with shorter intervals."""
    yield replace(scenario, **PLAIN_SETTINGS)
    for name, plain in PLAIN_SETTINGS.items():
        if getattr(scenario, name) != plain:
            yield replace(scenario, **{name: plain})
    if scenario.watermark_interval_ms is not UNSET:
        # A watermark behind each record is easier to follow than one now and then.
        yield replace(scenario, watermark_interval_ms=1)
    mode = scenario.checkpoint_mode
    for simpler in (
        CheckpointMode(mode.barriers, mode.aligned_timeout_ms),
        CheckpointMode(mode.barriers),
        CheckpointMode(max_concurrent=mode.max_concurrent),
        CheckpointMode(min_pause_ms=mode.min_pause_ms),
    ):
        if simpler != mode:
            yield replace(scenario, mode=simpler)
    for interval in SHORT_INTERVALS:
        saved = scenario.checkpoint_interval_ms - interval
        if saved > 0:
            yield replace(scenario, checkpoint_interval_ms=interval)
            # A delay that ends during the next attempt's checkpoint must become shorter by the same time.
            faults = tuple([_with_shorter_delay(fault, saved) for fault in scenario.faults])
            if faults != scenario.faults:
                yield replace(scenario, checkpoint_interval_ms=interval, faults=faults)


def _with_shorter_delay(fault: Fault, steps: int) -> Fault:
    return replace(fault, delay=max(1, fault.delay - steps)) if fault.delay else fault


def simpler_faults(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario with one number of one fault lower, the lowest first."""
    for index, fault in enumerate(scenario.faults):
        for simpler in _simpler_fault(fault):
            faults = (*scenario.faults[:index], simpler, *scenario.faults[index + 1 :])
            yield replace(scenario, faults=faults)


def _simpler_fault(fault: Fault) -> Iterator[Fault]:
    if fault.task != ANY_TASK:
        yield replace(fault, task=ANY_TASK)
    elif fault.point in COORDINATOR_POINTS and fault.occurrence > 1:
        yield replace(fault, occurrence=1)
    if fault.means in CLIENT_ANSWERS:
        yield replace(fault, means="")
    for field, lowest in (
        ("rescale_to", 0),
        ("after", 0),
        ("occurrence", 1),
        ("checkpoint", 0),
        ("delay", 0),
    ):
        if field == "delay" and FAULTS[fault.kind].delay == "required":
            lowest = 1
        current: int = getattr(fault, field)
        for lower in dict.fromkeys((lowest, lowest + (current - lowest) // 2, current - 1)):
            if lowest <= lower < current:
                changed: dict[str, Any] = {field: lower}
                yield replace(fault, **changed)


def fewer_values(scenario: Scenario, original: Scenario | None = None) -> Iterator[Scenario]:
    """Yield the scenario with all values equal, or with one value replaced by the first.

    Args:
        original: the scenario before shrinking, which shows which splits may exchange values.
    """
    first_of = exchanging_splits(original or scenario)
    pairs = listed_records(scenario)
    first: dict[str, RecordValue] = {}
    for split, (_, value) in pairs:
        first.setdefault(first_of[split], value)
    first_values = set(first.values())
    others = [value for value in dict.fromkeys(value for _, (_, value) in pairs) if value not in first_values]
    if not others:
        return
    for replaced in (set(others), *({value} for value in others)):
        changed = [
            (split, (timestamp, first[first_of[split]] if value in replaced else value))
            for split, (timestamp, value) in pairs
        ]
        yield with_records(scenario, changed)


def with_ample_time(scenario: Scenario) -> Scenario:
    """Return the scenario with a schedule that is fair, and checkpoints that expire, as soon as may be.

    What was drawn for many records lets a job that is stuck with a few take several times as long.
    """
    schedule, ample = scenario.schedule, ample_horizon(scenario)
    if schedule.kind != "fair" and schedule.horizon > ample:
        scenario = replace(scenario, schedule=replace(schedule, horizon=ample))
    timeout_ms = ample_timeout_ms(scenario)
    if scenario.checkpoint_timeout_ms > timeout_ms:
        scenario = replace(scenario, checkpoint_timeout_ms=timeout_ms)
    return scenario


def until_horizon(scenario: Scenario) -> Scenario:
    """Return the scenario with steps up to its horizon: behind it no choice differs from a fair one."""
    return replace(scenario, step_budget=max(1, min(scenario.step_budget, scenario.schedule.horizon)))


def with_consecutive_timestamps(scenario: Scenario) -> Scenario:
    """Return the scenario with timestamps 0, 1, 2, ... over all splits, in their old order."""
    pairs = listed_records(scenario)
    return with_records(scenario, [(split, (time, record[1])) for time, (split, record) in enumerate(pairs)])
