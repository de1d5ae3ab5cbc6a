"""Faults of a program of which nothing is known: kills, pauses and stops from outside.

The rules this module lives by:

- They take the place of what was drawn for a job of the engine, by a chance of their own that follows from
  the seed. Drawing again gives the same; a scenario without a seed was shrunk or written, and stays as it is.
- The harness sees a program pass three points: it is given a record, a row of it is seen, it starts. A file
  may mark others in what the program prints. Faults wait for a pass of one of them, and some milliseconds
  more: a program writes and stores between the points that can be seen.
- What breaks programs is a death between output and stored progress, and one during the recovery from
  another. So most kills come around rows that appear and marks, and some follow on a start.
- The harness sees bytes that are written and transactions by itself; the control run shows whether there are
  any. How many come is not known beforehand: what waits for more than there are strikes when nothing more
  comes (`program/run.py`).
- Faults that a user describes are drawn like kills, each as often as the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple, TypeAlias

from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.model.chance import Chance, Lots, derived_seed
from onceproof.harness.model.family import NOTHING_DECLARED
from onceproof.harness.model.fault_kinds import MARK, Delay, FaultKind, Means, Point, ServerName
from onceproof.harness.model.faults import FAULTS, drawn_kinds
from onceproof.harness.model.job_settings import Barriers, CheckpointMode
from onceproof.harness.model.program_ends import BYTES_MARK, TRANSACTION_MARKS
from onceproof.harness.model.program_family import ProgramFamily
from onceproof.harness.model.program_file import READ_POINT, SEEN_POINT, STARTED_POINT, ProgramFile
from onceproof.harness.model.program_measures import Measured
from onceproof.harness.model.program_processes import OwnFault
from onceproof.harness.model.scenario import ANY_TASK, Fault, Operation, Scenario, Schedule

LONGEST_WAIT_MS: Final = 120
"""From a point to a kill, at most."""
LONGEST_PAUSE_MS: Final = 800
LONGEST_DEATH_MS: Final = 500
LONGEST_RESTART_DELAY_MS: Final = 100
MOST_MARKS: Final = 4
MOST_BYTES: Final = (100, 1_000, 10_000, 100_000)
"""Up to one of these numbers of bytes a kill by bytes waits for."""
HIGHEST_PARALLELISM: Final = 3

_COUNTS: Final = ((0, 1), (1, 5), (2, 6), (3, 4), (4, 2))
_WAITS: Final = ((0, 5), (10, 3), (40, 2), (LONGEST_WAIT_MS, 2))


class Pass(NamedTuple):
    """What a program passes: a point, with the name of the mark if the point is that of marks."""

    point: Point
    mark: str = ""


@dataclass(frozen=True, slots=True)
class _Program:
    """What is known of a program before faults are drawn for it."""

    records: int
    arrives: bool
    """Whether records are given while it runs."""
    rows: int
    """About how many rows become visible."""
    marks: tuple[Pass, ...]
    """All points and names of marks but the three that each program passes."""
    servers: tuple[ServerName, ...]
    alone: tuple[str, ...]
    """What is also killed alone."""
    rescales: bool
    own: tuple[OwnFault, ...]


_Pattern: TypeAlias = Callable[[Chance, _Program], list[Fault]]


def with_program_faults(
    family: ProgramFamily, scenario: Scenario, measured: Measured | None = None
) -> Scenario:
    """Return the scenario as a program can run it, with faults drawn for it.

    ``measured`` by the control run; None: there has been none yet.
    """
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
    rescales = file.can_rescale and chance.chance(0.5)
    program = _Program(
        scenario.record_count(),
        bool(file.pace_ms),
        _rows(family, scenario, measured),
        _marks(file, measured),
        file.servers,
        file.alone,
        rescales,
        file.fault,
    )
    parallelism = chance.integer(1, HIGHEST_PARALLELISM) if file.can_rescale else 1
    delay = chance.integer(0, LONGEST_RESTART_DELAY_MS)
    faults: list[Fault] = []
    patterns = {
        **_PATTERNS,
        **(_SERVER_PATTERNS if program.servers else {}),
        **(_OWN_PATTERNS if program.own else {}),
    }
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


def _rows(family: ProgramFamily, scenario: Scenario, measured: Measured | None) -> int:
    """Return about how many rows become visible, each replacement of a row counted."""
    options, records = family.options, scenario.record_count()
    if not options.declares and not options.table_keys:
        return len(list(family.expected(scenario.records, NOTHING_DECLARED)))
    # Of those that replace each other a reader sees some, as many as in the control run.
    return records if measured is None else round(records * measured.rows / max(1, measured.records))


def _marks(file: ProgramFile, measured: Measured | None) -> tuple[Pass, ...]:
    marked = [Pass(point) for point in file.points if point in file.marks]
    kinds = {each.kind for each in file.outputs}
    writes = bool(kinds & {"files", "stdout"}) or file.names("folder")
    of_kinds = [mark for kind in sorted(kinds) for mark in TRANSACTION_MARKS.get(kind, ())]
    known = [mark for mark in dict.fromkeys(of_kinds) if measured is None or mark in measured.marks]
    seen = [BYTES_MARK] * writes + known
    return (*marked, *(Pass(MARK, name) for name in (*file.own_marks, *seen)))


def _point(chance: Chance, program: _Program) -> tuple[Pass, int]:
    """Return what is passed, and the pass of it at which something strikes."""
    given = ((Pass(READ_POINT), 2),) if program.arrives else ()
    weights = [*given, (Pass(SEEN_POINT), 6)]
    weights += [(each, 1 if each.mark == BYTES_MARK else 3) for each in program.marks]
    passed = chance.weighted(tuple(weights))
    most = {READ_POINT: program.records, SEEN_POINT: program.rows}.get(passed.point, MOST_MARKS)
    if passed.mark == BYTES_MARK:
        most = chance.choice(MOST_BYTES)
    return passed, chance.integer(1, max(1, most))


def _wait_ms(chance: Chance) -> int:
    return chance.integer(0, chance.weighted(_WAITS))


def _killed_at(chance: Chance, program: _Program, passed: Pass, occurrence: int) -> Fault:
    """Return a kill of the whole program, or of one of its parts, at a pass of a point."""
    kind: FaultKind = "kill_task" if program.alone and chance.chance(0.5) else "kill_process"
    parallelism = chance.integer(1, HIGHEST_PARALLELISM)
    rescale = parallelism if program.rescales and kind == "kill_process" and chance.chance(0.5) else 0
    if kind == "kill_task" and passed.point not in FAULTS[kind].all_points:
        kind = "kill_all"
    task = chance.choice(program.alone) if kind == "kill_task" else ANY_TASK
    return Fault(
        kind,
        passed.point,
        task,
        occurrence=occurrence,
        delay=_wait_ms(chance),
        rescale_to=rescale,
        mark=passed.mark,
    )


def _kill(chance: Chance, program: _Program) -> list[Fault]:
    return [_killed_at(chance, program, *_point(chance, program))]


def _kill_at_start(chance: Chance, program: _Program) -> list[Fault]:
    """The program dies as it starts for the first time or again: while it looks for what is stored."""
    return [_killed_at(chance, program, Pass(STARTED_POINT), chance.integer(1, 2))]


def _kill_twice(chance: Chance, program: _Program) -> list[Fault]:
    """The program dies, and once more soon after it has started again."""
    first = _killed_at(chance, program, *_point(chance, program))
    return [first, _killed_at(chance, program, Pass(STARTED_POINT), 2)]


def _pause(chance: Chance, program: _Program) -> list[Fault]:
    (point, mark), occurrence = _point(chance, program)
    delay = chance.integer(1, LONGEST_PAUSE_MS)
    return [Fault("pause_process", point, occurrence=occurrence, delay=delay, mark=mark)]


def _server_fault(chance: Chance, program: _Program) -> list[Fault]:
    (point, mark), occurrence = _point(chance, program)
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
    return [
        Fault(
            kind, point, occurrence=occurrence, delay=delays[row.delay], means=means, server=server, mark=mark
        )
    ]


def _server_fault_and_kill(chance: Chance, program: _Program) -> list[Fault]:
    """The program dies when its server has been struck, and finds it as it comes back."""
    (fault,) = _server_fault(chance, program)
    return [fault, _killed_at(chance, program, Pass(fault.point, fault.mark), fault.occurrence)]


def _own_fault(chance: Chance, program: _Program) -> list[Fault]:
    own = chance.choice(program.own)
    (point, mark), occurrence = _point(chance, program)
    lasts_ms = chance.integer(0, own.lasts_ms)
    return [Fault("own_fault", point, occurrence=occurrence, delay=lasts_ms, mark=mark, name=own.name)]


def _own_fault_and_kill(chance: Chance, program: _Program) -> list[Fault]:
    """The program dies when a fault of the user's own has struck."""
    (fault,) = _own_fault(chance, program)
    return [fault, _killed_at(chance, program, Pass(fault.point, fault.mark), fault.occurrence)]


_PATTERNS: Final[Mapping[_Pattern, int]] = {_kill: 6, _kill_at_start: 2, _kill_twice: 2, _pause: 1}
_SERVER_PATTERNS: Final[Mapping[_Pattern, int]] = {_server_fault: 4, _server_fault_and_kill: 2}
_OWN_PATTERNS: Final[Mapping[_Pattern, int]] = {_own_fault: 4, _own_fault_and_kill: 2}
