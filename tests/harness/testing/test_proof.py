"""Scenarios of one family, run here: which, when it stops, and what is kept and told of those that fail."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from onceproof.harness.checkers.known_failures import KnownSignature
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.family import Family, FamilyError, load_family
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Scenario, read_scenario, to_json
from onceproof.harness.model.seeds import is_checked_twice, scenario_seed
from onceproof.harness.settings.project_settings import Settings
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem
from onceproof.harness.testing.failure_text import MOST_RECORDS, Desk, failure_lines, failures_text
from onceproof.harness.testing.proof import prove, replay
from onceproof.harness.trials.trial import scenario_of, try_scenario

SIMULATED = SimulatedSystem()
QUICKLY = Settings(shrink_time=0.5)
DESK = Desk(Path("/home/mine"), "test_it.py::test_it", ())


class Unrepeatable(SimulatedSystem):
    """A system as a real one is: it promises no second run like the first."""

    name = "local"
    capabilities = frozenset({*SimulatedSystem.capabilities} - {Capability.DETERMINISM})

    def __init__(self) -> None:
        self.runs = 0

    def run(self, family: Family, scenario: Scenario, trace: bool = False) -> History:
        self.runs += 1
        return super().run(family, scenario, trace)


@pytest.fixture
def broken(forgetful: Path) -> Family:
    return load_family(str(forgetful))


def test_the_scenarios_are_those_with_the_numbers(tmp_path: Path) -> None:
    family = load_family("word_count")
    proof = prove(family, SIMULATED, 7, range(1, 12, 4), tmp_path)
    assert [seed for _, seed, _ in proof.tally.hashes] == [
        scenario_seed(7, "word_count", number) for number in (1, 5, 9)
    ]
    assert (proof.seed, proof.failures) == (7, ())
    assert list(tmp_path.iterdir()) == []


def test_a_failure_is_small_kept_and_still_a_failure(broken: Family, tmp_path: Path) -> None:
    proof = prove(broken, SIMULATED, 0, range(30), tmp_path / "kept")
    failure = proof.failures[0]
    assert failure.count == proof.tally.groups["forgetful", failure.signature].count
    assert (failure.after.records, failure.after.faults) < (failure.before.records, failure.before.faults)
    kept = read_scenario(failure.path)
    assert kept == failure.scenario
    assert try_scenario(broken, kept).verdict.signature == failure.signature == failure.verdict.signature
    found = read_scenario(failure.path.with_suffix(".original.json"))
    assert found == failure.found == scenario_of(broken, cast(int, failure.found.seed))
    assert failure.history.trace is not None
    assert failure.repeats


def test_a_test_that_has_failed_in_some_ways_goes_no_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: Family
) -> None:
    monkeypatch.setattr("onceproof.harness.testing.proof._failure", lambda *arguments: arguments[2])
    monkeypatch.setattr("onceproof.harness.testing.proof.MOST_WAYS", 2)
    proof = prove(broken, SIMULATED, 0, range(2000), tmp_path, QUICKLY)
    assert len(set(proof.failures)) == 2
    assert proof.tally.scenarios < 2000


def test_where_a_run_cannot_be_repeated_the_first_failure_is_told_as_it_was(
    broken: Family, tmp_path: Path
) -> None:
    system = Unrepeatable()
    proof = prove(broken, system, 0, range(200), tmp_path)
    [failure] = proof.failures
    assert failure.count == 1
    # No run was made to shrink it, nor to explain it.
    assert system.runs == proof.tally.scenarios < 200
    assert failure.scenario is failure.found
    assert read_scenario(failure.path) == failure.found
    lines = list(failure_lines(proof, failure, DESK))
    assert lines[3].startswith(f"the case: {failure.before.records} records")
    assert all("shrunk" not in line for line in lines)
    assert any(line.endswith("--system local") for line in lines)


def test_a_job_that_uses_more_than_its_input_is_told_that_it_does(sales: Path, tmp_path: Path) -> None:
    text = sales.read_text()
    assert "total[1] + sale[1]" in text
    text = text.replace("total[1] + sale[1]", "total[1] + sale[1] + (next(CALLS) == 3)")
    path = sales.with_name("global.py")
    path.write_text(f"{text}\n\nfrom itertools import count\n\nCALLS = count()\n")
    proofs = (
        # A scenario that is run twice at once is not deterministic, which is told as that.
        prove(load_family(str(path)), SIMULATED, 0, range(number, number + 1), tmp_path)
        for number in range(100)
        if not is_checked_twice(scenario_seed(0, "sales", number))
    )
    proof = next(proof for proof in proofs if proof.failures)
    [failure] = proof.failures
    assert not failure.repeats
    # It is told with the run in which it happened.
    assert failure.verdict.signature == failure.signature == ("exactly_once", "wrong value")
    lines = list(failure_lines(proof, failure, DESK))
    assert any(line.startswith("repeated, it does not fail so: the job uses more than") for line in lines)
    assert any(line.startswith("wrong rows: ") for line in lines)


def test_a_scenario_from_a_file_is_run_as_it_is(broken: Family, tmp_path: Path) -> None:
    found = next(
        scenario
        for seed in range(100)
        if not try_scenario(broken, scenario := scenario_of(broken, seed)).verdict.passed
    )
    path = tmp_path / "one.json"
    path.write_text(to_json(found))
    proof = replay(broken, SIMULATED, path)
    [failure] = proof.failures
    assert (proof.seed, failure.scenario, failure.path, failure.count) == (None, found, path, 1)
    assert [each.name for each in tmp_path.glob("*.json")] == ["one.json"]
    path.write_text(to_json(replace(found, faults=())))
    assert replay(broken, SIMULATED, path).failures == ()
    with pytest.raises(
        FamilyError, match=r"one\.json: a scenario of family 'forgetful', not of 'word_count'"
    ):
        replay(load_family("word_count"), SIMULATED, path)


def test_what_is_known_is_marked(broken: Family, tmp_path: Path) -> None:
    plain = prove(broken, SIMULATED, 0, range(30), tmp_path, QUICKLY)
    entry = KnownSignature("forgetful", *plain.failures[0].signature)
    others = [KnownSignature("another", *plain.failures[0].signature), KnownSignature("forgetful", "a", "b")]
    proof = prove(
        broken, SIMULATED, 0, range(30), tmp_path, Settings(shrink_time=0.5, known=(*others, entry))
    )
    assert [failure.known for failure in proof.failures] == [
        entry if failure.signature == entry.signature() else None for failure in plain.failures
    ]


def test_long_cases_are_cut_and_what_nobody_can_see_is_written_out(broken: Family, tmp_path: Path) -> None:
    proof = prove(broken, SIMULATED, 0, range(30), tmp_path, QUICKLY)
    records = {
        "first": tuple((time, ("\x1b[31m", time)) for time in range(MOST_RECORDS - 1)),
        "second": tuple((time, ("plain", time)) for time in range(40)),
        "third": (),
    }
    first = proof.failures[0]
    failure = dataclasses.replace(first, scenario=replace(first.scenario, records=records))
    text = failures_text(proof, (failure,), DESK)
    assert "  second: (plain, 0) and 39 more\n" in text
    assert "third" not in text
    assert "  and 0 records in 1 other split\n" in text
    assert r"(\x1b[31m, 0)" in text
    assert all(line.isprintable() for line in text.splitlines())
