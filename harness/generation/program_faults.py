"""Faults of a program of which nothing is known: kills, pauses and stops from outside.

The rules this module lives by:

- They take the place of what was drawn for a job of the engine, by a chance of their own that follows from
  the seed. Drawing again gives the same; a scenario without a seed was shrunk or written, and stays as it is.
- The harness sees a program pass three points: it is given a record, a row of it is seen, it starts. A file
  may mark others in what the program prints. Faults wait for a pass of one of them, and some milliseconds
  more: a program writes and stores between the points that can be seen.
- What breaks programs is a death between output and stored progress, and one during the recovery from
  another. So most kills come around rows that appear and marks, and some follow on a start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final, TypeAlias

from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.model.chance import Chance, Lots, derived_seed
from onceproof.harness.model.fault_kinds import Delay, FaultKind, Means, Point, ServerName
from onceproof.harness.model.faults import FAULTS, drawn_kinds
from onceproof.harness.model.program_family import ProgramFamily
from onceproof.harness.model.program_file import READ_POINT, SEEN_POINT, STARTED_POINT
from onceproof.harness.model.scenario import (
    Barriers,
    CheckpointMode,
    Fault,
    Operation,
    Scenario,
    Schedule,
)

LONGEST_WAIT_MS: Final = 120
"""From a point to a kill, at most."""
LONGEST_PAUSE_MS: Final = 800
LONGEST_DEATH_MS: Final = 500
LONGEST_RESTART_DELAY_MS: Final = 100
MOST_MARKS: Final = 4
HIGHEST_PARALLELISM: Final = 3

_COUNTS: Final = ((0, 1), (1, 6), (2, 6), (3, 3))
_WAITS: Final = ((0, 5), (10, 3), (40, 2), (LONGEST_WAIT_MS, 2))


@dataclass(frozen=True, slots=True)
class _Program:
    """What is known of a program before faults are drawn for it."""

    records: int
    arrives: bool
    """Whether records are given while it runs."""
    marks: tuple[Point, ...]
    servers: tuple[ServerName, ...]
    has_parts: bool
    rescales: bool


_Pattern: TypeAlias = Callable[[Chance, _Program], list[Fault]]


def with_program_faults(family: ProgramFamily, scenario: Scenario) -> Scenario:
    """Return the scenario as a program can run it, with faults drawn for it."""
    file = family.file
    barriers: Barriers = "at_least_once" if file.is_at_least_once else "aligned"
    plain = replace(
        scenario,
        mode=CheckpointMode(barriers=barriers),
        schedule=Schedule(),
        source_parallelism=0,
        sink_parallelism=0,
        state_backend=UNSET,
        incremental=UNSET,
        watermark_interval_ms=UNSET,
        buffer_records=UNSET,
        endless=UNSET,
    )
    if scenario.seed is None:
        return plain
    chance = Chance(Random(derived_seed("program faults", scenario.seed)))
    marks = tuple([point for point in file.points if point in file.marks])
    rescales = file.can_rescale and chance.chance(0.5)
    program = _Program(
        scenario.record_count(),
        bool(file.pace_ms),
        marks,
        file.servers,
        bool(file.program.parts),
        rescales,
    )
    parallelism = chance.integer(1, HIGHEST_PARALLELISM) if file.can_rescale else 1
    delay = chance.integer(0, LONGEST_RESTART_DELAY_MS)
    faults: list[Fault] = []
    patterns = {**_PATTERNS, **_SERVER_PATTERNS} if program.servers else _PATTERNS
    for _ in range(chance.weighted(_COUNTS)):
        faults += Lots(chance).first(patterns)(chance, program)
    # Without a stop no later version follows.
    stops = chance.chance(0.15) or family.before is not None
    stop = Operation(
        "terminate",
        READ_POINT if program.arrives else SEEN_POINT,
        occurrence=chance.integer(1, max(1, program.records)),
    )
    return replace(
        plain,
        parallelism=parallelism,
        max_parallelism=max(scenario.max_parallelism, HIGHEST_PARALLELISM),
        restart_delay_ms=delay,
        faults=tuple(faults),
        operations=(stop,) if stops else UNSET,
    )


def _point(chance: Chance, program: _Program) -> tuple[Point, int]:
    """Return a point and the pass of it at which something strikes."""
    given: tuple[tuple[Point, int], ...] = ((READ_POINT, 4),) if program.arrives else ()
    point: Point = chance.weighted((*given, (SEEN_POINT, 5), *((mark, 4) for mark in program.marks)))
    most = MOST_MARKS if point in program.marks else program.records
    return point, chance.integer(1, max(1, most))


def _wait_ms(chance: Chance) -> int:
    return chance.integer(0, chance.weighted(_WAITS))


def _killed_at(chance: Chance, program: _Program, point: Point, occurrence: int) -> Fault:
    """Return a kill of the whole program, or of one of its parts, at a pass of a point."""
    kind: FaultKind = "kill_task" if program.has_parts and chance.chance(0.5) else "kill_process"
    parallelism = chance.integer(1, HIGHEST_PARALLELISM)
    rescale = parallelism if program.rescales and kind == "kill_process" and chance.chance(0.5) else 0
    if kind == "kill_task" and point not in FAULTS[kind].points:
        kind = "kill_all"
    return Fault(kind, point, occurrence=occurrence, delay=_wait_ms(chance), rescale_to=rescale)


def _kill(chance: Chance, program: _Program) -> list[Fault]:
    return [_killed_at(chance, program, *_point(chance, program))]


def _kill_at_start(chance: Chance, program: _Program) -> list[Fault]:
    """The program dies as it starts for the first time or again: while it looks for what is stored."""
    return [_killed_at(chance, program, STARTED_POINT, chance.integer(1, 2))]


def _kill_twice(chance: Chance, program: _Program) -> list[Fault]:
    """The program dies, and once more soon after it has started again."""
    first = _killed_at(chance, program, *_point(chance, program))
    return [first, _killed_at(chance, program, STARTED_POINT, 2)]


def _pause(chance: Chance, program: _Program) -> list[Fault]:
    point, occurrence = _point(chance, program)
    return [Fault("pause_process", point, occurrence=occurrence, delay=chance.integer(1, LONGEST_PAUSE_MS))]


def _server_fault(chance: Chance, program: _Program) -> list[Fault]:
    point, occurrence = _point(chance, program)
    kind = Lots(chance).first(drawn_kinds("server"))
    row = FAULTS[kind]
    # The number of draws is always the same, so that no draw depends on another.
    length, answers = chance.unit(), chance.chance(0.5)
    delays: Mapping[Delay, int] = {
        "none": 0,
        "optional": int(length * LONGEST_DEATH_MS),
        "required": 1 + int(length * LONGEST_PAUSE_MS),
    }
    means: Means = "answer" if answers and "answer" in row.means else ""
    server = chance.choice(program.servers)
    return [Fault(kind, point, occurrence=occurrence, delay=delays[row.delay], means=means, server=server)]


def _server_fault_and_kill(chance: Chance, program: _Program) -> list[Fault]:
    """The program dies when its server has been struck, and finds it as it comes back."""
    (fault,) = _server_fault(chance, program)
    return [fault, _killed_at(chance, program, fault.point, fault.occurrence)]


_PATTERNS: Final[Mapping[_Pattern, int]] = {_kill: 6, _kill_at_start: 2, _kill_twice: 2, _pause: 1}
_SERVER_PATTERNS: Final[Mapping[_Pattern, int]] = {_server_fault: 4, _server_fault_and_kill: 2}
