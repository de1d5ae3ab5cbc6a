"""Functions that leave, in real processes: they exit, raise no Exception, fork, or change the folder."""

from __future__ import annotations

import pytest

from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.verdict import judge
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import JOB_FINISHED, TASK_FAILED
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.leaving_functions import LEAVES
from onceproof.harness.systems.local.local_system import LocalSystem
from onceproof.harness.systems.local.workers_system import LocalWorkersSystem
from tests.harness.systems.words import scenario_with
from tests.planted.catalogue import with_bug

pytestmark = pytest.mark.local_kill

WORD_COUNT = load_family("word_count")


def tried(system, means, **options):
    """Let a function leave at the 40th record, behind a checkpoint; return history and verdict."""
    scenario = scenario_with(Fault("function_leaves", "element", "count-0", occurrence=12, means=means))
    history = system(**options).run(WORD_COUNT, scenario)
    return history, judge(scenario, history, PythonOracle(WORD_COUNT, scenario))


@pytest.mark.parametrize("system", [LocalSystem, LocalWorkersSystem])
@pytest.mark.parametrize("means", LEAVES)
def test_function_that_leaves_loses_and_repeats_no_rows(system, means):
    history, verdict = tried(system, means)
    assert verdict.violations == ()
    assert history.statistics.coverage["function_leaves", "element"] == 1
    failed = [details for _, kind, _, details in history.events if kind == TASK_FAILED]
    # A child that ends is no failure of its parent.
    assert bool(failed) == (means != "fork")
    assert history.events[-1][1] == "input_read"


def test_exit_that_ends_the_process_is_no_success():
    """Exit code 0 is taken at its word, and the word is asked for."""
    history, verdict = tried(LocalSystem, "", **with_bug("exit-of-a-function-ends-the-process"))
    assert JOB_FINISHED in [kind for _, kind, _, _ in history.events]
    assert ("completeness", "unread input") in [(each.property, each.anomaly) for each in verdict.violations]
