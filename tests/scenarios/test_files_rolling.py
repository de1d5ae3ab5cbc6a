"""Part files that roll, over an object store in trouble, and in folders of real processes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import TASK_FAILED, TRANSACTION_VISIBLE
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.systems.local.local_system import LocalSystem
from onceproof.harness.systems.simulation.simulated_object_store import TROUBLES
from onceproof.harness.trials.trial import try_scenario
from onceproof.scenarios import files_rolling
from tests.scenarios.golden import meaning_of

FAMILY = load_family("files_rolling")


def test_generator_draws_what_it_drew() -> None:
    assert meaning_of(FAMILY) == "1:90addc513c50eac6"
    assert files_rolling.TROUBLES == TROUBLES


@pytest.mark.parametrize("trouble", TROUBLES)
def test_rows_are_exact_whatever_becomes_of_requests_to_the_store(trouble: str) -> None:
    """Also without any fault of the scenario; and more files become visible than there are checkpoints."""
    struck = files = 0
    for index in range(6):
        scenario = generate(FAMILY, scenario_seed(11, FAMILY.name, index))
        parameters = {**scenario.parameters, "trouble": trouble, "trouble_from": 1 + 4 * index}
        faults = scenario.faults if index % 2 else ()
        scenario = replace(scenario, parameters=parameters, faults=faults)
        trial = try_scenario(FAMILY, scenario, twice=False, continued=index == 1)
        assert trial.verdict.passed, (scenario.seed, trial.verdict)
        kinds = [event[1] for event in trial.history.events]
        struck += not faults and TASK_FAILED in kinds
        files += kinds.count(TRANSACTION_VISIBLE)
    assert files > 20
    assert bool(struck) == (trouble in ("late", "torn"))


@pytest.mark.local_kill
def test_rolling_files_of_killed_processes_hold_each_row_once() -> None:
    scenario = next(
        found
        for index in range(50)
        if (found := generate(FAMILY, scenario_seed(3, FAMILY.name, index))).faults
        and any(fault.kind == "kill_process" for fault in found.faults)
    )
    trial = try_scenario(FAMILY, scenario, system=LocalSystem(), twice=False, continued=False)
    assert trial.verdict.passed, trial.verdict
