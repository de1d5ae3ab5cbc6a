"""Builds the scenario of a point of an experiment.

The rules this module lives by:

- The studied parameters are set; all else is equal in every scenario: the number of records and splits, one
  kill of all tasks, ample limits. The seed decides the order of records and of steps.
- The family's generator draws the values of the records; this module gives them keys and timestamps. So the
  family needs the option ``with_key``, a function that returns a value with key number 0, 1, 2, ..., and its
  job must not read workload parameters, which would describe the records that the generator drew.
- The scenario's JSON holds the studied parameters, and replays like any other scenario.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import accumulate
from random import Random
from typing import Final

from onceproof.harness.generation.generator import generator_version
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Family, FamilyError, Workload, options_of, source_file, workload_of
from onceproof.harness.model.scenario import (
    Fault,
    InputRecord,
    Parameter,
    RecordValue,
    Scenario,
    Schedule,
    check,
)
from onceproof.harness.model.step_limits import with_ample_limits
from onceproof.harness.sensitivity.parameters import Settings

RECORDS: Final = 120
SPLITS: Final = 2
RECORD_MS: Final = 5
"""The time between two records before their timestamps are disordered."""
MAX_PARALLELISM: Final = 16
RESTART_DELAY_MS: Final = 20
UNLIMITED: Final = 1_000_000
MOST_DRAWS: Final = 200
"""The most workloads that are drawn to get enough records and splits."""


def designed_family(family: Family) -> Family:
    """Return the family.

    :raises FamilyError: it has no option ``with_key``
    """
    _with_key_of(family)
    return family


def _with_key_of(family: Family) -> Callable[[RecordValue, int], RecordValue]:
    with_key = options_of(family).with_key
    if with_key is None:
        raise FamilyError(
            f"{source_file(family) or family.name}: family {family.name} cannot set the key of a value: it"
            " needs a function with_key(value, number) and options = FamilyOptions(with_key=with_key), as"
            " word_count and page_views have"
        )
    return with_key


def designed_scenario(
    family: Family, settings: Settings, seed: int, origin: Mapping[str, Parameter]
) -> Scenario:
    """Return the scenario of some settings and a seed.

    :param origin: further entries of the scenario's parameters, such as the experiment and the point
    :raises FamilyError: the family cannot be designed
    """
    random = Random(seed)
    workload, values = _draw_values(family, random)
    chance = Chance(random)
    records = _records(family, sorted(workload.records)[:SPLITS], values, settings, chance)
    elements = RECORDS * len(family.tasks)
    kill = Fault("kill_all", "element", occurrence=1 + int(settings.fault_time * (elements - 1)))
    scenario = Scenario(
        family=family.name,
        generator_version=generator_version(family),
        seed=None,
        parameters={**asdict(settings), **origin},
        records=records,
        parallelism=settings.parallelism,
        max_parallelism=MAX_PARALLELISM,
        source_parallelism=workload.source_parallelism or SPLITS,
        sink_parallelism=0,
        channel_capacity=settings.channel_capacity,
        checkpoint_interval_ms=settings.checkpoint_interval_ms,
        checkpoint_timeout_ms=UNLIMITED,
        tolerable_failures=UNLIMITED,
        retained=1,
        restart_delay_ms=RESTART_DELAY_MS,
        faults=(kill,),
        schedule=Schedule("uniform", chance.integer(0, 999_999), {}, (), 0),
        step_budget=UNLIMITED,
    )
    scenario = with_ample_limits(scenario)
    check(scenario)
    return scenario


def _draw_values(family: Family, random: Random) -> tuple[Workload, list[RecordValue]]:
    """Draw workloads until there are RECORDS values; return one with SPLITS splits, and the values."""
    chosen: Workload | None = None
    values: list[RecordValue] = []
    for _ in range(MOST_DRAWS):
        workload = workload_of(family, random)
        if chosen is None and len(workload.records) >= SPLITS:
            chosen = workload
        values += [value for records in workload.records.values() for _, value in records]
        if chosen is not None and len(values) >= RECORDS:
            return chosen, values[:RECORDS]
    raise FamilyError(
        f"family {family.name}: {MOST_DRAWS} draws of generate() returned fewer than {RECORDS} records or"
        f" {SPLITS} splits: it cannot be used in an experiment"
    )


def _records(
    family: Family, splits: list[str], values: list[RecordValue], settings: Settings, chance: Chance
) -> dict[str, tuple[InputRecord, ...]]:
    """Distribute the values over the splits, each with a key and a timestamp."""
    shares = list(accumulate(1 / (number + 1) ** settings.skew for number in range(settings.keys)))
    with_key = _with_key_of(family)
    records: dict[str, list[InputRecord]] = {split: [] for split in splits}
    for turn, value in enumerate(values):
        point = chance.unit() * shares[-1]
        number = next(number for number, share in enumerate(shares) if point < share)
        late = int(chance.unit() * (settings.disorder_ms + 1))
        # Shifted by the disorder, so that the first records have no timestamp below 0.
        timestamp = RECORD_MS * turn + settings.disorder_ms - late
        records[chance.choice(splits)].append((timestamp, with_key(value, number)))
    return {split: tuple(of_split) for split, of_split in records.items()}
