"""Each planted bug in patterns on streams dies in the scenarios of drawn patterns."""

import pytest

from onceproof.harness.model.mutants import mutants_of
from onceproof.harness.trials.mutant_trials import measure
from tests.planted import cep_bugs
from tests.planted.kills import SEED

BUGS = mutants_of(cep_bugs)
SCENARIOS = 200


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.id)
def test_bug_in_patterns_is_found(bug):
    assert measure(bug, (), SEED, SCENARIOS, 0).killed
