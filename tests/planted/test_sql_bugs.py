"""Each planted bug in the nodes of tables dies in the scenarios of the script that has the node."""

import pytest

from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.mutants import mutants_of
from onceproof.harness.trials.mutant_trials import measure
from tests.harness.scripts.sql.conftest import no_planner as no_planner
from tests.planted import sql_bugs

BUGS = mutants_of(sql_bugs)
SCENARIOS = 60


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.id)
def test_bug_in_a_node_of_tables_is_found(bug):
    families = [load_family(each) for each in bug.families]
    assert measure(bug, families, 2, SCENARIOS, 0).killed
