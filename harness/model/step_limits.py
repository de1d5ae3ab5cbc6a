"""How many steps a scenario takes in the simulation, and limits that no sound engine reaches."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import Fault, Scenario, most_steps

SECONDS: Final = 60.0
"""The processor time of a scenario. Its median is 15 ms, and the slowest take a second."""

MEMORY_MB: Final = 1024
"""What a scenario may allocate beside what its process had allocated before."""


class Budget(msgspec.Struct, frozen=True):
    """What a scenario may use."""

    seconds: float = SECONDS
    memory_mb: int = MEMORY_MB


STEPS_PER_RECORD: Final = 3
"""Poll at the source, deliver to the keyed operator, deliver to the sink."""
EXPIRIES: Final = 10
"""How many checkpoints may expire one after another."""


def checkpoint_steps(source: int, keyed: int, sink: int) -> int:
    """Return the steps of one checkpoint: triggers, barriers, writes, acknowledgements, notifications."""
    return source + source * keyed + keyed * sink + 3 * (source + keyed + sink) + 2


def with_ample_limits(scenario: Scenario) -> Scenario:
    """Return a scenario put together otherwise, with limits that no sound engine meets."""
    schedule = scenario.schedule
    if schedule.kind != "fair":
        schedule = replace(schedule, horizon=ample_horizon(scenario))
    limited = replace(scenario, schedule=schedule)
    limited = replace(limited, checkpoint_timeout_ms=ample_timeout_ms(limited))
    return replace(limited, step_budget=ample_step_budget(limited))


def ample_horizon(scenario: Scenario) -> int:
    """Return the step up to which a schedule may be unfair, long after a sound engine is done."""
    return 3 * _natural_steps(scenario) + 300


def ample_timeout_ms(scenario: Scenario) -> int:
    """Return the time that no checkpoint takes under the schedule of a scenario, unless a message is lost."""
    return scenario.schedule.horizon + 10 * _natural_steps(scenario) + _delays(scenario)


def allowed_step_budget(steps: float, records: int) -> int:
    """Return a step budget as a scenario with so many records may have it: at least 1, and bounded."""
    return max(1, min(int(steps), most_steps(records)))


def patient_step_budget(scenario: Scenario) -> int:
    """Return an ample budget for a job that waits until checkpoints expire, which may be the only way on."""
    return ample_step_budget(scenario) + EXPIRIES * scenario.checkpoint_timeout_ms


def patience_of(scenario: Scenario) -> float:
    """Return by how much the budget of a scenario is above what its size asks for; 1 where it is below.

    A job may take more steps than its records let expect, and its smaller ones do as well.
    """
    return max(1.0, scenario.step_budget / patient_step_budget(scenario))


def ample_step_budget(scenario: Scenario) -> int:
    """Return the steps after which a scenario put together otherwise is stuck, under the schedule it has."""
    steps = checkpoint_steps(*_parallelism_of(scenario))
    horizon, records = scenario.schedule.horizon, scenario.record_count()
    ample = ample_steps(_natural_steps(scenario), horizon, _delays(scenario), records, steps)
    return allowed_step_budget(ample, records)


def ample_steps(natural: int, horizon: int, delays: int, records: int, steps: int) -> int:
    """Return the steps after which a run is stuck that takes ``natural`` steps where nothing disturbs it.

    Once the horizon is over each source reads one record a round. Where checkpoints of ``steps`` steps take
    longer than their interval, there is one in every round, and as many other actions in turn with it.
    """
    return 20 * natural + 2 * horizon + 10 * delays + 2 * steps * records + 2000


def _parallelism_of(scenario: Scenario) -> tuple[int, int, int]:
    """Return the highest parallelism of sources, keyed operators and sinks."""
    return scenario.parallelisms(scenario.highest_parallelism)


def _natural_steps(scenario: Scenario) -> int:
    """Return about how many steps a run without faults takes."""
    parallelism = _parallelism_of(scenario)
    records = STEPS_PER_RECORD * scenario.record_count()
    checkpoints = 3 + records // scenario.checkpoint_interval_ms
    return records + checkpoints * (checkpoint_steps(*parallelism) + sum(parallelism))


def _delays(scenario: Scenario) -> int:
    """Return for how many milliseconds faults and rescales of a scenario may hold its job up."""
    each = scenario.restart_delay_ms + scenario.checkpoint_interval_ms
    rescales = [operation.kind for operation in scenario.asked].count("rescale")
    held_up = sum(held_up_ms(fault) + each for fault in scenario.faults)
    return held_up + each * (rescales + scenario.is_endless)


def held_up_ms(fault: Fault) -> int:
    """Return for how many milliseconds a fault may hold a job up, besides the restart that follows."""
    return fault.after + (fault.delay if FAULTS[fault.kind].holds_up else 0)
