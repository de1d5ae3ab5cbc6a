"""Faults of programs: a function of the seed, at points that can be seen from outside."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from onceproof.harness.generation.generator import generate
from onceproof.harness.generation.program_faults import with_program_faults
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.program_family import ProgramFamily
from onceproof.harness.model.scenario import check, from_json, to_json

GOLDEN = "3655e5eabc5520d8"
FILE = """
[program]
command = ["job", "{input}", "{parallelism}"]
parts = ["worker"]
[input]
kind = "kafka"
[output]
kind = "postgres"
table = "rows"
[marks]
completed = "stored"
"""


def program(folder: Path, text: str = FILE) -> ProgramFamily:
    (folder / "job.toml").write_text(text, encoding="utf-8")
    family = load_family(str(folder / "job.toml"))
    assert isinstance(family, ProgramFamily)
    return family


@pytest.fixture
def family(tmp_path: Path) -> ProgramFamily:
    return program(tmp_path)


def test_five_seeds_have_their_golden_hash(family: ProgramFamily) -> None:
    drawn = [with_program_faults(family, generate(family, seed)) for seed in range(5)]
    text = msgspec.json.encode([(each.faults, each.asked, each.parallelism) for each in drawn])
    assert sha256(text).hexdigest()[:16] == GOLDEN


def test_scenarios_are_valid_and_drawing_again_changes_nothing(family: ProgramFamily) -> None:
    for seed in range(300):
        scenario = with_program_faults(family, generate(family, seed))
        check(scenario)
        assert from_json(to_json(scenario)) == scenario
        assert with_program_faults(family, scenario) == scenario
        assert with_program_faults(family, replace(scenario, seed=None)) == replace(scenario, seed=None)


def test_every_kind_that_strikes_a_program_is_drawn_at_points_it_passes(family: ProgramFamily) -> None:
    scenarios = [with_program_faults(family, generate(family, seed)) for seed in range(600)]
    faults = [fault for scenario in scenarios for fault in scenario.faults]
    kinds = Counter(fault.kind for fault in faults)
    assert set(kinds) == {
        *("kill_process", "kill_task", "kill_all", "pause_process"),
        *("kill_server", "pause_server", "cut_connection"),
    }
    assert min(kinds.values()) > 5, kinds
    assert {fault.point for fault in faults} == {"element", "committed", "restored", "completed"}
    assert {fault.server for fault in faults} == {"", "kafka", "postgres"}
    assert any(fault.rescale_to for fault in faults)
    assert {scenario.parallelism for scenario in scenarios} == {1, 2, 3}
    assert 40 < sum(bool(scenario.asked) for scenario in scenarios) < 150


def test_a_plain_program_is_only_killed_paused_and_stopped(tmp_path: Path) -> None:
    text = '[program]\ncommand = ["job"]\n[input]\nkind = "files"\n[output]\nkind = "files"\n'
    family = program(tmp_path, text)
    scenarios = [with_program_faults(family, generate(family, seed)) for seed in range(300)]
    faults = [fault for scenario in scenarios for fault in scenario.faults]
    assert {fault.kind for fault in faults} == {"kill_process", "pause_process"}
    assert not any(fault.rescale_to for fault in faults)
    assert {scenario.parallelism for scenario in scenarios} == {1}


def test_the_promise_decides_the_mode(tmp_path: Path) -> None:
    family = program(tmp_path, f'promise = "at_least_once"\n{FILE}')
    assert not with_program_faults(family, generate(family, 1)).is_exactly_once
    family = program(tmp_path)
    assert all(with_program_faults(family, generate(family, seed)).is_exactly_once for seed in range(50))
