"""The engine on Spark under real SIGKILLs: scenarios that it survives, and planted bugs."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.verdict import judge
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.fault_kinds import POINTS
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import ATTEMPT_STARTED, ERROR, INPUT_READ, JOB_FINISHED
from onceproof.harness.model.mutants import MutantError
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.kit.drivers import DriverFailed
from onceproof.harness.systems.kit.patience import Patience
from onceproof.harness.systems.kit.run_history import OUTSIDE
from onceproof.harness.systems.process.job_specification import spec_of
from onceproof.harness.systems.process.process_table import session_members
from onceproof.harness.systems.spark.history import EVENT_TIME_IS_LOST
from onceproof.harness.systems.spark.points import (
    ABORTED,
    CAPABILITIES,
    DRIVER_POINTS,
    MISSING,
    WORKER_POINTS,
)
from onceproof.harness.systems.spark.system import (
    SparkRun,
    SparkSystem,
)
from tests.harness.systems.spark.test_faults import TRIALS, check_survival
from tests.planted.catalogue import built_in_mutants, file_of

pytestmark = [pytest.mark.spark, pytest.mark.local_kill]

MUTANTS = str(Path(__file__).with_name("spark_mutants.py"))
ANY_BUG = "the-bug-that-the-job-names"


def bug(mutant):
    """Return the job parameters that name a bug, of the catalogue or of Spark alone."""
    in_catalogue = mutant in {each.id for each in built_in_mutants()}
    return {"bug": mutant, "bug_file": file_of(mutant) if in_catalogue else MUTANTS}


EPOCHS = 3
KILLS_OF_TASKS = ("kill_task", "kill_all")
SEEDS = {
    "word_count": (0, 1, 6, 16, 18, 25, 29, 39),
    "page_views": (1, 3, 6, 13, 14, 18, 27, 33),
    "flights": (4, 15, 20, 25, 26, 36, 38, 39),
    "tickets": (6, 9, 11, 21, 24, 26, 32, 38),
}
"""By family, seeds of scenarios with 15 to 30 records and parallelism 1 to 4."""


POINTS_OUTSIDE_CHECKPOINTS = ("element", "end_of_data")


def fault(kind, point, checkpoint=1):
    """Return a fault in the second epoch or a later one, after a checkpoint and before the last records."""
    if point in POINTS_OUTSIDE_CHECKPOINTS:
        return Fault(kind, point, occurrence=9 if point == "element" else 1)
    return Fault(kind, point, checkpoint=0 if point == "committing" else checkpoint)


def planned_faults():
    """Return the faults of the scenarios: each kill at each of its points, and write and commit faults."""
    plan = []
    for point in WORKER_POINTS:
        both = [fault(kind, point, checkpoint) for checkpoint, kind in enumerate(KILLS_OF_TASKS, 1)]
        # One epoch after the other, where the point belongs to a checkpoint.
        plan += [[each] for each in both] if point in POINTS_OUTSIDE_CHECKPOINTS else [both]
    # The restart of a driver is slow, so it is killed at only two of the points that workers pass: one before
    # and one after a pre-commit.
    plan += [[fault("kill_process", point)] for point in (*DRIVER_POINTS, "aligned", "pre_committed")]
    for place, faults in enumerate(plan[::2]):
        faults[-1] = msgspec.structs.replace(faults[-1], rescale_to=place % 4 + 1)
    others = [
        (kind, point)
        for kind in FAULTS
        if FAULTS[kind].needs in CAPABILITIES
        for point in FAULTS[kind].points
        if not kind.startswith("kill") and (kind, point) not in MISSING
    ]
    for place, (kind, point) in enumerate(others):
        plan[2 * place + 1].append(fault(kind, point))
    # Spark gives up a task that has died four times; the job then starts a new attempt.
    plan.append([fault("kill_task", "aligned")] * 4)
    # This kill strikes in the next epoch.
    plan.append([msgspec.structs.replace(fault("kill_all", "acknowledged"), after=30)])
    return plan


PLAN = planned_faults()


def scenario_of(number):
    """Return the scenario with this number, cut into epochs, with its planned faults."""
    names = sorted(SEEDS)
    name = names[number % len(names)]
    drawn = generate(load_family(name), SEEDS[name][number // len(names)])
    return msgspec.structs.replace(
        drawn,
        faults=tuple(PLAN[number]),
        without_checkpoints=msgspec.UNSET,
        # An interval has three steps for each record. One more epoch reads the remaining records.
        checkpoint_interval_ms=3 * (drawn.record_count() // EPOCHS),
        max_parallelism=max(8, drawn.max_parallelism),
        tolerable_failures=1,
        restart_delay_ms=1,
    )


def title(number):
    faults = "+".join(dict.fromkeys([f"{fault.kind}-{fault.point}" for fault in PLAN[number]]))
    return f"{number}-{scenario_of(number).family}-{faults}"


@pytest.fixture(scope="module")
def system():
    """One driver for all tests that do not kill it."""
    with closing(SparkSystem()) as system:
        yield system


@pytest.fixture(scope="module")
def buggy_system():
    """One driver for all planted bugs that do not kill it."""
    with closing(SparkSystem(mutant=ANY_BUG, mutant_file=MUTANTS)) as system:
        yield system


@pytest.fixture(scope="module")
def library_system(tmp_path_factory):
    """Drivers that find a library of the user's, for the tests that need them and those that end them."""
    library = tmp_path_factory.mktemp("library")
    (library / "counting.py").write_text("def following(number):\n    return number + 1\n")
    with pytest.MonkeyPatch.context() as patch, closing(SparkSystem()) as system:
        patch.setenv("PYTHONPATH", str(library))
        yield system


def tried(system, scenario, family=None):
    """Run a scenario; return its history and verdict."""
    family = family or load_family(scenario.family)
    history = system.run(family, scenario)
    return history, judge(scenario, history, PythonOracle(family, scenario))


def assert_survived(system, scenario):
    history, verdict = tried(system, scenario)
    assert verdict.violations == ()
    # Every fault has struck once: a kill without a victim proves nothing.
    assert history.statistics.coverage == Counter([(each.kind, each.point) for each in scenario.faults])
    assert history.statistics.not_applicable == {}
    assert [event[1] for event in history.events[-2:]] == [JOB_FINISHED, INPUT_READ]


def test_scenarios_contain_every_supported_fault_at_its_points():
    struck = {(each.kind, each.point) for faults in PLAN for each in faults}
    possible = {
        (kind, point)
        for kind in FAULTS
        if FAULTS[kind].needs in CAPABILITIES
        for point in FAULTS[kind].points
        if (kind, point) not in MISSING and (kind != "kill_process" or point in DRIVER_POINTS)
    }
    assert possible <= struck
    assert {point for kind, point in struck if kind.startswith("kill")} == set(POINTS) - {ABORTED}
    assert {scenario_of(number).family for number in range(len(PLAN))} == set(SEEDS)


@pytest.mark.parametrize("number", range(len(PLAN)), ids=title)
def test_scenario_under_real_kills_loses_and_repeats_no_rows(system, number):
    assert_survived(system, scenario_of(number))


@pytest.mark.parametrize(
    ("family", "faults"),
    [
        ("word_batches", [fault("kill_all", "pre_committed"), fault("fail_commit", "committing")]),
        ("word_commits", [fault("kill_task", "pre_committed"), fault("fail_commit", "committing")]),
        (
            "word_table",
            [fault("kill_all", "aligned"), Fault("commit_error_after_success", "committing", occurrence=2)],
        ),
    ],
)
def test_each_kind_of_sink_loses_and_repeats_no_rows(system, family, faults):
    scenario = msgspec.structs.replace(scenario_of(3), family=family, faults=tuple(faults))
    assert_survived(system, scenario)


@pytest.mark.parametrize(
    ("seed", "faults"),
    [
        pytest.param(2, [fault("kill_all", "element"), fault("kill_task", "pre_committed")], id="unordered"),
        pytest.param(19, [fault("kill_task", "aligned"), fault("kill_all", "acknowledged")], id="ordered"),
    ],
)
def test_requests_of_async_functions_are_answered_once_under_kills(system, seed, faults):
    drawn = generate(load_family("async_lookups"), seed)
    scenario = msgspec.structs.replace(
        drawn,
        faults=tuple(faults),
        checkpoint_interval_ms=3 * (drawn.record_count() // EPOCHS),
        max_parallelism=max(8, drawn.max_parallelism),
        tolerable_failures=1,
        restart_delay_ms=1,
    )
    assert_survived(system, scenario)


def test_job_survives_each_real_fault_of_its_processes_and_files(system):
    check_survival(system, TRIALS["spark"])


def test_zombie_that_could_write_old_table_rows_is_not_applicable(system):
    zombie = msgspec.structs.replace(fault("kill_task", "aligned"), means="zombie")
    scenario = msgspec.structs.replace(scenario_of(3), family="word_table", faults=(zombie,))
    history, verdict = tried(system, scenario)
    assert verdict.violations == ()
    assert history.statistics.not_applicable == {("kill_task", "aligned"): 1}


@pytest.mark.parametrize(
    ("mutant", "broken", "faults"),
    [
        ("commit-before-completion", "consistent_cut", []),
        ("pending-dropped-on-restore", "exactly_once", [fault("kill_process", "completed")]),
        ("second-commit-copies-the-file", "exactly_once", [fault("kill_process", "committed")]),
        ("new-driver-commits-nothing", "exactly_once", [fault("kill_process", "completed")]),
        ("dead-attempts-are-not-swept", "no_leaks", [fault("kill_task", "pre_committed")]),
    ],
)
def test_a_planted_bug_is_caught(buggy_system, mutant, broken, faults):
    scenario = msgspec.structs.replace(
        scenario_of(2),
        parameters={**scenario_of(2).parameters, **bug(mutant)},
        faults=tuple(faults),
    )
    _, verdict = tried(buggy_system, scenario)
    assert broken in verdict.failed_properties()


def test_event_time_that_begins_anew_with_each_epoch_is_caught(system, buggy_system):
    """The first drawn scenario of a family with windows that has a few records."""
    family = load_family("page_windows")
    drawn = next(each for each in (generate(family, seed) for seed in range(99)) if each.record_count() > 20)
    scenario = msgspec.structs.replace(
        drawn, faults=(), checkpoint_interval_ms=3 * (drawn.record_count() // EPOCHS)
    )
    history, verdict = tried(system, scenario, family)
    assert verdict.violations == ()
    parameters = {**scenario.parameters, **bug("event-time-begins-anew-with-each-epoch")}
    history, verdict = tried(buggy_system, msgspec.structs.replace(scenario, parameters=parameters), family)
    assert "no_error" in verdict.failed_properties()
    lost = [payload["type"] for _, kind, _, payload in history.events if kind == ERROR]
    assert set(lost) == {EVENT_TIME_IS_LOST}


def test_unknown_mutant_is_refused_with_the_nearest_name():
    with pytest.raises(MutantError, match="did you mean new-driver-commits-nothing"):
        SparkSystem(mutant="new-driver-commits-none", mutant_file=MUTANTS)


def test_unsupported_faults_are_counted_and_the_others_strike(system):
    absent = (
        Fault("lose_message", "notified"),
        Fault("kill_task", "committing"),
        Fault("kill_all", "completed"),
        Fault("kill_process", "aborted"),
        Fault("late_write", "snapshotted", delay=3),
    )
    killed = Fault("kill_task", "restored", checkpoint=1)
    history, verdict = tried(system, msgspec.structs.replace(scenario_of(1), faults=(*absent, killed)))
    assert verdict.violations == ()
    assert history.statistics.not_applicable == {(each.kind, each.point): 1 for each in absent}
    assert history.statistics.coverage == {("kill_task", "restored"): 1}


def test_job_restarts_with_the_parallelism_that_each_kill_requests(system):
    faults = (
        Fault("kill_task", "aligned", checkpoint=1, rescale_to=3),
        Fault("kill_process", "completed", checkpoint=2, rescale_to=1),
    )
    scenario = msgspec.structs.replace(scenario_of(3), faults=faults, parallelism=2, sink_parallelism=0)
    history, verdict = tried(system, scenario)
    assert verdict.violations == ()
    started = [payload for _, kind, _, payload in history.events if kind == ATTEMPT_STARTED]
    assert [payload["parallelism"] for payload in started] == [2, 3, 1]
    # A task's kill takes effect at the end of its epoch; the next driver notices that of the driver.
    assert [payload["restored"] for payload in started] == [None, 1, 2]


def test_a_kill_and_its_recovery_are_measured(system):
    faults = (Fault("kill_task", "element", "source-0", occurrence=2),)
    scenario = msgspec.structs.replace(scenario_of(3), faults=faults, source_parallelism=1)
    history, verdict = tried(system, scenario)
    assert verdict.violations == ()
    [recovery] = history.statistics.recoveries
    assert (recovery.task, recovery.restored, recovery.position) == ("source-0", None, 2)
    assert recovery.replayed == history.statistics.records_replayed == 2
    assert recovery.seconds is not None
    # Spark gave the task to another worker, so the job needed no new attempt.
    assert history.statistics.attempts == 1


def test_user_family_is_run_from_its_file(system, tmp_path):
    word_count = load_family("word_count")
    text = Path(str(word_count.__file__)).read_text(encoding="utf-8")
    path = tmp_path / "mine.py"
    path.write_text(text.replace('name = "word_count"', 'name = "mine"'), encoding="utf-8")
    scenario = msgspec.structs.replace(
        scenario_of(3), family="mine", faults=(Fault("kill_task", "pre_committed", checkpoint=1),)
    )
    kept = SparkSystem(tmp_path / "runs", drivers=system.drivers)
    _, verdict = tried(kept, scenario, load_family(str(path)))
    assert verdict.violations == ()
    # The folder that the caller names is kept, with the event logs of the driver and the workers.
    assert len(list((tmp_path / "runs").glob("*/events-1.jsonl*"))) >= 3


def test_workers_import_modules_from_the_pythonpath_of_the_driver(library_system, tmp_path):
    text = Path(str(load_family("word_count").__file__)).read_text(encoding="utf-8")
    path = tmp_path / "mine.py"
    path.write_text(
        text.replace('name = "word_count"', 'name = "mine"').replace(
            "count = (self._count.value() or 0) + 1",
            "from counting import following\n\n        count = following(self._count.value() or 0)",
        ),
        encoding="utf-8",
    )
    scenario = msgspec.structs.replace(scenario_of(3), family="mine", faults=())
    history, verdict = tried(library_system, scenario, load_family(str(path)))
    assert verdict.violations == ()
    assert [event[1] for event in history.events[-2:]] == [JOB_FINISHED, INPUT_READ]


def test_error_of_the_family_ends_the_run_and_is_named(system, tmp_path):
    text = Path(str(load_family("word_count").__file__)).read_text(encoding="utf-8")
    path = tmp_path / "broken.py"
    path.write_text(
        text.replace("def process_element(self", "def process_element(self, missing"), encoding="utf-8"
    )
    scenario = msgspec.structs.replace(scenario_of(3), faults=())
    history, verdict = tried(system, scenario, load_family(str(path)))
    errors = [payload for _, kind, _, payload in history.events if kind == ERROR]
    assert {error["type"] for error in errors} == {"TypeError"}
    assert verdict.signature[0] == "TypeError"


def test_no_process_outlives_a_driver_killed_from_outside(library_system, tmp_path):
    family, scenario = load_family("word_count"), msgspec.structs.replace(scenario_of(3), faults=())
    drivers = library_system.drivers
    driver = drivers.take()
    driver.wait_until_ready()
    drivers.give_back(driver)
    # The session has the Python process and the JVM that it has started.
    assert len(session_members(driver.process_id)) >= 2

    def kill_after_first_commit():
        events = tmp_path / "events-1.jsonl"
        while not (events.exists() and b"committed" in events.read_bytes()):
            time.sleep(0.001)
        os.kill(driver.process_id, signal.SIGKILL)

    threading.Thread(target=kill_after_first_commit, daemon=True).start()
    lengths = {split: len(records) for split, records in scenario.records.items()}
    run = SparkRun(spec_of(family, scenario, tmp_path), lengths, tmp_path, drivers=drivers)
    history = run.run()
    assert session_members(driver.process_id) == []
    assert not driver.folder.exists()
    assert judge(scenario, history, PythonOracle(family, scenario)).violations == ()
    assert history.statistics.coverage == {("kill_process", OUTSIDE): 1}
    assert history.statistics.attempts == 2


def test_job_beyond_its_time_limit_is_stuck_and_its_driver_is_gone(library_system):
    hurried = SparkSystem(process_seconds=0.05, drivers=library_system.drivers)
    _, verdict = tried(hurried, msgspec.structs.replace(scenario_of(3), faults=()))
    assert verdict.signature == ("liveness", "stuck")
    assert library_system.drivers.idle == 0


def test_driver_that_cannot_start_gives_the_cause_in_one_line(monkeypatch):
    monkeypatch.setattr("onceproof.harness.systems.spark.system.CHILD", "onceproof.missing")
    with closing(SparkSystem()) as broken, pytest.raises(DriverFailed, match="No module named") as caught:
        broken.run(load_family("word_count"), scenario_of(3))
    assert "\n" not in str(caught.value)


def test_driver_reports_a_specification_that_it_cannot_read(system, tmp_path):
    driver = system.drivers.take()
    answer = driver.run(tmp_path / "none.json", Patience(60))
    assert (answer.code, answer.in_time) == (2, True)
    assert "none.json: [Errno 2] No such file" in driver.last_words()
    system.drivers.give_back(driver)
