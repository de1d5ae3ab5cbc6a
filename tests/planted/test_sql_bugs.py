"""Each planted bug in the nodes of tables dies in the scenarios of the script that has the node."""

import pytest

from onceproof.harness.scripts.calm_runs import CalmRuns
from onceproof.harness.trials.mutant_trials import SCENARIOS, measure
from tests.conftest import KILLED_ELSEWHERE
from tests.harness.scripts.sql.conftest import no_planner as no_planner
from tests.planted.catalogue import sql_mutants
from tests.planted.kills import SEED, recorded_kills, tried_where_recorded

BUGS = [each for each in sql_mutants() if not each.unseen]
KILLS = recorded_kills()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.id)
def test_bug_in_a_node_of_tables_is_found(bug, monkeypatch, record_property):
    with monkeypatch.context() as agreed:
        # When a kill is recorded, the runs without faults have been compared. That takes seconds.
        agreed.setattr(CalmRuns, "variants", lambda self, records, over_time: [])
        result = tried_where_recorded(bug, KILLS.get(bug.id), 0)
    if result is None:
        record_property(KILLED_ELSEWHERE, bug.id)
        result = measure(bug, (), SEED, SCENARIOS, 0)
    assert result.killed
