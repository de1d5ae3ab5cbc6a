"""The checks of a run's checkpoints: the properties restore_anywhere and state_equivalence of a scenario.

The rules this module lives by:

- The seed decides which scenarios are checked, and draws one checkpoint and one parallelism of each. For a
  scenario without a seed (shrunk or written by hand) every checkpoint is restored at every parallelism, so
  that its replay shows every violation.
- A savepoint may complete after a later checkpoint has completed and committed, as in Flink. Then rows that
  it does not cover are visible already, so exactly-once is not required of a job restored from it. Its state
  is compared all the same.
- A checkpoint that the job had to keep is restored from what the directory held at the last moment of that
  time, too: one of them, drawn by the seed after everything else, at the parallelism of the scenario. Of a
  scenario without a seed it is each of them.
- What checkpoints hold is compared with those of the same run on the other state backend. A run is the same
  as long as its events are: faults of the storage may strike other calls on another backend. The seed decides
  whether a run on the heap is compared; one on databases always is. What differs as well when the run is
  repeated on its own backend follows from chance in the job.
- A bulk run records no checkpoints. A scenario that the seed chooses is run with a record of them from the
  start; where the caller has none, it is run once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from onceproof.engine.configuration import HASHMAP, ROCKSDB
from onceproof.engine.messages import CHECKPOINT
from onceproof.engine.state.file_envelope import DamagedFile
from onceproof.harness.checkers.checker import Violation
from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.restore_anywhere import (
    RestoredRun,
    check_restored,
    deleted_too_early,
)
from onceproof.harness.checkers.state_equivalence import (
    CheckpointState,
    WholeContent,
    check_backends,
    check_equivalence,
    unreadable,
)
from onceproof.harness.generation.drawn_faults import HIGHEST_PARALLELISM
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Family, options_of
from onceproof.harness.model.history import Cut, History
from onceproof.harness.model.scenario import Scenario, StateBackend
from onceproof.harness.model.seeds import CONTINUED
from onceproof.harness.systems.simulation.checkpoint_recorder import RecordedCheckpoint
from onceproof.harness.systems.simulation.comparison_runs import (
    RecordedRun,
    recorded_checkpoints,
    recorded_run,
    restored_run,
    run_to_checkpoint,
    undisturbed_checkpoint,
)
from onceproof.harness.systems.simulation.retention_watch import lost_files
from onceproof.harness.systems.simulation.stored_content import contents_of, whole_content_of

DELICATE: Final = 0.6
"""The share of scenarios with a seed that restore such a checkpoint, if there is one."""
OTHER_BACKEND: Final = 5
"""One in this many scenarios with a seed restores its savepoints on the other state backend as well."""
COMPARED_WITH_DATABASES: Final = 4
"""One in this many of the scenarios on the heap is run on databases as well, which takes longer."""


@dataclass(frozen=True, slots=True)
class FailedContinuation:
    """The first checkpoint of a run that fails a check, and the run that shows it."""

    violations: tuple[Violation, ...]
    history: History
    """Of the job restored from the checkpoint; where its state or files are wrong, of the run until the
    checkpoint was complete."""
    checkpoint: int
    cut: Cut
    parallelism: int
    """At which the job was restored; 0 where it was not, because its state or files are wrong."""


def check_continuations(family: Family, scenario: Scenario) -> tuple[Violation, ...]:
    """Return the violations of the first checkpoint that has any; empty if all pass."""
    failed = failed_continuation(family, scenario)
    return () if failed is None else failed.violations


def failed_continuation(
    family: Family, scenario: Scenario, trace: bool = False, recorded: RecordedRun | None = None
) -> FailedContinuation | None:
    """Restore recorded checkpoints of a scenario at other parallelisms and compare their state.

    Args:
        trace: whether the history of the continuation carries the full trace.
        recorded: the checkpoints of the scenario's run; None: it is run once more.

    Returns:
        The first checkpoint that fails; None if all pass.
    """
    run = recorded_run(family, scenario) if recorded is None else recorded
    checkpoints, retained, _ = run
    for checkpoint, parallelisms in _drawn(scenario, checkpoints):
        differing = (*_compared(family, scenario, checkpoint, checkpoints),)
        for parallelism in () if checkpoint.is_overtaken else parallelisms:
            for backend in _backends(family, scenario, checkpoint):
                restored = _restored(family, scenario, checkpoint, parallelism, backend, trace)
                if differing:
                    return _of_the_run(family, scenario, checkpoint, trace, differing, restored)
                if restored is not None:
                    return restored
        if differing:
            return _of_the_run(family, scenario, checkpoint, trace, differing)
    for checkpoint, differing in _other_backends(family, scenario, run):
        return _of_the_run(family, scenario, checkpoint, trace, differing)
    for checkpoint in _drawn_of_retained(scenario, retained):
        failed = _kept(family, scenario, checkpoint, trace)
        if failed is not None:
            return failed
    return None


def _of_the_run(
    family: Family,
    scenario: Scenario,
    recorded: RecordedCheckpoint,
    trace: bool,
    violations: tuple[Violation, ...],
    restored: FailedContinuation | None = None,
) -> FailedContinuation:
    """Return what is wrong with a checkpoint as the run shows it that took the checkpoint."""
    number = recorded.metadata.checkpoint_id
    also = () if restored is None else restored.violations
    history = run_to_checkpoint(family, scenario, number, trace)
    return FailedContinuation((*violations, *also), history, number, recorded.cut, 0)


def state_differences(family: Family, scenario: Scenario) -> Iterator[Violation]:
    """Compare the state of each checkpoint of a scenario with that of an undisturbed run at its cut."""
    checkpoints = recorded_checkpoints(family, scenario)
    for checkpoint in checkpoints:
        yield from _compared(family, scenario, checkpoint, checkpoints)


def backend_differences(family: Family, scenario: Scenario) -> Iterator[Violation]:
    """Compare each checkpoint of a scenario with that of the same run on the other state backend."""
    for _, violations in _other_backends(family, scenario, recorded_run(family, scenario)):
        yield from violations


def _backends(
    family: Family, scenario: Scenario, recorded: RecordedCheckpoint
) -> tuple[StateBackend | None, ...]:
    """Return the state backends to restore on: the job's own (None), for some savepoints also the other."""
    is_rare = bool((scenario.seed or 0) % OTHER_BACKEND)
    if recorded.metadata.kind == CHECKPOINT or is_rare or not options_of(family).any_backend:
        return (None,)
    other: StateBackend = "hashmap" if scenario.state_backend == "rocksdb" else "rocksdb"
    return (None, other)


def _drawn(
    scenario: Scenario, recorded: list[RecordedCheckpoint]
) -> Iterator[tuple[RecordedCheckpoint, list[int]]]:
    """Yield the checkpoints to restore, each with the parallelisms to restore it at."""
    most = min(HIGHEST_PARALLELISM, scenario.max_parallelism)
    if scenario.seed is None:
        for checkpoint in recorded:
            yield checkpoint, list(range(1, most + 1))
    elif recorded:
        chance = Chance(Random(scenario.seed))
        # Savepoints are rarer than periodic checkpoints, so they are preferred. What is taken soon after a
        # restore, or with records in flight, is seldom restored by the job itself. Behind the last one little
        # comes that could show what it lacks.
        savepoints = [each for each in recorded if each.metadata.kind != CHECKPOINT]
        delicate = [each for each in recorded[:-1] if each.is_delicate()] if chance.chance(DELICATE) else []
        yield chance.choice(delicate or savepoints or recorded), [chance.integer(1, most)]


def _drawn_of_retained(
    scenario: Scenario, retained: list[RecordedCheckpoint]
) -> Iterable[RecordedCheckpoint]:
    if scenario.seed is None or not retained:
        return retained
    return (Chance(Random(~scenario.seed)).choice(retained),)


def _kept(
    family: Family, scenario: Scenario, recorded: RecordedCheckpoint, trace: bool
) -> FailedContinuation | None:
    """Restore a checkpoint from what the directory held while the job had to keep it."""
    lost = lost_files(recorded.metadata, recorded.files)
    if lost:
        found = (deleted_too_early(recorded.metadata.checkpoint_id, lost[0]),)
        return _of_the_run(family, scenario, recorded, trace, found)
    if recorded.is_overtaken:
        return None
    return _restored(family, scenario, recorded, scenario.parallelism, None, trace)


def _restored(
    family: Family,
    scenario: Scenario,
    recorded: RecordedCheckpoint,
    parallelism: int,
    backend: StateBackend | None,
    trace: bool,
) -> FailedContinuation | None:
    number = recorded.metadata.checkpoint_id
    history = restored_run(family, scenario, recorded, parallelism, backend, trace)
    found = check_restored(
        scenario, RestoredRun(number, parallelism, history), PythonOracle(family, scenario)
    )
    return FailedContinuation((*found,), history, number, recorded.cut, parallelism) if found else None


def _compared(
    family: Family,
    scenario: Scenario,
    recorded: RecordedCheckpoint,
    checkpoints: Sequence[RecordedCheckpoint],
) -> Iterator[Violation]:
    """Compare the state of one of the checkpoints of a run with that of an undisturbed run at its cut."""
    if recorded.metadata.records_in_flight or not scenario.is_exactly_once:
        # With records in flight the state lacks records before the cut; with at-least-once it has some after.
        return
    options = options_of(family)
    if options.settles or recorded.is_upgraded:
        # The new version of a job stores other types than the undisturbed old one.
        return
    if scenario.leaves_max_parallelism is True and _has_other_groups(scenario, checkpoints):
        return
    control = undisturbed_checkpoint(family, scenario, recorded.cut)
    if control is None:
        return
    # A family that declares depends on arrival order, so the order within its list states differs.
    ordered = not options.declares
    without = options.arrival_states_with(scenario.parameters)
    number = recorded.metadata.checkpoint_id
    try:
        disturbed = CheckpointState(*contents_of(recorded, ordered, without))
    except DamagedFile as error:
        yield unreadable(number, recorded.cut, error.path, error.what)
        return
    expected = CheckpointState(*contents_of(control, ordered, without))
    yield from check_equivalence(number, recorded.cut, disturbed, expected)


def _has_other_groups(scenario: Scenario, checkpoints: Sequence[RecordedCheckpoint]) -> bool:
    """Return whether an operator had no state by which a process could have kept its maximum parallelism."""
    first: dict[str, int] = {}
    for each in checkpoints:
        for operator in each.metadata.operators:
            if operator.has_state:
                first.setdefault(operator.operator_id, operator.max_parallelism)
    return any(each != scenario.max_parallelism for each in first.values())


def _other_backends(
    family: Family, scenario: Scenario, run: RecordedRun
) -> Iterator[tuple[RecordedCheckpoint, tuple[Violation, ...]]]:
    """Yield the checkpoints that hold other content than those of the same run on the other backend."""
    steady = all(fault.kind != "clock_back" for fault in scenario.faults)
    for twin in _on_other_backends(family, scenario) if run.checkpoints else ():
        other = recorded_run(family, twin)
        backend = HASHMAP if twin.state_backend is UNSET else ROCKSDB
        for here, there in zip(run.checkpoints, other.checkpoints, strict=False):
            if run.events[: here.events_before] != other.events[: there.events_before]:
                break
            number = here.metadata.checkpoint_id
            try:
                held = WholeContent(*whole_content_of(here, has_steady_time=steady))
                expected = WholeContent(*whole_content_of(there, has_steady_time=steady))
            except DamagedFile as error:
                yield here, (unreadable(number, here.cut, error.path, error.what),)
                continue
            found = check_backends(number, here.cut, held, expected, backend)
            if found:
                by_chance = _states_by_chance(family, scenario, number, held)
                found = check_backends(number, here.cut, held, expected, backend, by_chance)
            if found:
                yield here, (*found,)


def _states_by_chance(
    family: Family, scenario: Scenario, checkpoint: int, held: WholeContent
) -> frozenset[tuple[str, str]]:
    """Return the states, by operator, that are not what they were when the scenario is run once more.

    The job draws random numbers or names of its own.
    """
    for again in recorded_checkpoints(family, scenario):
        if again.metadata.checkpoint_id == checkpoint:
            one, other = held.entries, whole_content_of(again)[0]
            return frozenset(each[:2] for each in one.keys() & other.keys() if one[each] != other[each])
    return frozenset()


def _on_other_backends(family: Family, scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario with its keyed state elsewhere; nothing where that is not compared.

    On databases one without a seed has full checkpoints, and incremental ones.
    """
    options = options_of(family)
    if options.settles or not options.any_backend:
        return
    if scenario.state_backend == ROCKSDB:
        yield replace(scenario, state_backend=UNSET, incremental=UNSET)
        return
    rounds = (scenario.seed or 0) // CONTINUED
    if rounds % COMPARED_WITH_DATABASES:
        return
    kinds = (False, True) if scenario.seed is None else (bool(rounds // COMPARED_WITH_DATABASES % 2),)
    for is_incremental in kinds:
        yield replace(scenario, state_backend=ROCKSDB, incremental=is_incremental)
