"""The engine on a YARN of this machine: eight scenarios under kills, and a planted bug that is caught.

A cluster of six Javas takes too long to start for each change, so pytest does not collect this file by
itself. It is run by its path, and takes a minute and a half on an idle machine of two cores:
``python -m pytest tests/harness/systems/spark/trials_on_yarn.py``.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.verdict import judge
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import INPUT_READ, JOB_FINISHED
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.spark.system import SparkYarnSystem

pytestmark = [pytest.mark.spark, pytest.mark.local_kill, pytest.mark.slow]

EPOCHS = 3
MUTANTS = str(Path(__file__).with_name("spark_mutants.py"))
TRIALS = (
    ("word_count", "kill_task", "pre_committed", "aligned"),
    ("nexmark_q5", "kill_task", "snapshotted", "barrier_received"),
    ("flights", "kill_all", "uploaded", "barrier_received"),
    ("page_windows", "kill_task", "restored", "acknowledged"),
    ("word_count", "kill_all", "pre_committed", "snapshotted"),
    ("nexmark_q3", "kill_task", "barrier_received", "uploaded"),
    ("page_views", "kill_task", "aligned", "pre_committed"),
    ("flights", "kill_all", "restoring", "acknowledged"),
)
"""A family, a kind of kill, and two points: at each one executor, or all of them, get a SIGKILL."""


def trial(number):
    """Return the family and the scenario of a trial; each kill has an epoch of its own."""
    name, kind, *points = TRIALS[number]
    family = load_family(name)
    drawn = next(each for each in (generate(family, seed) for seed in range(99)) if is_fit(each))
    faults = [Fault(kind, point, checkpoint=at, means="executor") for at, point in enumerate(points, 1)]
    return family, replace(
        drawn,
        faults=tuple(faults),
        checkpoint_interval_ms=3 * (drawn.record_count() // EPOCHS),
        tolerable_failures=1,
        restart_delay_ms=1,
    )


def is_fit(scenario):
    return 15 <= scenario.record_count() <= 40 and scenario.parallelism == 2


def tried(system, number):
    family, scenario = trial(number)
    history = system.run(family, scenario)
    return history, judge(scenario, history, PythonOracle(family, scenario))


@pytest.fixture(scope="module")
def system():
    with closing(SparkYarnSystem()) as system:
        yield system


@pytest.mark.parametrize("number", range(len(TRIALS)))
def test_job_survives_kills_of_its_executors(system, number):
    history, verdict = tried(system, number)
    assert verdict.violations == ()
    assert [event[1] for event in history.events[-2:]] == [JOB_FINISHED, INPUT_READ]
    _, kind, *points = TRIALS[number]
    assert history.statistics.coverage == Counter((kind, point) for point in points)
    assert history.statistics.means == Counter({(kind, "executor"): 2})


def test_files_that_dead_executors_leave_are_caught():
    with closing(SparkYarnSystem(mutant="dead-attempts-are-not-swept", mutant_file=MUTANTS)) as system:
        _, verdict = tried(system, 0)
        assert verdict.failed_properties() == ("no_leaks",)
