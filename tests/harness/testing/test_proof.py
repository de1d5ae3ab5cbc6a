"""Scenarios of one family run in this process: their numbers, the early end, and the failures."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import cast

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.checkers.known_failures import KnownSignature
from onceproof.harness.checkers.verdict import is_same_failure
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.family import Family, FamilyError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Scenario, read_scenario, to_json
from onceproof.harness.model.seeds import is_checked_twice, scenario_seed
from onceproof.harness.settings.project_settings import Settings
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem
from onceproof.harness.testing.failure_text import MOST_RECORDS, PytestContext, failure_lines, failures_text
from onceproof.harness.testing.proof import Proof, prove, replay
from onceproof.harness.trials.trial import scenario_of, try_scenario
from tests.harness.conftest import written_forgetful

SIMULATED = SimulatedSystem()
QUICKLY = Settings(shrink_runs=100)
CONTEXT = PytestContext(Path("/home/mine"), "test_it.py::test_it", ())


class Unrepeatable(SimulatedSystem):
    """A simulated system that does not claim to be deterministic, like a real one."""

    name = "local"
    capabilities = frozenset({*SimulatedSystem.capabilities} - {Capability.DETERMINISM})

    def __init__(self) -> None:
        self.runs = 0

    def run(self, family: Family, scenario: Scenario, trace: bool = False) -> History:
        self.runs += 1
        return super().run(family, scenario, trace)


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Family:
    return load_family(str(written_forgetful(tmp_path_factory.mktemp("broken"))))


@pytest.fixture(scope="module")
def proof(broken: Family, tmp_path_factory: pytest.TempPathFactory) -> Proof:
    """Return the proof of a broken family, with its failures shrunk."""
    return prove(broken, SIMULATED, 0, range(8), tmp_path_factory.mktemp("kept"), QUICKLY)


def test_prove_runs_the_scenarios_with_the_given_numbers(tmp_path: Path) -> None:
    family = load_family("word_count")
    proof = prove(family, SIMULATED, 7, range(1, 12, 4), tmp_path)
    assert [seed for _, seed in proof.tally.families["word_count"].seeds] == [
        scenario_seed(7, "word_count", number) for number in (1, 5, 9)
    ]
    assert (proof.seed, proof.failures) == (7, ())
    assert list(tmp_path.iterdir()) == []


def test_failure_is_shrunk_stored_and_still_fails(broken: Family, proof: Proof) -> None:
    failure = proof.failures[0]
    shrunk = failure.shrunk
    assert failure.count == proof.tally.groups["forgetful", failure.signature].count
    assert (shrunk.after.records, shrunk.after.faults) < (shrunk.before.records, shrunk.before.faults)
    kept = read_scenario(failure.path)
    assert kept == failure.scenario
    again = try_scenario(broken, kept).verdict.signature
    assert again == failure.verdict.signature
    assert is_same_failure(again, failure.signature)
    found = read_scenario(failure.path.with_suffix(".original.json"))
    assert found == failure.original == scenario_of(broken, cast(int, failure.original.seed))
    assert failure.history.trace is not None
    assert failure.repeated


def test_prove_stops_after_some_different_signatures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: Family
) -> None:
    monkeypatch.setattr("onceproof.harness.testing.proof._failure", lambda *arguments: arguments[2])
    monkeypatch.setattr("onceproof.harness.testing.proof.findings_of", list)
    monkeypatch.setattr("onceproof.harness.testing.proof.MAX_SIGNATURES", 2)
    proof = prove(broken, SIMULATED, 0, range(2000), tmp_path, QUICKLY)
    assert len(set(proof.failures)) == 2
    assert proof.tally.scenarios < 2000


def test_failure_on_a_nondeterministic_system_is_reported_as_found(broken: Family, tmp_path: Path) -> None:
    system = Unrepeatable()
    proof = prove(broken, system, 0, range(200), tmp_path)
    [failure] = proof.failures
    assert failure.count == 1
    # No run was spent to shrink or to explain the failure.
    assert system.runs == proof.tally.scenarios < 200
    assert failure.scenario is failure.original
    assert read_scenario(failure.path) == failure.original
    lines = list(failure_lines(proof, failure, CONTEXT))
    assert lines[3].startswith(f"failing scenario: {failure.shrunk.before.records} records")
    assert all("shrunk" not in line for line in lines)
    assert any(line.endswith("--system local") for line in lines)


def test_job_with_hidden_state_is_reported_as_not_reproduced(sales: Path, tmp_path: Path) -> None:
    text = sales.read_text()
    assert "total[1] + sale[1]" in text
    text = text.replace("total[1] + sale[1]", "total[1] + sale[1] + (next(CALLS) == 3)")
    path = sales.with_name("global.py")
    path.write_text(f"{text}\n\nfrom itertools import count\n\nCALLS = count()\n")
    proofs = (
        # A scenario that is checked twice fails with `determinism` instead.
        prove(load_family(str(path)), SIMULATED, 0, range(number, number + 1), tmp_path)
        for number in range(100)
        if not is_checked_twice(scenario_seed(0, "sales", number))
    )
    proof = next(proof for proof in proofs if proof.failures)
    [failure] = proof.failures
    assert not failure.repeated
    # The reported run is the original one.
    assert failure.verdict.signature == failure.signature == ("exactly_once", "wrong value")
    lines = list(failure_lines(proof, failure, CONTEXT))
    assert any(line.startswith("not reproduced: the job depends on more than its input") for line in lines)
    assert any(line.startswith("wrong rows: ") for line in lines)


def test_replay_runs_the_scenario_of_a_file_unchanged(broken: Family, tmp_path: Path) -> None:
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
    # A stop or a savepoint may be what shows the mistake.
    path.write_text(to_json(replace(found, faults=(), operations=UNSET)))
    assert replay(broken, SIMULATED, path).failures == ()
    with pytest.raises(
        FamilyError, match=r"one\.json: a scenario of family 'forgetful', not of 'word_count'"
    ):
        replay(load_family("word_count"), SIMULATED, path)


def test_known_failures_are_marked(broken: Family, proof: Proof, tmp_path: Path) -> None:
    signature = proof.failures[0].signature
    entry = KnownSignature("forgetful", *signature)
    others = [KnownSignature("another", *signature), KnownSignature("forgetful", "a", "b")]
    settings = Settings(shrink_runs=1, known=(*others, entry))
    marked = prove(broken, SIMULATED, 0, range(40), tmp_path, settings)
    known = {failure.signature: failure.known for failure in marked.failures}
    assert known.pop(entry.signature()) == entry
    # What is not listed is a finding of its own, though it has the same cause.
    assert set(known.values()) == {None}


def test_long_failure_text_is_cut_and_control_characters_are_escaped(proof: Proof) -> None:
    records = {
        "first": tuple((time, ("\x1b[31m", time)) for time in range(MOST_RECORDS - 1)),
        "second": tuple((time, ("plain", time)) for time in range(40)),
        "third": (),
    }
    first = proof.failures[0]
    shrunk = dataclasses.replace(first.shrunk, scenario=replace(first.scenario, records=records))
    failure = dataclasses.replace(first, shrunk=shrunk)
    text = failures_text(proof, (failure,), CONTEXT)
    assert "  second: (plain, 0) at 0 and 39 more\n" in text
    assert "third" not in text
    assert "  and 0 records in 1 other split\n" in text
    assert r"(\x1b[31m, 0)" in text
    assert all(line.isprintable() for line in text.splitlines())
