"""One scenario tried: what a job of a user's family may commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.trials.trial import scenario_of, try_scenario

FAMILY = """
from onceproof import Workload

name = "rows"
generator_version = 1
tasks = {"numbers": "source", "ledger": "sink"}
record_schema = "number BIGINT"
row_schema = "number BIGINT"
oracle_sql = "SELECT scenario_id, number FROM records"


def generate(random):
    return Workload({"one": [(0, (7,))]})


def job(env, io):
    numbers = env.from_source(io.source("numbers"), None, "numbers").uid("numbers")
    rows = numbers.map(lambda record: ROW).name("numbers").uid("map").rebalance()
    rows.add_sink(io.sink("ledger")).name("ledger").uid("ledger")


def expected(records, declared):
    return [(7,)]
"""


@pytest.mark.parametrize("row", ["record[0]", "list(record)", "'seven'"])
def test_row_that_is_not_a_tuple_is_refused_in_one_line(row: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.py"
    path.write_text(FAMILY.replace("ROW", row))
    family = load_family(str(path))
    with pytest.raises(FamilyError) as caught:
        try_scenario(family, scenario_of(family, 3))
    shown = {"record[0]": "7", "list(record)": "[7]", "'seven'": "'seven'"}[row]
    assert str(caught.value) == f"{path}: seed 3: the job writes {shown} to the sink, but a row is a tuple"
