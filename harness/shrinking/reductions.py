"""Ways to make a scenario smaller: the measure of size, and the candidates that come before a failing one.

The rules this module lives by:

- One number says how large a scenario is to the person who has to read it. Faults weigh most, since each is
  a thing to understand; then records; then what the schedule does unlike a fair one; then subtasks; then
  every number that is not the plainest. The shrinker only ever goes down in this number, so it ends.
- Candidates are plain values made from a value, without running anything and without chance: what a shrink
  does can be done again.
- A reduction keeps a scenario valid, and never makes its limits tighter than the generator would: a failure
  that a short budget or timeout invents is not the failure that was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.model.faults import COORDINATOR_POINTS, FAULTS
from onceproof.harness.model.scenario import (
    ACTION_CLASSES,
    ANY_TASK,
    CheckpointMode,
    Fault,
    InputRecord,
    RecordValue,
    Scenario,
    Schedule,
)
from onceproof.harness.model.step_limits import STEPS_PER_RECORD, ample_horizon
from onceproof.harness.shrinking.splits import exchanging_splits

Item = TypeVar("Item")

PLAIN_SETTINGS: Final = {"channel_capacity": 8, "retained": 1, "restart_delay_ms": 1, "mode": UNSET}
PLAIN_MAX_PARALLELISM: Final = 4
SHORT_INTERVALS: Final = (10, 15, 20, 30, 60)
"""Between checkpoints, in milliseconds, the shortest first."""
PART: Final = 10
"""What each part of a scenario costs, in the units in which a doubled number costs 8."""
UNIFORM_PARTS: Final = 2000
PRIORITY_PARTS: Final = 1000
FEW_PRIORITIES: Final = 2
"""A schedule that favours or hinders so few classes of action says it in a line: "storage is slow"."""


@dataclass(frozen=True, slots=True)
class Size:
    """What a report says of a scenario's size."""

    records: int
    faults: int
    schedule: int
    """Choices that a fair schedule would not have made."""


READABLE: Final = Size(records=6, faults=2, schedule=6)
UNREADABLE_FAULT_PARTS: Final = 12
"""What each fault beyond those costs more: a few further records are easier to follow than a third fault."""
MOST_RECORDS_TO_PAIR: Final = 16


def size_of(scenario: Scenario, choices: int | None = None) -> Size:
    """Return the size of a scenario; ``choices`` counts those of a schedule that does not list them."""
    schedule = scenario.schedule
    if choices is None:
        listed = len(schedule.preemptions) + len(schedule.priorities) + len(schedule.changes)
        choices = listed + (schedule.seed > 0)
    return Size(scenario.record_count(), len(scenario.faults), choices)


def is_readable(scenario: Scenario) -> bool:
    """Return whether a person can follow the scenario on a page."""
    size = size_of(scenario)
    return (
        size.records <= READABLE.records
        and size.faults <= READABLE.faults
        and size.schedule <= READABLE.schedule
        and not draws_steps(scenario.schedule)
    )


def cost_of(scenario: Scenario) -> int:
    """Return the one number that shrinking lowers."""
    values = {value for records in scenario.records.values() for _, value in records}
    parts = 6 * len(scenario.faults) + 3 * scenario.record_count() + len(values) + len(scenario.records)
    parts += 6 * len(scenario.asked) + sum(
        (operation.parallelism > 0) + (operation.state_backend is not None) + operation.claims
        for operation in scenario.asked
    )
    parts += UNREADABLE_FAULT_PARTS * max(0, len(scenario.faults) - READABLE.faults)
    parts += 2 * sum(scenario.parallelisms())
    parts += sum(1 for name, plain in PLAIN_SETTINGS.items() if getattr(scenario, name) != plain)
    mode = scenario.checkpoint_mode
    parts += (mode.aligned_timeout_ms > 0) + (mode.max_concurrent > 1) + (mode.min_pause_ms > 0)
    numbers = _magnitude(scenario.max_parallelism - PLAIN_MAX_PARALLELISM)
    numbers += _magnitude(scenario.checkpoint_interval_ms)
    numbers += sum(_cost_of_fault(fault) for fault in scenario.faults)
    numbers += sum(_magnitude(each.after) + _magnitude(each.occurrence - 1) for each in scenario.asked)
    schedule = scenario.schedule
    if schedule.kind == "uniform":
        parts += UNIFORM_PARTS
    elif draws_steps(schedule):
        parts += PRIORITY_PARTS + len(schedule.changes)
    else:
        parts += size_of(scenario).schedule + 4 * (schedule.seed > 0)
    return PART * parts + numbers


def draws_steps(schedule: Schedule) -> bool:
    """Return whether a schedule says too little for a reader to follow it, or too much."""
    if schedule.kind == "priority":
        return len(schedule.priorities) > FEW_PRIORITIES
    return schedule.kind == "uniform"


def _cost_of_fault(fault: Fault) -> int:
    numbers = (fault.after, fault.delay, fault.occurrence - 1, fault.checkpoint, fault.rescale_to)
    return sum(_magnitude(number) for number in numbers) + PART * (fault.task != ANY_TASK)


def _magnitude(number: int) -> int:
    """Return a number that grows with the logarithm of the given one, 8 for each doubling."""
    if number <= 0:
        return 0
    bits = number.bit_length()
    return 8 * bits + ((8 * number) >> bits)


def without_items(items: Sequence[Item], still_fails: Callable[[list[Item]], bool]) -> list[Item]:
    """Return a smaller list that still fails: chunks are left out, large ones first, until no item can be."""
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
    """Return the scenario with some of its records, each in its split."""
    records: dict[str, list[InputRecord]] = {split: [] for split in scenario.records}
    for split, record in kept:
        records[split].append(record)
    return replace(scenario, records={split: tuple(rest) for split, rest in records.items()})


def beginnings(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario with its first records only, the fewest first: short runs are cheap to try."""
    pairs = listed_records(scenario)
    count = 0
    while count < len(pairs):
        yield with_records(scenario, pairs[:count])
        count = count + max(1, count // 2)


def slower_sources(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario with its first records only, read when nothing else can happen, the fewest first.

    Under the fair schedule many records may be there for one reason: that reading takes so long that
    something else comes first. A slow source says that in one choice.
    """
    schedule = scenario.schedule
    few = schedule.kind == "fair" or (schedule.kind == "priority" and not draws_steps(schedule))
    if few and "poll" not in schedule.priorities and scenario.record_count() > READABLE.records:
        lowest = min(0, *schedule.priorities.values(), 0) - 1
        priorities = {**schedule.priorities, "poll": lowest}
        slow = Schedule("priority", 0, priorities, schedule.changes, ample_horizon(scenario))
        for shorter in beginnings(scenario):
            yield replace(shorter, schedule=slow)


def sooner_checkpoints(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario with a shorter interval between checkpoints and a run of records less.

    Records may be needed for nothing but the time that it takes to read them before a checkpoint comes:
    then neither they nor the interval can be made less alone. Under a schedule that draws each step there is
    no such time.
    """
    pairs = listed_records(scenario)
    if draws_steps(scenario.schedule) or not READABLE.records < len(pairs) <= MOST_RECORDS_TO_PAIR:
        return
    for count in range(len(pairs) - 1, 0, -1):
        # What is not read is time that does not pass; less of it where subtasks read side by side.
        for steps in range(STEPS_PER_RECORD, 0, -1):
            interval = scenario.checkpoint_interval_ms - steps * count
            if interval >= SHORT_INTERVALS[0]:
                sooner = replace(scenario, checkpoint_interval_ms=interval)
                for begin in range(len(pairs) - count + 1):
                    yield with_records(sooner, pairs[:begin] + pairs[begin + count :])


def earlier_checkpoints(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario with all its faults that many checkpoints earlier, and its first records only.

    Faults that belong together have to move together, and what comes earlier needs less input before it.
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
        for shorter in beginnings(moved):
            yield shorter
            if scenario.checkpoint_interval_ms > SHORT_INTERVALS[0]:
                yield replace(shorter, checkpoint_interval_ms=SHORT_INTERVALS[0])


def listed_records(scenario: Scenario) -> list[tuple[str, InputRecord]]:
    """Return the records with their splits, all of them in the order of their timestamps."""
    pairs = [(split, record) for split, records in scenario.records.items() for record in records]
    return sorted(pairs, key=lambda pair: pair[1][0])


def schedules(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario under simpler schedules."""
    schedule = scenario.schedule
    if schedule.kind == "fair":
        return
    yield replace(scenario, schedule=Schedule())
    for action in ACTION_CLASSES:
        for priority in (-1, 1):
            few = Schedule("priority", 0, {action: priority}, (), schedule.horizon)
            yield replace(scenario, schedule=few)
    if schedule.changes:
        yield replace(scenario, schedule=replace(schedule, changes=()))
    for index in range(len(schedule.changes)):
        changes = (*schedule.changes[:index], *schedule.changes[index + 1 :])
        yield replace(scenario, schedule=replace(schedule, changes=changes))
    for action in schedule.priorities:
        # The draw between equals, with which the others work, stays.
        rest = {each: priority for each, priority in schedule.priorities.items() if each != action}
        yield replace(scenario, schedule=replace(schedule, priorities=rest))


def fewer_operations(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario with nothing asked of the job, with all but one request, and with plainer ones."""
    asked = scenario.asked
    if not asked:
        return
    yield replace(scenario, operations=UNSET)
    for index, operation in enumerate(asked):
        if len(asked) > 1:
            yield replace(scenario, operations=(*asked[:index], *asked[index + 1 :]))
        for plainer in (
            replace(operation, after=0),
            replace(operation, after=operation.after // 2),
            replace(operation, parallelism=0, state_backend=None, claims=False),
            replace(operation, occurrence=max(1, operation.occurrence // 2)),
        ):
            if plainer != operation:
                yield replace(scenario, operations=(*asked[:index], plainer, *asked[index + 1 :]))


def fault_subsets(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario with none of its faults, one, two, and so on."""
    for count in range(len(scenario.faults)):
        for faults in combinations(scenario.faults, count):
            yield replace(scenario, faults=faults)


def fewer_subtasks(scenario: Scenario, found: Scenario | None = None) -> Iterator[Scenario]:
    """Yield the scenario with lower parallelism, the lowest first, and without splits that are empty.

    ``found`` is what it was made of, and shows which splits can be one.
    """
    full = {split: records for split, records in scenario.records.items() if records}
    if len(full) < len(scenario.records):
        yield replace(scenario, records=full or {next(iter(scenario.records)): ()})
    first_of = exchanging_splits(found or scenario)
    merged: dict[str, list[InputRecord]] = {first_of[split]: [] for split in full}
    if len(merged) < len(full):
        for split, record in listed_records(scenario):
            merged[first_of[split]].append(record)
        yield replace(scenario, records={split: tuple(records) for split, records in merged.items()})
    source, keyed, sink = scenario.parallelisms()
    yield replace(scenario, parallelism=1, source_parallelism=1, sink_parallelism=1)
    for field, now in (("source_parallelism", source), ("parallelism", keyed), ("sink_parallelism", sink)):
        for lower in range(1, now):
            # What followed the keyed operators keeps its own number: one thing changes at a time.
            fixed = {"source_parallelism": source, "sink_parallelism": sink, field: lower}
            yield replace(scenario, **fixed)
    highest = max(source, keyed, sink, *(fault.rescale_to for fault in scenario.faults), 1)
    if scenario.max_parallelism > PLAIN_MAX_PARALLELISM >= highest:
        yield replace(scenario, max_parallelism=PLAIN_MAX_PARALLELISM)


def plainer_settings(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario with plain settings, all of them and one by one."""
    yield replace(scenario, **PLAIN_SETTINGS)
    for name, plain in PLAIN_SETTINGS.items():
        if getattr(scenario, name) != plain:
            yield replace(scenario, **{name: plain})
    mode = scenario.checkpoint_mode
    for plainer in (
        CheckpointMode(mode.barriers, mode.aligned_timeout_ms),
        CheckpointMode(mode.barriers),
        CheckpointMode(max_concurrent=mode.max_concurrent),
        CheckpointMode(min_pause_ms=mode.min_pause_ms),
    ):
        if plainer != mode:
            yield replace(scenario, mode=plainer)
    for interval in SHORT_INTERVALS:
        sooner = scenario.checkpoint_interval_ms - interval
        if sooner > 0:
            yield replace(scenario, checkpoint_interval_ms=interval)
            # A delay that reaches into the next attempt's checkpoint has to come sooner with it.
            faults = tuple([_sooner(fault, sooner) for fault in scenario.faults])
            if faults != scenario.faults:
                yield replace(scenario, checkpoint_interval_ms=interval, faults=faults)


def _sooner(fault: Fault, steps: int) -> Fault:
    return replace(fault, delay=max(1, fault.delay - steps)) if fault.delay else fault


def plainer_faults(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario with one number of one fault lower, the lowest first."""
    for index, fault in enumerate(scenario.faults):
        for plainer in _plainer(fault):
            faults = (*scenario.faults[:index], plainer, *scenario.faults[index + 1 :])
            yield replace(scenario, faults=faults)


def _plainer(fault: Fault) -> Iterator[Fault]:
    if fault.task != ANY_TASK:
        yield replace(fault, task=ANY_TASK)
    elif fault.point in COORDINATOR_POINTS and fault.occurrence > 1:
        yield replace(fault, occurrence=1)
    for field, lowest in (
        ("rescale_to", 0),
        ("after", 0),
        ("occurrence", 1),
        ("checkpoint", 0),
        ("delay", 0),
    ):
        if field == "delay" and FAULTS[fault.kind].delay == "required":
            lowest = 1
        now: int = getattr(fault, field)
        for lower in dict.fromkeys((lowest, lowest + (now - lowest) // 2, now - 1)):
            if lowest <= lower < now:
                changed: dict[str, Any] = {field: lower}
                yield replace(fault, **changed)


def plainer_values(scenario: Scenario, found: Scenario | None = None) -> Iterator[Scenario]:
    """Yield the scenario with all values equal, or with one kind of value turned into the first.

    ``found`` is what it was made of, and shows which splits share their values; the others keep theirs.
    """
    first_of = exchanging_splits(found or scenario)
    pairs = listed_records(scenario)
    first: dict[str, RecordValue] = {}
    for split, (_, value) in pairs:
        first.setdefault(first_of[split], value)
    plain = set(first.values())
    others = [value for value in dict.fromkeys(value for _, (_, value) in pairs) if value not in plain]
    if not others:
        return
    for replaced in (set(others), *({value} for value in others)):
        changed = [
            (split, (timestamp, first[first_of[split]] if value in replaced else value))
            for split, (timestamp, value) in pairs
        ]
        yield with_records(scenario, changed)


def renumbered(scenario: Scenario) -> Scenario:
    """Return the scenario with timestamps 0, 1, 2 over all splits, in the order they had."""
    pairs = listed_records(scenario)
    return with_records(scenario, [(split, (time, record[1])) for time, (split, record) in enumerate(pairs)])
