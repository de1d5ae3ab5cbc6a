"""Functions that leave, in real processes: they exit, raise no Exception, fork, or change the folder."""

from __future__ import annotations

import pytest

from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.verdict import judge
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import JOB_FINISHED
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.leaving_functions import RAISED
from onceproof.harness.systems.local.system import LocalSystem, LocalWorkersSystem
from tests.harness.systems.words import scenario_with
from tests.planted.catalogue import with_bug

pytestmark = pytest.mark.local_kill

WORD_COUNT = load_family("word_count")
LEAVES = (*RAISED, "fork", "chdir")


def tried(system, *every_means, **options):
    """Let functions leave, the first one at its 12th record, after a checkpoint."""
    faults = [
        Fault("function_leaves", "element", "count-0", occurrence=12 + 4 * number, means=means)
        for number, means in enumerate(every_means)
    ]
    scenario = scenario_with(*faults)
    history = system(**options).run(WORD_COUNT, scenario)
    return history, judge(scenario, history, PythonOracle(WORD_COUNT, scenario))


@pytest.mark.parametrize("system", [LocalSystem, LocalWorkersSystem])
def test_functions_that_leave_in_each_way_lose_and_repeat_no_rows(system):
    history, verdict = tried(system, *LEAVES)
    assert verdict.violations == ()
    assert history.statistics.coverage["function_leaves", "element"] == len(LEAVES)
    # A child that ends is no failure of its parent.
    assert history.statistics.attempts == 1 + len(LEAVES) - LEAVES.count("fork")
    assert history.events[-1][1] == "input_read"


def test_exit_that_ends_the_process_is_no_success():
    """Exit code 0 is taken at its word, and the word is asked for."""
    history, verdict = tried(LocalSystem, "", **with_bug("exit-of-a-function-ends-the-process"))
    assert JOB_FINISHED in [kind for _, kind, _, _ in history.events]
    assert ("completeness", "unread input") in [(each.property, each.anomaly) for each in verdict.violations]
