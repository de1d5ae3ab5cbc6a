"""Small-scope search: it draws small random scenarios that resemble a failing one.

ddmin ends where no part can be left out, which is seldom the smallest failure: six records may all be needed,
while two other records fail as well. So scenarios of 1 to 6 records and at most two faults are drawn, half of
them with faults of the failing scenario, half with faults from the fault patterns.

The random seed is derived from the scenario, so a shrink is repeatable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from random import Random
from typing import Final

from msgspec.structs import replace

from onceproof.harness.generation.drawn_faults import JobOutline
from onceproof.harness.generation.fault_patterns import draw_faults
from onceproof.harness.generation.generator import draw_priorities
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.fault_kinds import COORDINATOR_POINTS
from onceproof.harness.model.faults import FAULTS, JOB_FAULTS
from onceproof.harness.model.scenario import (
    ACTION_CLASSES,
    ANY_TASK,
    Fault,
    InputRecord,
    Parallelism,
    RecordValue,
    Scenario,
    Schedule,
    to_json,
)
from onceproof.harness.model.step_limits import checkpoint_steps
from onceproof.harness.shrinking.splits import exchanging_splits

MOST_RECORDS: Final = 6
MOST_FAULTS: Final = 2
MOST_VALUES: Final = 20
HORIZON: Final = 600
LONG_DELAY_MS: Final = 200
"""A restart delay that is drawn at times: state with a TTL expires in it, without records to pass the
time."""


def small_scenarios(scenario: Scenario, original: Scenario | None = None) -> Iterator[Scenario]:
    """Yield an endless sequence of small scenarios with faults and values of the given one.

    Args:
        scenario: the failing scenario.
        original: the scenario before shrinking. It shows which splits exchange records, and its values are
            used if ``scenario`` has no records left.
    """
    digest = sha256(to_json(scenario).encode()).digest()
    chance = Chance(Random(int.from_bytes(digest[:8], "big")))
    # Two of many faults may suffice together with more records.
    too_many = len(scenario.faults) > MOST_FAULTS
    most = MOST_RECORDS if too_many else scenario.record_count()
    first_of = exchanging_splits(original or scenario)
    # Many records may do what a fault does with few of them.
    known_faults = scenario.faults or (original or scenario).faults
    values = _values(scenario, first_of) or _values(original or scenario, first_of)
    # Splits whose group has no values left get no records.
    usable = [split for split in scenario.records if first_of[split] in values]
    while True:
        count = chance.integer(1, max(1, min(MOST_RECORDS, most)))
        splits: dict[str, list[InputRecord]] = {
            split: [] for split in (usable or list(scenario.records))[: chance.integer(1, 2)]
        }
        different = chance.integer(1, 2)
        kept = {first: chance.sample(each, different) or each[:1] for first, each in values.items()}
        for time in range(count if usable else 0):
            split = chance.choice(list(splits))
            splits[split].append((time, chance.choice(kept[first_of[split]])))
        source, keyed, sink = (chance.integer(1, min(2, most)) for most in scenario.parallelisms())
        if chance.chance(0.25):
            # A wrong split of key groups may show with three subtasks and not with two.
            keyed = scenario.parallelism
        interval = chance.choice((10, 15, 20, scenario.checkpoint_interval_ms))
        delay = LONG_DELAY_MS if chance.chance(0.1) else scenario.restart_delay_ms
        if chance.chance(0.9 if too_many else 0.5):
            some_faults = chance.sample(
                known_faults, MOST_FAULTS if too_many else chance.integer(0, MOST_FAULTS)
            )
            if chance.chance(0.3):
                faults = _moved_together(chance, some_faults)
            else:
                faults = tuple([_moved(chance, fault) for fault in some_faults])
        else:
            faults = draw_faults(chance, _stage(scenario, Parallelism(source, keyed, sink), count, interval))
        yield replace(
            scenario,
            seed=None,
            records={split: tuple(records) for split, records in splits.items()},
            parallelism=keyed,
            source_parallelism=source,
            sink_parallelism=sink,
            checkpoint_interval_ms=interval,
            restart_delay_ms=delay,
            faults=faults[:MOST_FAULTS],
            schedule=_schedule(chance, scenario.schedule),
        )


def _values(scenario: Scenario, first_of: dict[str, str]) -> dict[str, list[RecordValue]]:
    """Return up to MOST_VALUES values for each group of splits, by the first split of the group."""
    values: dict[str, list[RecordValue]] = {}
    for split, records in scenario.records.items():
        if records:
            values.setdefault(first_of[split], []).extend(value for _, value in records)
    return {first: each[:MOST_VALUES] for first, each in values.items()}


def _stage(scenario: Scenario, parallelism: Parallelism, records: int, interval: int) -> JobOutline:
    """Return the stage of a small job; whose subtasks have what names is not known here and not needed."""
    return JobOutline(
        tasks=(ANY_TASK,) * sum(parallelism),
        sinks=(ANY_TASK,) * parallelism.sink,
        sources=parallelism.source,
        records=records,
        checkpoints=2,
        checkpoint_steps=checkpoint_steps(*parallelism),
        interval=interval,
        restart_delay=scenario.restart_delay_ms,
        short_timeout=scenario.checkpoint_timeout_ms,
        max_parallelism=min(scenario.max_parallelism, 2),
        kinds=frozenset(JOB_FAULTS),
        rescales=any(fault.rescale_to for fault in scenario.faults),
    )


def _moved(chance: Chance, fault: Fault) -> Fault:
    """Return the fault unchanged, or a little earlier or later."""
    if chance.chance(0.4):
        return fault
    return replace(
        fault,
        checkpoint=chance.integer(0, 3) if fault.checkpoint else 0,
        occurrence=1 if fault.point in COORDINATOR_POINTS else chance.integer(1, 4),
        after=chance.choice((0, 1, 2, 4, 8, 16, fault.after)),
        delay=max(1, fault.delay // chance.integer(1, 4))
        if FAULTS[fault.kind].delay == "required"
        else fault.delay,
    )


def _moved_together(chance: Chance, faults: Sequence[Fault]) -> tuple[Fault, ...]:
    """Return all faults moved by the same number of checkpoints to an earlier one, or unchanged."""
    numbers = [fault.checkpoint for fault in faults if fault.checkpoint]
    earlier = chance.integer(0, min(numbers) - 1) if numbers else 0
    return tuple(
        replace(fault, checkpoint=fault.checkpoint - earlier) if fault.checkpoint else fault
        for fault in faults
    )


def _schedule(chance: Chance, failing: Schedule) -> Schedule:
    """Return a schedule that is readable, or one that draws its steps and is recorded as choices later."""
    seed = chance.integer(1, 999_999)
    kind = chance.weighted((("fair", 3), ("few", 3), ("own", 2), ("uniform", 4), ("priority", 2)))
    if kind == "fair":
        return Schedule()
    if kind == "few":
        return Schedule("priority", 0, {chance.choice(ACTION_CLASSES): chance.choice((-1, 1))}, (), HORIZON)
    if kind == "own":
        return failing
    if kind == "uniform":
        return Schedule("uniform", seed, {}, (), HORIZON)
    return Schedule("priority", seed, draw_priorities(chance), (), HORIZON)
