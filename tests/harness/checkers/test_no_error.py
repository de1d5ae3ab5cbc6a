"""no_error, on hand-written histories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.harness.checkers.no_error import NoError

if TYPE_CHECKING:
    from tests.harness.conftest import Run

CHECKER = NoError()


def test_a_run_with_injected_kills_passes(sound_run: Run) -> None:
    assert sound_run.check(CHECKER) == []


def test_a_task_killed_by_a_fault_passes(run: Run) -> None:
    run.start("1.1").fault("kill_task", "element")
    run.history.task_failed(run.tick(), "count-0", "1.1", "killed", True)
    assert run.start("1.2").check(CHECKER) == []


def test_a_checkpoint_failed_by_a_lost_message_may_restart_the_job(run: Run) -> None:
    run.start("1.1").fault("lose_message", "acknowledged")
    run.history.checkpoint_aborted(run.tick(), 1, "expired")
    run.history.task_failed(run.tick(), "coordinator", "1.1", "checkpoint 1 expired", False)
    assert run.start("1.2").check(CHECKER) == []


def test_a_failure_in_an_attempt_without_a_fault_is_an_anomaly(run: Run) -> None:
    run.start("1.1").fault().start("1.2")
    run.history.task_failed(run.tick(), "sink-1", "1.2", "transaction t is unknown", False)
    assert run.check(CHECKER) == [("failure without a fault", "task sink-1")]


def test_a_restart_that_no_fault_explains_is_an_anomaly(run: Run) -> None:
    assert run.start("1.1").start("1.2").check(CHECKER) == [("restart without a fault", "attempt 1.2")]


def test_one_fault_does_not_explain_two_restarts(run: Run) -> None:
    run.start("1.1").fault().start("1.2").start("1.3")
    assert run.check(CHECKER) == [("restart without a fault", "attempt 1.3")]


def test_two_faults_in_one_attempt_may_cause_one_restart_each(run: Run) -> None:
    assert run.start("1.1").fault().fault().start("1.2").start("1.3").check(CHECKER) == []


def test_a_server_that_was_struck_may_be_away_for_many_attempts(run: Run) -> None:
    run.start("1.1").fault("kill_server", "committing")
    for number in range(1, 4):
        run.history.task_failed(run.tick(), "sink-0", f"1.{number}", "the server is not there", True)
        run.start(f"1.{number + 1}")
    assert run.check(CHECKER) == []
    run.start("1.5")
    assert run.check(CHECKER) == [("restart without a fault", "attempt 1.5")]


def test_a_server_that_was_not_struck_excuses_no_restart(run: Run) -> None:
    run.start("1.1").fault().start("1.2")
    run.history.task_failed(run.tick(), "sink-0", "1.2", "the server is not there", True)
    assert run.start("1.3").check(CHECKER) == [("restart without a fault", "attempt 1.3")]


def test_a_failure_that_names_a_killed_process_is_excused_behind_a_kill(run: Run) -> None:
    run.start("1.0").fault("kill_task", "element")
    run.history.task_failed(run.tick(), "count-0", "1.0", "killed", True)
    for number in range(1, 3):
        run.start(f"1.{number}")
        run.history.task_failed(run.tick(), "job", f"1.{number}", "no way", False, names_killed=True)
    assert run.start("1.3").check(CHECKER) == []
    # One that names no dead process is an error in the same run.
    run.history.task_failed(run.tick(), "job", "1.3", "division by zero", False)
    run.start("1.4")
    assert run.check(CHECKER) == [
        ("failure without a fault", "task job"),
        ("restart without a fault", "attempt 1.4"),
    ]


def test_a_failure_that_names_a_killed_process_needs_a_kill(run: Run) -> None:
    run.start("1.0").fault("lose_message", "acknowledged").start("1.1")
    run.history.task_failed(run.tick(), "job", "1.1", "unreachable", False, names_killed=True)
    run.start("1.2")
    assert run.check(CHECKER) == [
        ("failure without a fault", "task job"),
        ("restart without a fault", "attempt 1.2"),
    ]


def test_an_exception_comes_before_the_failure_of_its_task(run: Run) -> None:
    run.start("1.1")
    run.history.task_failed(run.tick(), "sink-0", "1.1", "KeyError: 'state'", False)
    run.history.error(run.tick(), "sink-0", "KeyError", "restore", "'state'")
    assert [anomaly for anomaly, _ in run.check(CHECKER)] == ["exception", "failure without a fault"]


def test_the_signature_of_an_exception_is_its_type_and_function(run: Run) -> None:
    run.start("1.1")
    run.history.error(run.tick(), "count-0", "KeyError", "restore", "'state'")
    assert run.check(CHECKER) == [("exception", "count-0")]
    (violation,) = CHECKER.check(run.scenario, run.history, run.oracle)
    assert violation.signature() == ("KeyError", "restore")


def test_a_program_that_its_supervisor_starts_again_after_a_fault_passes(run: Run) -> None:
    run.start("1").fault("kill_process", "committed").start("2")
    run.history.task_failed(run.tick(), "process", "2", "exit code 1", injected=True)
    run.history.attempt_started(run.tick(), "3", 1, None, outside=True, by_supervisor=True)
    assert run.check(CHECKER) == []


def test_a_program_that_ends_by_itself_undisturbed_is_an_error(run: Run) -> None:
    run.start("1")
    run.history.task_failed(run.tick(), "process", "1", "exit code 1", injected=False)
    assert run.check(CHECKER) == [("failure without a fault", "task process")]


def test_an_attempt_behind_a_rescale_of_the_user_needs_no_fault(run: Run) -> None:
    run.start("1.1")
    run.history.job_rescaled(run.tick(), 3, 1)
    assert run.start("1.2").check(CHECKER) == []
    assert run.start("1.3").check(CHECKER) == [("restart without a fault", "attempt 1.3")]
