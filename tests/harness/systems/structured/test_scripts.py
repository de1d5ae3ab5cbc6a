"""Scripts of Flink SQL as streaming queries under real kills; one driver serves all tests.

The plans of the scripts are kept beside them.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from onceproof import scenarios
from onceproof.harness.commands.cli import main
from onceproof.harness.model.exit_codes import USAGE
from onceproof.harness.model.family import Declared, FamilyError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import rows_at_end
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.structured.script_job import lag_ms
from onceproof.harness.systems.structured.system import StructuredStreamingSystem
from onceproof.harness.trials.trial import scenario_of, try_scenario

SCRIPTS = Path(next(iter(scenarios.__path__))) / "sql"
OWN = Path(__file__).with_name("scripts")
AFTER_COMMIT = Fault("kill_task", "committed", checkpoint=1)
"""The query fails when its sink has written a batch, and Spark does not know it: it runs the batch again."""
IN_WORKER = Fault("kill_task", "element", occurrence=3)


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    with closing(StructuredStreamingSystem(tmp_path_factory.mktemp("runs"))) as system:
        yield system


def tried(system, path, fault, seed):
    family = load_family(str(path))
    drawn = scenario_of(family, seed)
    scenario = msgspec.structs.replace(
        drawn, faults=(fault,), mode=msgspec.UNSET, parallelism=1, source_parallelism=1
    )
    trial = try_scenario(family, scenario, system=system)
    assert trial.history.statistics.coverage == Counter([(fault.kind, fault.point)])
    return family, trial


@pytest.mark.spark
@pytest.mark.local_kill
@pytest.mark.parametrize(
    ("path", "fault", "seed"),
    [
        (SCRIPTS / "revenue.sql", AFTER_COMMIT, 0),
        (SCRIPTS / "totals.sql", AFTER_COMMIT, 2),
        (OWN / "dear_orders.sql", IN_WORKER, 1),
    ],
    ids=["a sum of windows", "an aggregate by key", "a filter"],
)
def test_script_passes_under_a_kill_and_is_judged_by_its_statements(system, path, fault, seed):
    family, trial = tried(system, path, fault, seed)
    assert trial.verdict.violations == ()
    rows = rows_at_end(trial.history)
    assert len(rows) > 1
    assert family.judged_by(trial.scenario.records, Declared(rows)) == "DuckDB"


@pytest.mark.spark
def test_what_spark_refuses_has_the_place_of_its_statement(system):
    family = load_family(str(SCRIPTS / "logins.sql"))
    with pytest.raises(FamilyError, match=r"logins\.sql:\d+: Structured Streaming refuses it: Distinct aggr"):
        system.run(family, scenario_of(family, 0))
    assert "refuses it" in system.refusals([(family, scenario_of(family, 0))])["logins"]


@pytest.mark.spark
def test_inserts_that_need_several_output_modes_are_refused(system):
    family = load_family(str(OWN / "two_modes.sql"))
    with pytest.raises(FamilyError, match=r"two_modes\.sql:11: .* one output mode for a query"):
        system.run(family, scenario_of(family, 0))


def test_script_that_spark_has_no_words_for_is_refused_before_anything_runs(tmp_path, capsys):
    given = ["--system", "structured_streaming", "--scenarios", "1", "-n", "1", "--out", str(tmp_path)]
    assert main(["run", str(SCRIPTS / "meters.sql"), *given]) == USAGE
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].endswith(
        "meters.sql:76: Structured Streaming cannot run MATCH_RECOGNIZE; leave out --system"
    )


def test_records_are_behind_those_of_earlier_batches_only():
    splits = {"t.0": [(100, ()), (900, ()), (950, ())], "t.1": [(500, ()), (400, ())]}
    # Of batches of two records, 400 and 900 are in the second, behind 500; 950 is in the third.
    assert lag_ms(splits, 2) == 101
    assert lag_ms(splits, 5) == 0
    assert lag_ms({}, 2) == 0
