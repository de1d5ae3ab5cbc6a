"""Property tests: whatever Hypothesis draws, a sound engine breaks no property of any family.

Each test runs in shards, so that pytest-xdist's workers share the work and never do the same twice. Set
ONCEPROOF_PROFILE to ci or nightly for more examples, and ONCEPROOF_SEED for others
(`harness.generation.profiles`).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceproof.harness.checkers import Signature
from onceproof.harness.checkers.determinism import check_determinism
from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.verdict import Verdict, judge
from onceproof.harness.explanation.explanation import explain
from onceproof.harness.generation.strategies import generated, structured
from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.scenario import Scenario, to_json
from onceproof.harness.shrinking.shrinker import shrink
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem, record_preemptions
from tests.property_shards import SHARDS, in_shard

SYSTEM = SimulatedSystem()
STRATEGIES: dict[str, Callable[[Family], st.SearchStrategy[Scenario]]] = {
    "page_views": generated,
    "word_count": structured,
}
"""By family."""


def verdict_of(family: Family, scenario: Scenario) -> Verdict:
    return judge(scenario, SYSTEM.run(family, scenario), PythonOracle(family, scenario))


def failure_text(family: Family, scenario: Scenario, signature: Signature) -> str:
    """Return the failure as one would want to read it: explained, and as the JSON that replays it."""
    small = shrink(
        scenario,
        lambda candidate: verdict_of(family, candidate).signature,
        signature,
        record_preemptions=lambda candidate: record_preemptions(family, candidate),
    ).scenario
    history = SYSTEM.run(family, small, trace=True)
    explanation = explain(small, history, history.trace, verdict_of(family, small))
    story = "\n".join(explanation.story)
    return f"{signature}: {explanation.sentence} {explanation.cause}\n{story}\n{to_json(small)}"


@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("name", STRATEGIES)
def test_no_scenario_breaks_a_property(name: str, shard: int) -> None:
    family = load_family(name)

    @in_shard(name, shard)
    @given(STRATEGIES[name](family))
    def holds(scenario: Scenario) -> None:
        signature = verdict_of(family, scenario).signature
        assert signature is None, failure_text(family, scenario, signature)

    holds()


def test_every_scenario_has_one_trace() -> None:
    family = load_family("word_count")

    @in_shard("determinism", 0)
    @given(generated(family))
    def holds(scenario: Scenario) -> None:
        assert check_determinism(SYSTEM.run(family, scenario), SYSTEM.run(family, scenario)) == ()

    holds()
