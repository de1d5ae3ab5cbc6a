"""Builds the scenario of a point of an experiment.

The rules this module lives by:

- The studied parameters are set; all else is equal in every scenario: the number of records and splits, one
  kill of all tasks, ample limits. The seed decides the order of records and of steps.
- A family with the option ``with_key``, a function that returns a value with key number 0, 1, 2, ..., has the
  values that its generator draws, with keys and timestamps of this module. Its job must not read workload
  parameters, which would describe the records that the generator drew.
- Any other family has the same records in every scenario, those of the largest of some drawn workloads. Then
  the parameters that describe records are not studied.
- The scenario's JSON holds the studied parameters, and replays like any other scenario.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import accumulate
from random import Random
from typing import Final

from onceproof.harness.generation.drawn_workloads import workload_of
from onceproof.harness.generation.generator import generator_version
from onceproof.harness.model.chance import Chance, derived_seed
from onceproof.harness.model.family import Family, FamilyError, Workload, options_of
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
WORKLOADS: Final = 20
MOST_DRAWS: Final = 200
"""The most workloads that are drawn to get enough records and splits."""


def varies_records(family: Family) -> bool:
    """Return whether an experiment can set the keys of a family's records."""
    return options_of(family).with_key is not None


def designed_scenario(
    family: Family, settings: Settings, seed: int, origin: Mapping[str, Parameter]
) -> Scenario:
    """Return the scenario of some settings and a seed.

    Args:
        origin: further entries of the scenario's parameters, such as the experiment and the point.

    Raises:
        FamilyError: the family draws too few records.
    """
    random = Random(seed)
    with_key = options_of(family).with_key
    if with_key is None:
        workload, chance = _largest_workload(family), Chance(random)
        records = {split: tuple(each) for split, each in workload.records.items()}
        parameters = dict(workload.parameters)
    else:
        workload, values = _draw_values(family, random)
        chance = Chance(random)
        records = _records(with_key, sorted(workload.records)[:SPLITS], values, settings, chance)
        parameters = {}
    elements = _elements(family, sum(map(len, records.values())))
    kill = Fault("kill_all", "element", occurrence=1 + int(settings.fault_time * (elements - 1)))
    scenario = Scenario(
        family=family.name,
        generator_version=generator_version(family),
        seed=None,
        parameters={
            **{name: value for name, value in asdict(settings).items() if value is not None},
            **origin,
            **parameters,
        },
        records=records,
        parallelism=settings.parallelism,
        max_parallelism=MAX_PARALLELISM,
        source_parallelism=workload.source_parallelism or min(SPLITS, len(records)),
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


def _largest_workload(family: Family) -> Workload:
    """Return the workload with the most records of WORKLOADS, which are always the same."""
    random = Random(derived_seed("largest workload", family.name))
    drawn = [workload_of(family, random) for _ in range(WORKLOADS)]
    largest = max(drawn, key=_size)
    if not _size(largest):
        raise FamilyError(f"family {family.name}: {WORKLOADS} draws of generate() returned no record")
    return largest


def _size(workload: Workload) -> int:
    return sum(map(len, workload.records.values()))


def _elements(family: Family, records: int) -> int:
    """Return how many elements the tasks handle; sinks may get fewer rows than there are records."""
    tasks = sum(varies_records(family) or kind != "sink" for kind in family.tasks.values())
    return records * tasks


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
    with_key: Callable[[RecordValue, int], RecordValue],
    splits: list[str],
    values: list[RecordValue],
    settings: Settings,
    chance: Chance,
) -> dict[str, tuple[InputRecord, ...]]:
    """Distribute the values over the splits, each with a key and a timestamp."""
    assert settings.keys is not None
    assert settings.skew is not None
    assert settings.disorder_ms is not None
    shares = list(accumulate(1 / (number + 1) ** settings.skew for number in range(settings.keys)))
    records: dict[str, list[InputRecord]] = {split: [] for split in splits}
    for turn, value in enumerate(values):
        point = chance.unit() * shares[-1]
        number = next(number for number, share in enumerate(shares) if point < share)
        late = int(chance.unit() * (settings.disorder_ms + 1))
        # Shifted by the disorder, so that the first records have no timestamp below 0.
        timestamp = RECORD_MS * turn + settings.disorder_ms - late
        records[chance.choice(splits)].append((timestamp, with_key(value, number)))
    return {split: tuple(of_split) for split, of_split in records.items()}
