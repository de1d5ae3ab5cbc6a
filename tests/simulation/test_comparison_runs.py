"""Checkpoints are restored and compared with those of undisturbed runs; planted bugs are found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from onceproof.engine.elements import MAX_WATERMARK, MIN_WATERMARK
from onceproof.engine.key_groups import key_group_of
from onceproof.engine.operators.process import KeyedProcessOperator
from onceproof.engine.operators.window import WindowOperator
from onceproof.engine.operators.window_parts import CONTENTS
from onceproof.engine.state.hashmap import HashMapStateBackend
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family import options_of
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.mutants import Mutant, Reached, mutant, replaced
from onceproof.harness.model.scenario import Scenario, read_scenario
from onceproof.harness.systems.simulation.checkpoint_recorder import RecordedCheckpoint
from onceproof.harness.systems.simulation.comparison_runs import (
    RecordedRun,
    recorded_checkpoints,
    restored_run,
    undisturbed_checkpoint,
)
from onceproof.harness.systems.simulation.stored_content import EVERY_SUBTASK, contents_of
from onceproof.harness.systems.simulation.world import World
from onceproof.harness.trials import checkpoint_trials
from onceproof.harness.trials.checkpoint_trials import check_continuations
from onceproof.harness.trials.failures import explanation_of
from onceproof.harness.trials.trial import changes_input, try_scenario
from tests.planted.catalogue import find_mutant

FAMILIES = (
    "word_count",
    "tickets",
    "average_by_map",
    "page_windows",
    "percentiles",
    "deduplication",
    "behaviour_patterns",
    "full_join",
)

REGRESSIONS = Path(__file__).parents[2] / "scenarios" / "regressions"
COMPLETED = ("checkpoint_completed", "savepoint_completed")


def scenarios_of(name: str, count: int, first: int = 0) -> Iterator[Scenario]:
    """Yield the scenarios of so many seeds; a search begins at the seed where it is known to succeed."""
    family = load_family(name)
    for seed in range(first, first + count):
        yield generate(family, seed)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_sound_engine_restores_each_of_its_checkpoints(name: str) -> None:
    for scenario in scenarios_of(name, 4):
        # Trials restore no checkpoint of an input that changes: its positions are those in files.
        if not changes_input(scenario):
            assert check_continuations(load_family(name), scenario) == ()


def test_recording_checkpoints_does_not_change_the_run() -> None:
    family = load_family("word_count")
    for scenario in scenarios_of("word_count", 10):
        history = World(family, scenario).run()
        completed = [subject for _, kind, subject, _ in history.events if kind in COMPLETED]
        recorded = recorded_checkpoints(family, scenario)
        assert [each.metadata.checkpoint_id for each in recorded] == completed


def test_the_undisturbed_run_reads_exactly_the_input_before_the_cut() -> None:
    family = load_family("page_windows")
    compared: Counter[str] = Counter()
    for scenario in scenarios_of("page_windows", 12):
        for recorded in recorded_checkpoints(family, scenario):
            control = undisturbed_checkpoint(family, scenario, recorded.cut)
            assert control is not None
            assert control.cut == recorded.cut
            contents, progress, _ = contents_of(control, ordered=True)
            here, reached, _ = contents_of(recorded, ordered=True)
            for (operator, state, _), entries in here.items():
                if reached[operator] == progress.get(operator):
                    compared[state] += entries.total()
            assert all(operator in progress for operator, _, _ in contents)
    # The counts and the timers of windows that are still open are both compared.
    assert len(compared) == 2
    assert min(compared.values()) > 10


def test_each_operator_knows_all_keyed_operators_upstream() -> None:
    family = load_family("nexmark_q4")
    # By the last checkpoint each operator has been recorded.
    [scenario] = scenarios_of("nexmark_q4", 1)
    *_, upstream = contents_of(recorded_checkpoints(family, scenario)[-1], ordered=False)
    assert upstream["winning"] == frozenset()
    assert upstream["averages"] == {"winning"}
    assert upstream["table"] == {"winning", "averages"}


def test_states_that_depend_on_arrival_order_are_not_compared() -> None:
    family = load_family("periodic_page_views")
    states: set[str] = set()
    for scenario in scenarios_of("periodic_page_views", 10):
        for recorded in recorded_checkpoints(family, scenario):
            contents, *_ = contents_of(recorded, True, options_of(family).arrival_states_with({}))
            states |= {state for _, state, _ in contents}
    assert states == {"views"}


def test_a_join_that_depends_on_arrival_order_is_no_violation() -> None:
    family = load_family("interval_join")
    scenario = read_scenario(REGRESSIONS / "late_record_of_a_join_by_when_watermarks_came.json")
    assert check_continuations(family, scenario) == ()
    # Without late records the state of the join is compared like any other.
    calm = {"late": 0.0}
    assert options_of(family).arrival_states_with(calm) == frozenset()


def test_a_checkpoint_restored_at_any_parallelism_gives_all_rows() -> None:
    family = load_family("word_count")
    (scenario,) = scenarios_of("word_count", 1)
    for recorded in recorded_checkpoints(family, scenario):
        for parallelism in {1, 2, 3, scenario.max_parallelism}:
            history = restored_run(family, scenario, recorded, parallelism)
            rows = [row for event in history.events for row in event[3].get("rows", ())]
            assert Counter(rows) == Counter(family.expected(scenario.records, None))  # type: ignore[arg-type]


def test_a_restored_job_of_higher_parallelism_has_ample_timeouts() -> None:
    family = load_family("interval_join")
    scenarios = (generate(family, seed) for seed in count())
    scenario = next(each for each in scenarios if each.checkpoint_timeout_ms < 200)
    history = restored_run(family, scenario, recorded_checkpoints(family, scenario)[0], 4)
    assert [event[1] for event in history.events[-2:]] == ["job_finished", "input_read"]


@mutant(id="one-value-stays-behind", breaks="restore_anywhere", summary="one key loses its value on restore")
def one_value_stays_behind(reached: Reached) -> Iterator[None]:
    """Subtask 1 of 3 loses its restored state. A scenario without a rescale does not reach this bug."""
    sound = KeyedProcessOperator.create_backend

    def forgetful(self: KeyedProcessOperator, context: Any) -> Any:
        if (context.keyed or context.native) and context.parallelism == 3 and context.subtask == 1:
            reached()
            context.keyed, context.native = None, ()
        return sound(self, context)

    with replaced(KeyedProcessOperator, "create_backend", forgetful):
        yield


def haunting(operator: Any, table_name: str, entry: Any, content: Any) -> Mutant:
    """Return a mutant that adds the entry of a key without records to restored state. No row shows it."""

    @mutant(
        id="entries-of-no-record", breaks="state_equivalence", summary="a restore adds an entry of no record"
    )
    def entries_of_no_record(reached: Reached) -> Iterator[None]:
        create, snapshot = operator.create_backend, HashMapStateBackend.snapshot
        restored_backends: list[object] = []

        def noted(self: Any, context: Any) -> Any:
            backend = create(self, context)
            if context.keyed:
                restored_backends.append(backend)
            return backend

        def haunted(self: HashMapStateBackend, checkpoint_id: int | None = None) -> Any:
            low, high = self.key_group_range
            taken: Any = snapshot(self, checkpoint_id)
            for table in taken.tables if taken is not None else ():
                group = key_group_of("ghost", self.max_parallelism, self.key_type)
                if table.name == table_name and self in restored_backends and low <= group <= high:
                    reached()
                    table.entries[entry] = content
            return taken

        with (
            replaced(operator, "create_backend", noted),
            replaced(HashMapStateBackend, "snapshot", haunted),
        ):
            yield

    return entries_of_no_record


ghost_of_a_word = haunting(KeyedProcessOperator, "count", "ghost", 1)
ghost_of_an_hour = haunting(WindowOperator, CONTENTS, ("ghost", (0, 3_600_000)), [("ghost", 5)])


@pytest.mark.parametrize(
    ("planted", "family", "first"),
    [
        (one_value_stays_behind, "word_count", 10),
        (ghost_of_a_word, "word_count", 0),
        # Event time decides which entries this state has.
        (ghost_of_an_hour, "percentiles", 58),
    ],
)
def test_planted_bug_without_wrong_rows_is_found(planted: Any, family: str, first: int) -> None:
    found: set[str] = set()
    with planted.applied() as reach:
        for scenario in scenarios_of(family, 120, first):
            found |= {each.property for each in check_continuations(load_family(family), scenario)}
            if planted.breaks in found:
                break
    assert reach.times
    assert planted.breaks in found


def test_state_is_not_compared_while_event_time_lags_after_a_restore() -> None:
    family = load_family("percentiles")
    seen: Counter[str] = Counter()
    # This is rare: states are compared only if all subtasks have the same watermark.
    known = read_scenario(REGRESSIONS / "restored_behind_the_time_of_its_state.json")
    for scenario in (known, *scenarios_of("percentiles", 40)):
        earlier: dict[str, int] = {}
        for recorded in recorded_checkpoints(family, scenario):
            attempt = recorded.metadata.attempt
            (hours,) = [operator for operator in recorded.metadata.operators if operator.uid == "hours"]
            paths = [subtask.handle.path for subtask in hours.subtasks if subtask.handle is not None]
            times = [(recorded.progress[path] or (MIN_WATERMARK,))[0] for path in paths]
            has_ended = any(subtask.finished for subtask in hours.subtasks)
            before = max((time for other, time in earlier.items() if other != attempt), default=MIN_WATERMARK)
            ended = [MAX_WATERMARK] if has_ended else []
            earlier[attempt] = max([earlier.get(attempt, MIN_WATERMARK), *times, *ended])
            if has_ended or len(set(times)) > 1:
                continue
            if "hours" not in contents_of(recorded, ordered=True)[1]:
                seen["left out"] += 1
                assert times[0] < before
            elif before > MIN_WATERMARK:
                seen["caught up" if times[0] >= before else "restored from before that"] += 1
    assert seen["left out"]
    assert seen["caught up"] > 10


def test_broadcast_state_that_differs_between_subtasks_is_found() -> None:
    family = load_family("behaviour_patterns")
    with find_mutant("new-subtasks-have-no-broadcast-state").applied() as reach:
        for scenario in scenarios_of("behaviour_patterns", 1000, first=576):
            torn = [
                recorded for recorded in recorded_checkpoints(family, scenario) if torn_patterns(recorded)
            ]
            if not torn:
                continue
            # Without a seed every checkpoint is checked, but none that has records in flight.
            violations = check_continuations(family, msgspec.structs.replace(scenario, seed=None))
            places = [each.witness["places"] for each in violations if each.property == "state_equivalence"]
            if places:
                break
        assert reach.times
    seen = places[0]
    assert [(place["state"], place["key group"]) for place in seen] == [("pattern", EVERY_SUBTASK)]
    assert set(seen[0]["surplus"]) <= set(torn_patterns(torn[0]))


def torn_patterns(recorded: RecordedCheckpoint) -> list[str]:
    """Return the entries of the broadcast state that only some subtasks have."""
    contents, *_ = contents_of(recorded, ordered=False)
    return [
        entry
        for (_, state, _), entries in contents.items()
        if state == "pattern"
        for entry in entries
        if entry.endswith(" subtasks")
    ]


@pytest.mark.parametrize(
    ("planted", "first", "broken"),
    [(one_value_stays_behind, 43, "restore_anywhere"), (ghost_of_a_word, 1, "state_equivalence")],
)
def test_planted_bug_is_shown_by_the_continuation_that_fails(
    planted: Mutant, first: int, broken: str
) -> None:
    family = load_family("word_count")
    with planted.applied():
        for scenario in scenarios_of(family.name, 200, first):
            if scenario.asked:
                # A rescale by the user would restore the continuation again.
                continue
            trial = try_scenario(family, scenario, trace=True, continued=True)
            if trial.continuation is not None:
                break
        explanation = explanation_of(trial)
    continuation = trial.continuation
    assert continuation is not None
    checkpoint = continuation.checkpoint
    assert trial.verdict.violations[0].property == broken
    events = trial.shown.events
    if broken == "restore_anywhere":
        assert continuation.parallelism == 3
        assert "A job restored from it with parallelism 3 fails" in explanation.cause
        assert [event[3]["restored"] for event in events if event[1] == "attempt_started"] == [checkpoint]
    else:
        # The state differs in the run that took the checkpoint, so it is shown until then.
        assert continuation.parallelism == 0
        assert [event[2] for event in events if event[1] in COMPLETED][-1] == checkpoint
        assert events == trial.history.events[: len(events)]
        assert f"checkpoint {checkpoint} holds other state" in explanation.cause
        assert explanation.first_divergence == f"step {events[-1][0]}: checkpoint {checkpoint} is complete"
    assert trial.shown.trace is not None


def test_state_of_an_overtaken_savepoint_is_compared_although_it_is_not_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    family = load_family("word_count")
    recorded: list[RecordedCheckpoint] = []
    monkeypatch.setattr(checkpoint_trials, "recorded_run", lambda *_: RecordedRun(recorded, []))
    compared = 0
    with ghost_of_a_word.applied():
        for scenario in scenarios_of(family.name, 200, first=34):
            asked = msgspec.structs.replace(scenario, seed=None)
            for each in recorded_checkpoints(family, asked):
                recorded[:] = [each]
                found = check_continuations(family, asked)
                differing = [violation for violation in found if violation.property == "state_equivalence"]
                if not differing:
                    continue
                recorded[:] = [msgspec.structs.replace(each, is_overtaken=True)]
                assert check_continuations(family, asked) == tuple(differing)
                compared += 1
            if compared:
                break
    assert compared
