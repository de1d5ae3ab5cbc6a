"""The history of a job on Flink, from hand-written looks and from a recorded run, judged by the checkers."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import msgspec
import pytest

from onceproof.harness.checkers import CHECKERS
from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import (
    ATTEMPT_STARTED,
    CHECKPOINT_COMPLETED,
    STOP_FAILED,
    TASK_FAILED,
    TRANSACTION_VISIBLE,
)
from onceproof.harness.model.scenario import Fault, from_json
from onceproof.harness.systems.flink.files import Metadata, SourceEvent
from onceproof.harness.systems.flink.history import FlinkHistory

RECORDED = json.loads((Path(__file__).parent / "recorded_run.json").read_text(encoding="utf-8"))
SCENARIO = from_json(json.dumps(RECORDED["scenario"]))
ASKED = ("exactly_once", "consistent_cut", "fencing", "liveness", "no_error", "no_leaks")


def event(kind, *, subtask=0, attempt=0, checkpoint=0):
    return SourceEvent(kind, "words", subtask, attempt, 100 + subtask, checkpoint)


def triggered(checkpoint):
    return event("triggered", subtask=-1, attempt=-1, checkpoint=checkpoint)


def begun(restored_by_flink=lambda: None):
    history = FlinkHistory(False, restored_by_flink, lambda: "a division by zero")
    history.job_started(2, None)
    return history


def subjects(history, kind):
    return [subject for _, each, subject, _ in history.history.events if each == kind]


def payloads(history, kind):
    return [payload for _, each, _, payload in history.history.events if each == kind]


def kinds(history):
    return [kind for _, kind, _, _ in history.history.events]


def test_checkpoint_found_with_the_restart_from_it_comes_before_the_restart():
    history = begun()
    history.look([event("restored"), triggered(1)], {}, [], [])
    events = [event("restored", attempt=1, checkpoint=1), triggered(2)]
    history.look(events, {}, [], [Metadata(1, {"words": 1}, ()), Metadata(2, {"words": 2}, ())])
    seen = [kind for kind in kinds(history) if kind in (ATTEMPT_STARTED, CHECKPOINT_COMPLETED)]
    assert seen == [ATTEMPT_STARTED, CHECKPOINT_COMPLETED, ATTEMPT_STARTED, CHECKPOINT_COMPLETED]
    assert [each["attempt"] for each in payloads(history, CHECKPOINT_COMPLETED)] == ["1.0", "1.1"]
    assert payloads(history, ATTEMPT_STARTED)[1]["restored"] == 1


def test_reader_without_state_leaves_it_to_flink_what_was_restored():
    history = begun(lambda: 4)
    history.look([event("restored")], {}, [], [])
    history.look([event("restored", attempt=1)], {}, [], [])
    assert [each["restored"] for each in payloads(history, ATTEMPT_STARTED)] == [None, 4]


def test_id_of_a_checkpoint_that_died_is_taken_again_by_the_next_start():
    history = begun()
    history.look([event("restored"), triggered(1)], {}, [], [])
    history.job_started(3, None)
    history.look([event("restored"), triggered(1)], {}, [], [Metadata(1, {"words": 1}, ())])
    assert payloads(history, CHECKPOINT_COMPLETED)[0]["attempt"] == "2.0"
    assert payloads(history, ATTEMPT_STARTED)[1]["parallelism"] == 3


def test_files_of_two_checkpoints_in_one_look_become_visible_in_their_order():
    history = begun()
    late, early = (
        "part-00000000-0000-0000-0000-00000000000a-1",
        "part-00000000-0000-0000-0000-00000000000a-10",
    )
    checkpoints = [Metadata(1, {}, (early,)), Metadata(2, {}, (early, late))]
    passes = history.look([event("restored")], {late: [("b", 1)], early: [("a", 1)]}, [], checkpoints)
    assert subjects(history, TRANSACTION_VISIBLE) == [early, late]
    assert [each["epoch"] for each in payloads(history, TRANSACTION_VISIBLE)] == [1, 2]
    assert [each.point for each in passes] == ["restored", "committed", "committed"]


def test_second_attempt_without_a_fault_is_counted_and_one_after_a_kill_is_not():
    history = begun()
    history.look([event("restored")], {}, [], [])
    history.fault_fired(Fault("kill_task", "element"), "words-0")
    history.look([event("restored", attempt=1)], {}, [], [])
    assert history.attempts_without_a_cause == 0
    history.look([event("restored", attempt=2)], {}, [], [])
    assert history.attempts_without_a_cause == 1
    failed, started = history.history.events[-2:]
    assert (failed[1], failed[3]["cause"], failed[3]["injected"]) == (
        TASK_FAILED,
        "a division by zero",
        False,
    )
    assert started[1:3] == (ATTEMPT_STARTED, "1.2")


def test_attempt_after_a_stop_that_failed_is_excused_once():
    history = begun()
    history.look([event("restored")], {}, [], [])
    history.stop_asked()
    history.look([event("restored", attempt=1)], {}, [], [])
    # The answer to the request comes after the restart.
    history.stop_failed("declined")
    assert [kind for kind in kinds(history) if kind in (STOP_FAILED, TASK_FAILED)] == [STOP_FAILED]
    history.look([event("restored", attempt=2)], {}, [], [])
    assert history.attempts_without_a_cause == 1


def test_records_behind_the_cut_of_a_restore_are_counted_as_given_again():
    history = begun()
    history.look([event("restored"), triggered(1)], {}, [], [Metadata(1, {"words": 2, "lines": 1}, ())])
    history.look([event("element")] * 5, {}, [], [])
    history.fault_fired(Fault("kill_task", "element"), "words-0")
    history.look([event("restored", attempt=1, checkpoint=1), event("element", attempt=1)], {}, [], [])
    history.fault_fired(Fault("kill_task", "element"), "words-0")
    history.look([event("restored", attempt=2, checkpoint=1)], {}, [], [])
    recoveries = history.history.statistics.recoveries
    assert [(each.position, each.replayed) for each in recoveries] == [(5, 2), (4, 1)]
    assert history.history.statistics.records_replayed == 3


def test_attempt_whose_failure_came_after_the_answer_of_a_stop_is_excused_once():
    history = begun()
    history.look([event("restored")], {}, [], [])
    history.stop_asked()
    history.stop_failed("declined")
    history.look([event("restored", attempt=1)], {}, [], [])
    assert [kind for kind in kinds(history) if kind in (STOP_FAILED, TASK_FAILED)] == [STOP_FAILED]
    assert history.attempts_without_a_cause == 0
    history.look([event("restored", attempt=2)], {}, [], [])
    assert history.attempts_without_a_cause == 1


def test_attempt_that_reached_for_a_dead_task_manager_is_recorded_with_it():
    is_dead = [True, False]
    history = FlinkHistory(False, lambda: None, lambda: "unreachable", lambda: is_dead.pop(0))
    history.job_started(2, None)
    history.look([event("restored")], {}, [], [])
    history.fault_fired(Fault("kill_task", "element"), "words-0")
    for attempt in (1, 2, 3):
        history.look([event("restored", attempt=attempt)], {}, [], [])
    assert [each.get("names_killed", False) for each in payloads(history, TASK_FAILED)] == [
        False,
        True,
        False,
    ]
    assert history.attempts_without_a_cause == 1


def test_latest_cut_is_that_of_the_last_complete_checkpoint():
    history = begun()
    assert history.latest_cut == {}
    checkpoints = [Metadata(1, {"words": 1}, ()), Metadata(2, {"words": 3}, ())]
    history.look([event("restored"), triggered(1), triggered(2)], {}, [], checkpoints)
    assert (history.latest, history.latest_cut) == (2, {"words": 3})


def test_all_is_read_when_every_reader_of_the_attempt_says_so():
    history = begun()
    history.look([event("restored"), event("restored", subtask=1), event("end_of_data")], {}, [], [])
    assert not history.has_read_all(2)
    history.look([event("end_of_data", subtask=1)], {}, [], [])
    assert history.has_read_all(2)
    history.look([event("restored", attempt=1)], {}, [], [])
    assert not history.has_read_all(2)


def rebuilt(calls):
    """Return the history of a run, from what was seen of it."""
    history = FlinkHistory(SCENARIO.checkpoint_mode.barriers == "unaligned", lambda: None, lambda: "")
    for name, arguments in calls:
        match name:
            case "look":
                events, new, gone, checkpoints = arguments
                rows = {file: [tuple(row) for row in lines] for file, lines in new.items()}
                found = [Metadata(number, cut, tuple(listed)) for number, cut, listed in checkpoints]
                history.look([SourceEvent(*each) for each in events], rows, gone, found)
            case "fault_fired":
                fault, task = arguments
                history.fault_fired(msgspec.convert(fault, Fault), task)
            case _:
                getattr(history, name)(*arguments)
    return history.history


def violated(calls):
    """Return the properties that a run violates."""
    oracle = PythonOracle(load_family(SCENARIO.family), SCENARIO)
    history = rebuilt(calls)
    checks = [checker for checker in CHECKERS if checker.property in ASKED]
    assert len(checks) == len(ASKED)
    return {each.property for checker in checks for each in checker.check(SCENARIO, history, oracle)}


def test_recorded_run_with_kills_keeps_every_property():
    history = rebuilt(RECORDED["calls"])
    assert sum(history.statistics.coverage.values()) >= 1
    assert len([each for each in history.events if each[1] == ATTEMPT_STARTED]) >= 2
    assert len([each for each in history.events if each[1] == TRANSACTION_VISIBLE]) >= 4
    assert violated(RECORDED["calls"]) == set()


def looks_with_rows(calls):
    return [arguments for name, arguments in calls if name == "look" and arguments[1]]


@pytest.mark.parametrize("place", [0, 1, -1])
def test_recorded_run_with_a_lost_row_breaks_exactly_once(place):
    calls = copy.deepcopy(RECORDED["calls"])
    rows = next(iter(looks_with_rows(calls)[place][1].values()))
    rows.pop()
    assert "exactly_once" in violated(calls)


def test_recorded_run_whose_rows_come_before_their_checkpoint_breaks_the_cut():
    calls = copy.deepcopy(RECORDED["calls"])
    for name, arguments in calls:
        if name == "look":
            arguments[3] = []
    assert "consistent_cut" in violated(calls)


def test_recorded_run_that_restores_an_older_checkpoint_breaks_the_cut():
    calls = copy.deepcopy(RECORDED["calls"])
    started = [arguments for name, arguments in calls if name == "job_started"]
    restored = [each for name, arguments in calls if name == "look" for each in arguments[0]]
    for arguments in started[1:]:
        arguments[1] = 1
    for each in restored:
        if each[0] == "restored" and each[5]:
            each[5] = 1
    assert "consistent_cut" in violated(calls)


def test_recorded_run_whose_file_vanishes_breaks_fencing():
    calls = copy.deepcopy(RECORDED["calls"])
    first = looks_with_rows(calls)[0]
    calls.insert(len(calls) - 1, ("look", [[], {}, [next(iter(first[1]))], []]))
    assert "fencing" in violated(calls)
