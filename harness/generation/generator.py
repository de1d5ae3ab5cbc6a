"""The generator: it draws a whole scenario from a seed.

The rules this module lives by:

- ``generate(family, seed)`` is pure: the seed, the family's version and GENERATION decide the scenario, on
  any machine and in any Python. Golden hashes in the tests pin it.
- The sizes are those that find bugs: several checkpoints complete, input remains after failures, and corner
  cases that once hid a bug (one key, an empty split, a channel of one buffer, a subtask without a split) are
  drawn with a fixed probability.
- A correct engine passes every generated scenario. So a checkpoint may expire because of the schedule alone
  only in scenarios that tolerate failed checkpoints; in the others the timeout is ample.
- Half of the schedules are uniform, which find most bugs; four in ten are priorities, which find bugs that
  need one actor to be slow for long; the rest are fair, whose failures shrink fastest.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Final, NamedTuple

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from onceproof.harness.generation.drawn_faults import (
    HIGHEST_PARALLELISM,
    OWN_CALLS,
    PART_FILES,
    WRITE_AHEAD,
    JobOutline,
    with_client_answers,
    writing_vertices,
)
from onceproof.harness.generation.drawn_operations import (
    draw_aimed_operation,
    draw_cancel,
    draw_operations,
    draw_rescales,
    draw_upgrade,
)
from onceproof.harness.generation.drawn_settings import with_settings
from onceproof.harness.generation.drawn_times import with_times
from onceproof.harness.generation.drawn_workloads import workload_of
from onceproof.harness.generation.fault_patterns import (
    MOST_FAULTS,
    FaultDraw,
    draw_faults,
    draw_kinds,
    draw_restarts,
    draw_unaimed_faults,
)
from onceproof.harness.generation.late_patterns import (
    draw_failed_calls,
    draw_failed_database,
    draw_lost_row,
    draw_refused_batches,
)
from onceproof.harness.generation.outside_patterns import (
    draw_changed_input,
    draw_leaving_function,
    draw_moved_output,
)
from onceproof.harness.generation.rare_paths import draw_rare_path
from onceproof.harness.generation.recovery_patterns import draw_short_list
from onceproof.harness.generation.storage_patterns import draw_late_puts
from onceproof.harness.model.chance import Chance, derived_seed
from onceproof.harness.model.family import (
    Family,
    Role,
    Vertices,
    Workload,
    options_of,
    tasks_with,
)
from onceproof.harness.model.family_places import is_built_in
from onceproof.harness.model.fault_kinds import FaultKind
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.job_settings import Barriers, CheckpointMode
from onceproof.harness.model.scenario import (
    ACTION_CLASSES,
    USUAL_WATERMARK_INTERVAL_MS,
    ActionClass,
    Fault,
    InputRecord,
    Operation,
    Parallelism,
    Scenario,
    Schedule,
    ScheduleKind,
)
from onceproof.harness.model.step_limits import (
    EXPIRIES,
    STEPS_PER_RECORD,
    allowed_step_budget,
    ample_steps,
    checkpoint_steps,
    held_up_ms,
)

GENERATION: Final = 26
"""Raised whenever the same seed begins to give another scenario with the same records.

A further kind of fault does not raise it: only scenarios in which the kind occurs are others then."""

PARALLELISMS: Final = ((1, 2), (2, 5), (3, 2), (4, 2))
MAX_PARALLELISMS: Final = ((4, 3), (5, 1), (7, 1), (8, 3), (16, 2), (128, 1))
CAPACITIES: Final = ((1, 3), (2, 3), (3, 1), (4, 2), (8, 2))
WANTED_CHECKPOINTS: Final = ((1, 2), (2, 3), (3, 4), (4, 3), (6, 2), (10, 1))
SCHEDULE_KINDS: Final[tuple[tuple[ScheduleKind, int], ...]] = (("uniform", 5), ("priority", 4), ("fair", 1))

BARRIERS: Final[tuple[tuple[Barriers, int], ...]] = (("aligned", 9), ("unaligned", 9), ("at_least_once", 2))
CONCURRENT: Final = ((1, 5), (2, 3), (3, 2))
LONGEST_PAUSE: Final = 40

DATABASES: Final = 0.08
"""The share of scenarios whose keyed state is in databases."""
DATABASES_THAT_COME_BACK: Final = 0.25
"""The same where jobs are killed twice or more: what a database takes over shows in its next checkpoint."""
DISCARDED: Final = 0.8
"""The share of the scenarios with an upload that is discarded whose keyed state is in databases."""
INCREMENTAL: Final = 0.8
"""The share of those whose checkpoints are incremental."""
ENDLESS: Final = 0.1
"""The share of scenarios whose sources never end. None of them has a short timeout: stops take longer."""

MOST_WATERMARK_INTERVALS: Final = ((1, 4), (10, 4), (60, 2), (USUAL_WATERMARK_INTERVAL_MS, 1))
"""At the default most runs are over before the second watermark, at 1 ms each record has one behind it."""

_WAITED_FOR: Final = frozenset(("triggered", "declined"))
"""Where a message is lost, a checkpoint waits for it until it expires."""

BUFFER_RECORDS: Final[tuple[tuple[int | UnsetType, int], ...]] = ((UNSET, 6), (2, 1), (3, 2), (8, 1))
"""Unset: records are sent one by one, and faults come between any two of them. Others share a step."""

DRAWN_GRAPH_PATIENCE: Final = 3
"""By how much the step budget of a job is raised whose graph is drawn: its vertices may multiply records."""

WATERMARKS_UNTIL_EXPIRY: Final = 200
"""The most of a generator of a drawn graph while a checkpoint waits until it expires."""
DRAIN_PATIENCE: Final = 5
"""By how much the timeout of checkpoints is raised where a drawn graph is drained: its last windows may fire
into joins, in front of functions that answer slowly."""

SHORTEST_INTERVAL: Final = 10
LONGEST_INTERVAL: Final = 200


class Drawing(NamedTuple):
    """From what the faults and the schedule of a scenario are drawn. A run uses USUAL."""

    faults: FaultDraw = draw_faults
    schedules: tuple[tuple[ScheduleKind, int], ...] = SCHEDULE_KINDS
    has_stories: bool = True
    """Whether some stops and savepoints are aimed at a fault, and some jobs restart many times."""


USUAL: Final = Drawing()
UNAIMED: Final = Drawing(draw_unaimed_faults, (("uniform", 1),), has_stories=False)
"""Faults of any kind at any of their points; what a search without any knowledge of protocols would draw."""


def generate(family: Family, seed: int, drawing: Drawing = USUAL) -> Scenario:
    """Return the scenario of a seed, an integer from 0."""
    scenario = _draw(family, seed, drawing)
    if may_expire(family):
        scenario = _with_time_to_go_on(scenario)
    scenario = with_client_answers(with_settings(family, scenario, seed), seed)
    options = options_of(family)
    return scenario if is_built_in(family) else with_times(scenario, seed, options.waits_ms, options.rests_ms)


def _with_time_to_go_on(scenario: Scenario) -> Scenario:
    """Return a scenario of a drawn graph, whose tasks may wait for each other until a checkpoint expires.

    Barriers overtake on some of its edges only, and watermarks queue up meanwhile. An endless one ends with
    a drained stop, which has time for all that its end fires: it would expire again in each attempt.
    """
    timeout, least = scenario.checkpoint_timeout_ms, scenario.watermark_interval
    if scenario.is_endless or scenario.checkpoint_mode.barriers == "unaligned":
        least = max(least, timeout // WATERMARKS_UNTIL_EXPIRY)
    added = (DRAIN_PATIENCE - 1) * timeout if scenario.is_endless else 0
    budget = allowed_step_budget(scenario.step_budget + EXPIRIES * added, scenario.record_count())
    timeout += added
    return replace(scenario, checkpoint_timeout_ms=timeout, watermark_interval_ms=least, step_budget=budget)


def _draw(family: Family, seed: int, drawing: Drawing) -> Scenario:
    random = _random_of(seed)
    workload, chance = workload_of(family, random), Chance(random)
    vertices = tasks_with(family, workload.parameters)
    max_parallelism, (source, parallelism, sink) = _draw_parallelisms(chance, workload)
    kinds, unfit, rescales = draw_kinds(chance), unfit_kinds(family), chance.chance(0.7)
    steps = _most_checkpoint_steps(vertices, source, HIGHEST_PARALLELISM if rescales else parallelism, sink)
    records, any_backend = _records_passed_on(family, workload), options_of(family).any_backend
    wanted = chance.weighted(WANTED_CHECKPOINTS)
    interval = _interval_of(wanted, records, steps)
    restart_delay = chance.weighted(((0, 1), (chance.integer(1, 5), 3), (chance.integer(6, 40), 2)))
    tasks, sinks, sources = _subtasks(vertices, source or parallelism, parallelism, sink or parallelism)
    expires, mode = may_expire(family), draw_mode(chance, family)
    short = _short_timeout(chance, mode, 4, steps)
    stage = JobOutline(
        tasks=tasks,
        sinks=sinks,
        sources=sources,
        records=records,
        checkpoints=1 + min(wanted, STEPS_PER_RECORD * records // (interval + steps)),
        checkpoint_steps=steps,
        interval=interval,
        restart_delay=restart_delay,
        short_timeout=short,
        max_parallelism=max_parallelism,
        kinds=kinds - unfit,
        rescales=rescales,
        mode=mode,
        unfit=unfit,
        ends=_ends_of(family, workload),
    )
    faults, met, sizes = _draw_trouble(family, chance, seed, stage, parallelism, drawing)
    natural = STEPS_PER_RECORD * records + (2 + stage.checkpoints) * (steps + len(tasks))
    delays = (restart_delay + interval) * len((*faults, *sizes)) + sum(map(held_up_ms, faults))
    schedule = draw_schedule(chance, natural, drawing.schedules)
    ample = schedule.horizon + 10 * natural + delays  # Only a lost message delays a checkpoint for longer.
    tolerates = chance.chance(0.75) or expires
    budget = ample_steps(natural, schedule.horizon, delays + expires * ample, records, steps)
    waits = _waits_for_a_message(faults)
    hurried = tolerates and not met and chance.chance(0.8 if waits or _is_too_late(faults, short) else 0.3)
    timeout = _short_timeout(chance, mode, 2, steps) if waits else short
    in_databases = any_backend and _draws_databases(chance, faults, seed)
    faults = _with_failed_database(faults, seed, stage) if in_databases else faults
    return Scenario(
        family=family.name,
        generator_version=generator_version(family),
        seed=seed,
        parameters=dict(workload.parameters),
        records=_records(workload),
        parallelism=parallelism,
        max_parallelism=max_parallelism,
        source_parallelism=source,
        sink_parallelism=sink,
        channel_capacity=_channel_capacity(chance, mode),
        checkpoint_interval_ms=interval,
        checkpoint_timeout_ms=timeout if hurried else ample,
        tolerable_failures=1_000_000 if tolerates else 0,
        retained=chance.weighted(((1, 5), (2, 2), (3, 1))),
        restart_delay_ms=restart_delay,
        faults=faults,
        schedule=schedule,
        step_budget=allowed_step_budget(budget * (DRAWN_GRAPH_PATIENCE if expires else 1), records),
        mode=mode,
        operations=draw_operations(chance, stage, met, sizes, any_backend=any_backend, may_stop=not hurried),
        state_backend="rocksdb" if in_databases else UNSET,
        incremental=chance.chance(INCREMENTAL) if in_databases else UNSET,
        watermark_interval_ms=draw_watermark_interval(chance),
        buffer_records=chance.weighted(BUFFER_RECORDS),
        endless=(chance.chance(ENDLESS) and not hurried and not _in_batch(family, workload)) or UNSET,
    )


def _interval_of(wanted: int, records: int, steps: int) -> int:
    """Return the interval for so many checkpoints, each of ``steps``, with records between any two."""
    shortest = max(SHORTEST_INTERVAL, steps // 2)
    return _between(shortest, STEPS_PER_RECORD * records // wanted, LONGEST_INTERVAL)


def _in_batch(family: Family, workload: Workload) -> bool:
    return options_of(family).in_batch_with(workload.parameters)


def _records_passed_on(family: Family, workload: Workload) -> int:
    """Return for how many records a scenario of these gives its job time."""
    return options_of(family).fan_out * sum(map(len, workload.records.values()))


def _ends_of(family: Family, workload: Workload) -> frozenset[str]:
    """Return what is at the ends of a job."""
    options = options_of(family)
    sends_batches = options.sends_batches_with(workload.parameters)
    sinks = (*((WRITE_AHEAD,) if sends_batches else ()), *((PART_FILES,) if options.writes_files else ()))
    own = (OWN_CALLS,) if options.calls_outside else ()
    return frozenset((*options.servers, *sinks, *own))


def _random_of(seed: int) -> Random:
    if seed < 0:
        raise ValueError(f"a seed is a whole number from 0 on, not {seed}")
    return Random(seed)


def unfit_kinds(family: Family) -> frozenset[FaultKind]:
    """Return the kinds of faults that a family's oracle does not allow for."""
    options = options_of(family)
    unfit: set[FaultKind] = set()
    if options.needs_steady_time:
        unfit.add("clock_back")
    if options.declares:
        # Before the end of the input, at which such a job may fail, what it has declared is a part.
        unfit.add("change_input")
    return frozenset(unfit)


def draw_watermark_interval(chance: Chance) -> int:
    """Draw how often stock watermark strategies emit, from 1 ms to the engine's default."""
    most = chance.weighted(MOST_WATERMARK_INTERVALS)
    return most if most == USUAL_WATERMARK_INTERVAL_MS else chance.integer(1, most)


def _draw_parallelisms(chance: Chance, workload: Workload) -> tuple[int, Parallelism]:
    """Draw the maximum parallelism, and those of sources, keyed operators and sinks; 0: as the keyed ones."""
    keyed, most = chance.weighted(PARALLELISMS), chance.weighted(MAX_PARALLELISMS)
    source = workload.source_parallelism or _source_parallelism(chance, len(workload.records))
    return most, Parallelism(
        source, keyed, 0 if chance.chance(0.5) else chance.integer(1, HIGHEST_PARALLELISM)
    )


def draw_mode(chance: Chance, family: Family) -> CheckpointMode:
    """Draw the checkpoint mode; at-least-once only if the family's options say what it does.

    The handling of barriers that the options name is that of every scenario of the family.
    """
    options, barriers = options_of(family), chance.weighted(BARRIERS)
    if options.barriers is not None:
        barriers = options.barriers
    elif barriers == "at_least_once" and options.at_least_once is None:
        barriers = "unaligned"
    timeout = 0
    if barriers == "unaligned" and chance.chance(0.4):
        timeout = chance.integer(1, 30)
    concurrent = 1 if barriers == "unaligned" else chance.weighted(CONCURRENT)
    pause = chance.integer(1, LONGEST_PAUSE) if chance.chance(0.2) else 0
    return CheckpointMode(barriers, timeout, concurrent, pause)


def may_expire(family: Family) -> bool:
    """Return whether checkpoints of a sound run may expire, and several of them.

    In a drawn graph barriers overtake on some edges and not on others. Then senders before one of the others
    may wait for each other's room until the checkpoint has expired. And a join of a stream with itself makes
    many pairs, behind which a barrier waits for long where a function answers slowly.
    """
    return options_of(family).draws_graphs


def _short_timeout(chance: Chance, mode: CheckpointMode, patience: int, steps: int) -> int:
    """Return a timeout after which a checkpoint expires that a slow schedule or a fault delays for long."""
    # Concurrent checkpoints each take as long as all of them together.
    return mode.max_concurrent * chance.integer(patience * steps, 10 * steps) + 20


def _most_checkpoint_steps(vertices: Vertices, source: int, largest: int, sink: int) -> int:
    return checkpoint_steps_of(vertices, Parallelism(source or largest, largest, sink or largest))


def generator_version(family: Family) -> int:
    """Return one number for the generator's version and the family's."""
    return GENERATION * 1000 + family.generator_version


def draw_schedule(
    chance: Chance, natural: int, kinds: tuple[tuple[ScheduleKind, int], ...] = SCHEDULE_KINDS
) -> Schedule:
    """Draw a schedule for a run of about ``natural`` steps, of one of the ``kinds``, which have weights."""
    kind = chance.weighted(kinds)
    if kind == "fair":
        return Schedule()
    seed = chance.integer(0, 999_999)
    horizon = 3 * natural + 300
    if kind == "uniform":
        return Schedule(kind, seed, {}, (), horizon)
    priorities = draw_priorities(chance)
    changes = sorted(
        (chance.integer(0, natural), chance.choice(ACTION_CLASSES), chance.integer(-1, len(ACTION_CLASSES)))
        for _ in range(chance.integer(0, 4))
    )
    return Schedule(kind, seed, priorities, tuple(changes), horizon)


def draw_priorities(chance: Chance) -> dict[ActionClass, int]:
    """Draw an order of all action classes."""
    order = sorted((chance.unit(), action) for action in ACTION_CLASSES)
    return {action: rank for rank, (_, action) in enumerate(order)}


def checkpoint_steps_of(tasks: Vertices, parallelism: Parallelism) -> int:
    """Return the steps of one checkpoint of a job, which may have several vertices of a role."""
    source, keyed, sink = parallelism
    vertices = Counter(tasks.values())
    own = sum(role for role in tasks.values() if isinstance(role, int))
    return checkpoint_steps(
        max(1, vertices["source"]) * source,
        max(1, vertices["keyed"]) * keyed + own,
        max(1, vertices["sink"]) * sink,
    )


def _source_parallelism(chance: Chance, splits: int) -> int:
    """Draw the source parallelism: 0 (that of the job) in three of ten, else up to one more than splits."""
    if chance.chance(0.3):
        return 0
    return chance.integer(1, min(splits + 1, HIGHEST_PARALLELISM))


def _subtasks(
    vertices: Vertices, source: int, keyed: int, sink: int
) -> tuple[tuple[str, ...], tuple[str, ...], int]:
    """Return the names of all subtasks and of those of sinks, and how many those of sources are."""
    of_role: dict[Role | int, int] = {"source": source, "keyed": keyed, "sink": sink}
    sizes = {name: role if isinstance(role, int) else of_role[role] for name, role in vertices.items()}
    tasks = tuple(f"{name}-{index}" for name, size in sizes.items() for index in range(size))
    sinks = tuple([f"{name}-{index}" for name in writing_vertices(vertices) for index in range(sizes[name])])
    return tasks, sinks, source * list(vertices.values()).count("source")


def _records(workload: Workload) -> dict[str, tuple[InputRecord, ...]]:
    return {split: tuple(workload.records[split]) for split in sorted(workload.records)}


def _between(lowest: int, value: int, highest: int) -> int:
    return max(lowest, min(value, highest))


def _channel_capacity(chance: Chance, mode: CheckpointMode) -> int:
    """Draw how much a channel holds: barriers of concurrent checkpoints must leave room for records."""
    return max(mode.max_concurrent, chance.weighted(CAPACITIES))


def _draws_databases(chance: Chance, faults: tuple[Fault, ...], seed: int) -> bool:
    """Draw whether keyed state is in databases."""
    kills = sum(FAULTS[fault.kind].is_kill for fault in faults)
    share = DATABASES_THAT_COME_BACK if kills > 1 else DATABASES
    return chance.chance(share) or _discards_of_a_database(faults, seed)


def _waits_for_a_message(faults: tuple[Fault, ...]) -> bool:
    """Return whether a message may be lost that a checkpoint waits for.

    Such a checkpoint ends by its timeout, which should come while input is left.
    """
    return any(fault.point in _WAITED_FOR and FAULTS[fault.kind].strikes == "message" for fault in faults)


def _is_too_late(faults: tuple[Fault, ...], timeout: int) -> bool:
    """Return whether an acknowledgement comes when its checkpoint may have expired."""
    return any(fault.point == "acknowledged" and fault.delay >= timeout for fault in faults)


def _draw_trouble(
    family: Family, chance: Chance, seed: int, stage: JobOutline, parallelism: int, drawing: Drawing
) -> tuple[tuple[Fault, ...], tuple[Operation, ...], tuple[Operation, ...]]:
    """Draw the faults, the operation that is aimed at some of them, if there is one, and other requests."""
    any_backend = options_of(family).any_backend
    rare = _draw_rare_faults(seed, stage)
    aimed: tuple[Fault, ...] = ()
    met: tuple[Operation, ...] = ()
    restarts: tuple[Fault, ...] = ()
    if drawing.has_stories:
        aimed, met = draw_aimed_operation(chance, stage, any_backend=any_backend)
        restarts = draw_restarts(chance, stage)
    aimed = aimed[: max(0, MOST_FAULTS - len(rare))]
    drawn = drawing.faults(chance, stage, max(0, MOST_FAULTS - len(aimed) - len(rare)))
    path, requests = draw_rare_path(seed, stage, any_backend) if drawing.has_stories else ((), ())
    if path:
        aimed, met, restarts, drawn = path, requests, (), ()
    sizes = draw_rescales(Chance(_random_of(derived_seed("rescales", seed))), stage, parallelism)
    cancel = draw_cancel(Chance(_random_of(derived_seed("cancels", seed))), stage, any_backend=any_backend)
    return (*(aimed or restarts), *drawn, *rare), met + draw_upgrade(family, seed, stage), (*sizes, *cancel)


def _discards_of_a_database(faults: tuple[Fault, ...], seed: int) -> bool:
    """Return whether an upload is discarded, and state shall be in databases: only those share files."""
    is_discarded = any(fault.kind == "write_error_after_success" for fault in faults)
    return is_discarded and Chance(_random_of(derived_seed("discarded uploads", seed))).chance(DISCARDED)


def _draw_rare_faults(seed: int, stage: JobOutline) -> tuple[Fault, ...]:
    """Draw what few scenarios have, or only those of some ends of a job, each from a seed of its own."""
    return tuple(
        [
            fault
            for name, draw in _RARE_FAULTS.items()
            for fault in draw(Chance(_random_of(derived_seed(name, seed))), stage)
        ]
    )


def _with_failed_database(faults: tuple[Fault, ...], seed: int, stage: JobOutline) -> tuple[Fault, ...]:
    failed = draw_failed_database(Chance(_random_of(derived_seed("failed databases", seed))), stage)
    return (*faults, *failed[: max(0, MOST_FAULTS - len(faults))])


_RARE_FAULTS: Final = {
    "late puts": draw_late_puts,
    "refused batches": draw_refused_batches,
    "short lists": draw_short_list,
    "lost rows": draw_lost_row,
    "failed calls": draw_failed_calls,
    "leaving functions": draw_leaving_function,
    "changed input": draw_changed_input,
    "moved output": draw_moved_output,
}
