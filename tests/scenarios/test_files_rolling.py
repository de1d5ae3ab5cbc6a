"""Part files that roll, over an object store in trouble, and in folders of real processes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import TASK_FAILED, TRANSACTION_VISIBLE
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.systems.local.system import LocalSystem
from onceproof.harness.systems.simulation.simulated_object_store import TROUBLES
from onceproof.harness.systems.simulation.simulated_sinks import ROLLS_ALSO_BY_COUNT
from onceproof.harness.systems.sinks import ROLLS_BY_COUNT
from onceproof.harness.trials.trial import try_scenario
from onceproof.scenarios import files_rolling
from tests.scenarios.golden import meaning_of

FAMILY = load_family("files_rolling")
ROLLS = {"objects_parquet": ROLLS_BY_COUNT, "objects_rolling": ROLLS_ALSO_BY_COUNT}


def test_generator_draws_what_it_drew() -> None:
    assert meaning_of(FAMILY) == "2:888df08330ae1b9a"
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


@pytest.mark.parametrize("name", ["objects_parquet", "objects_rolling"])
def test_rows_of_files_that_roll_by_count_are_exact_under_each_trouble(name: str) -> None:
    family = load_family(name)
    full = 0
    for index, trouble in enumerate(TROUBLES):
        scenario = generate(family, scenario_seed(12, name, index))
        scenario = replace(
            scenario, parameters={**scenario.parameters, "trouble": trouble, "trouble_from": 3}
        )
        trial = try_scenario(family, scenario, twice=False, continued=False)
        assert trial.verdict.passed, (scenario.seed, trial.verdict)
        sizes = [len(event[3]["rows"]) for event in trial.history.events if event[1] == TRANSACTION_VISIBLE]
        most = ROLLS[name].part_rows
        assert most is not None
        assert max(sizes, default=0) <= most
        full += sizes.count(most)
    assert full > 5


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
