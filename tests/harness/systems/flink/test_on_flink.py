"""Scripts of Flink SQL on Apache Flink itself, installed as `onceproof flink install` does it.

One cluster of real processes is killed and started again, so these are few scenarios.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from onceproof import scenarios
from onceproof.harness.model.family import Declared
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import rows_at_end
from onceproof.harness.model.scenario import Fault
from onceproof.harness.services.service import ServiceError
from onceproof.harness.systems.flink.home import PACKAGES, install_flink
from onceproof.harness.systems.flink.system import FlinkSystem
from onceproof.harness.systems.kit.packages import python_with
from onceproof.harness.trials.trial import scenario_of, try_scenario

pytestmark = [pytest.mark.local_kill, pytest.mark.slow]

SCRIPTS = Path(next(iter(scenarios.__path__))) / "sql"


@pytest.fixture(scope="module")
def system():
    try:
        python_with(PACKAGES)
    except ServiceError as error:
        pytest.skip(f"the packages of Flink cannot be had: {error}")
    install_flink()
    with closing(FlinkSystem()) as system:
        yield system


@pytest.mark.parametrize(
    ("script", "seed", "judge"),
    [
        ("totals", 2, "DuckDB"),
        ("revenue", 0, "DuckDB"),
        # Flink counts replaced rows again (FLINK-39966), and so does the engine.
        ("first_prices", 1, "its own runs without faults"),
    ],
)
def test_script_passes_when_its_task_managers_are_killed(system, script, seed, judge):
    family = load_family(str(SCRIPTS / f"{script}.sql"))
    drawn = scenario_of(family, seed)
    kill = Fault("kill_task", "completed", checkpoint=1)
    scenario = msgspec.structs.replace(drawn, faults=(kill,), operations=())
    trial = try_scenario(family, scenario, system=system)
    assert trial.verdict.violations == ()
    assert sum(trial.history.statistics.coverage.values()) == 1
    rows = rows_at_end(trial.history)
    assert len(rows) > 1
    assert family.judged_by(scenario.records, Declared(rows)) == judge
