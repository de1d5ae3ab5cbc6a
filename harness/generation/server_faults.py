"""Faults of the servers at the ends of a job: a server is killed, paused, or a connection to it is cut.

The rules this module lives by:

- They are drawn behind the faults of a scenario, by a chance of their own that follows from its seed. So the
  scenarios of families without a server, and of systems that strike no server, stay what they were.
- Only a system that can strike servers has them drawn (`trials/trial.py`). Drawing again gives the same: a
  scenario that has such faults keeps them, and one without a seed was written or shrunk, and stays as it is.
- A server that dies between two requests is found dead by the next one. What loses or repeats rows is a death
  in the middle: while a transaction is pre-committed, committed, or looked for by the next attempt. So most
  faults aim there, and some come with a kill of the job, which then meets the server as it comes back.
- A death costs the job a restart, and a pause its length. Both are short, since a scenario has dozens of
  records and a run thousands of scenarios.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final, TypeAlias

from msgspec.structs import replace

from onceproof.harness.generation.drawn_faults import writing_vertices
from onceproof.harness.model.chance import Chance, Lots, derived_seed
from onceproof.harness.model.family import Family, options_of, tasks_with
from onceproof.harness.model.fault_kinds import (
    COORDINATOR_POINTS,
    SERVERS,
    Delay,
    FaultKind,
    Point,
    ServerName,
)
from onceproof.harness.model.faults import FAULTS, drawn_kinds
from onceproof.harness.model.scenario import ANY_TASK, Fault, Scenario
from onceproof.harness.model.step_limits import STEPS_PER_RECORD

LONGEST_DEATH_MS: Final = 500
LONGEST_PAUSE_MS: Final = 600
MOST_CHECKPOINTS: Final = 4
"""A fault waits for the passes of at most so many checkpoints: later input shows what it has broken."""

_COUNTS: Final = ((0, 1), (1, 6), (2, 4), (3, 1))
_COMMIT_POINTS: Final[tuple[tuple[Point, int], ...]] = (
    ("committing", 6),
    ("pre_committed", 4),
    ("committed", 3),
    ("completed", 3),
    ("notified", 2),
    ("snapshotted", 2),
    ("acknowledged", 2),
    ("barrier_received", 1),
    ("aligned", 1),
    ("uploaded", 1),
    ("metadata_written", 1),
    ("triggered", 1),
)
_RECOVERY_POINTS: Final[tuple[tuple[Point, int], ...]] = (
    ("restoring", 2),
    ("restored", 2),
    ("committing", 2),
    ("aborted", 1),
)
_SINK_POINTS: Final = frozenset({"pre_committed", "committing", "committed", "aborted"})
_AFTER: Final = ((0, 5), (3, 2), (12, 2))


@dataclass(frozen=True, slots=True)
class _Job:
    """What is known of a job before faults of servers are drawn for it."""

    records: int
    subtasks: int
    sinks: int
    checkpoints: int
    servers: tuple[ServerName, ...]


_Pattern: TypeAlias = Callable[[Chance, _Job], list[Fault]]


def with_server_faults(family: Family, scenario: Scenario) -> Scenario:
    """Return the scenario with faults drawn for the servers that its family needs."""
    needed = options_of(family).servers
    servers = tuple([name for name in SERVERS if name in needed])
    if scenario.seed is None or not servers or any(fault.server for fault in scenario.faults):
        return scenario
    chance = Chance(Random(derived_seed("server faults", scenario.seed)))
    sizes = scenario.parallelisms()._asdict()
    vertices = tasks_with(family, scenario.parameters)
    records = scenario.record_count()
    job = _Job(
        records=records,
        subtasks=sum(role if isinstance(role, int) else sizes[role] for role in vertices.values()),
        sinks=len(writing_vertices(vertices)) * sizes["sink"],
        checkpoints=1 + STEPS_PER_RECORD * records // scenario.checkpoint_interval_ms,
        servers=servers,
    )
    faults: list[Fault] = []
    for _ in range(chance.weighted(_COUNTS)):
        faults += Lots(chance).first(_PATTERNS)(chance, job)
    return replace(scenario, faults=(*scenario.faults, *faults))


def _server_fault(chance: Chance, job: _Job, point: Point) -> Fault:
    """Return a fault of a server at a pass of the point, or some passes of any point after it."""
    kind = Lots(chance).first(drawn_kinds("server"))
    # The number of draws is always the same, so that no draw depends on another.
    length, answers, after = chance.unit(), chance.chance(0.5), chance.weighted(_AFTER)
    delays: Mapping[Delay, int] = {
        "none": 0,
        # In half of the cases it is started again at once.
        "optional": max(0, int((2 * length - 1) * LONGEST_DEATH_MS)),
        "required": 1 + int(length * LONGEST_PAUSE_MS),
    }
    return Fault(
        kind,
        point,
        occurrence=_occurrence(chance, job, point),
        after=chance.integer(after // 2, after),
        delay=delays[FAULTS[kind].delay],
        means="answer" if answers and "answer" in FAULTS[kind].means else "",
        server=chance.choice(job.servers),
    )


def _occurrence(chance: Chance, job: _Job, point: Point) -> int:
    """Return at which pass of the point a fault strikes, over all tasks and checkpoints."""
    if point == "element":
        return chance.integer(1, 1 + 2 * job.records)
    passing = min(job.checkpoints, MOST_CHECKPOINTS)
    if point == "end_of_data":
        passing = job.subtasks
    elif point not in COORDINATOR_POINTS:
        passing *= job.sinks if point in _SINK_POINTS else job.subtasks
    return chance.integer(1, passing)


def _around_a_commit(chance: Chance, job: _Job) -> list[Fault]:
    return [_server_fault(chance, job, chance.weighted(_COMMIT_POINTS))]


def _between_checkpoints(chance: Chance, job: _Job) -> list[Fault]:
    return [_server_fault(chance, job, "element")]


def _with_a_kill(chance: Chance, job: _Job) -> list[Fault]:
    """The job is killed soon after the server is struck: its next attempt may find the server still away."""
    fault = _server_fault(chance, job, chance.weighted(_COMMIT_POINTS))
    kill: FaultKind = "kill_process" if chance.chance(0.7) else "kill_all"
    # The pass at which a fault is set off counts for that fault alone, so the kill comes at a later one.
    return [fault, Fault(kill, fault.point, ANY_TASK, 0, fault.occurrence, chance.integer(0, 6))]


def _during_a_recovery(chance: Chance, job: _Job) -> list[Fault]:
    """The server is struck as the next attempt looks for what the killed one has left there."""
    kill: FaultKind = "kill_process" if chance.chance(0.5) else "kill_all"
    point: Point = chance.choice(("completed", "committing", "pre_committed"))
    killed = Fault(kill, point, ANY_TASK, 0, _occurrence(chance, job, point))
    return [killed, _server_fault(chance, job, chance.weighted(_RECOVERY_POINTS))]


def _at_the_end(chance: Chance, job: _Job) -> list[Fault]:
    """The server is struck around the last commits, whose errors no later checkpoint can repair."""
    return [_server_fault(chance, job, "end_of_data")]


_PATTERNS: Final[Mapping[_Pattern, int]] = {
    _around_a_commit: 6,
    _with_a_kill: 3,
    _during_a_recovery: 3,
    _between_checkpoints: 2,
    _at_the_end: 1,
}
