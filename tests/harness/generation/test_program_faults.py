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
from onceproof.harness.model.program_ends import OF_TRANSACTIONS, PREPARED_MARK
from onceproof.harness.model.program_family import ProgramFamily
from onceproof.harness.model.program_measures import Measured
from onceproof.harness.model.scenario import check, from_json, to_json
from tests.harness.systems.program.programs import MEASURED

GOLDEN = "50b362f110b1c0ce"
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
spilled = "^spilled"
[[fault]]
name = "fail over"
command = ["promote", "{postgres}"]
undo = { url = "http://localhost/back" }
lasts_ms = 300
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
        *("kill_server", "pause_server", "cut_connection", "own_fault"),
    }
    assert min(kinds.values()) > 5, kinds
    assert {fault.point for fault in faults} == {"element", "committed", "restored", "completed", "mark"}
    assert {fault.mark for fault in faults} == {"", "spilled", *OF_TRANSACTIONS}
    assert {fault.task for fault in faults if fault.kind == "kill_task"} == {"worker"}
    assert {fault.server for fault in faults} == {"", "kafka", "postgres"}
    assert any(fault.rescale_to for fault in faults)
    own = [fault for fault in faults if fault.kind == "own_fault"]
    assert {fault.name for fault in own} == {"fail over"}
    assert 0 <= min(fault.delay for fault in own) < max(fault.delay for fault in own) <= 300
    assert {scenario.parallelism for scenario in scenarios} == {1, 2, 3}
    assert 40 < sum(bool(scenario.asked) for scenario in scenarios) < 150


def test_only_transactions_that_the_control_run_has_seen_are_points_of_faults(family: ProgramFamily) -> None:
    seen = replace(MEASURED, marks=(PREPARED_MARK,))
    faults = [
        fault
        for seed in range(60)
        for fault in with_program_faults(family, generate(family, seed), seen).faults
    ]
    assert {fault.mark for fault in faults} == {"", "spilled", PREPARED_MARK}


def test_a_plain_program_is_only_killed_paused_and_stopped(tmp_path: Path) -> None:
    text = '[program]\ncommand = ["job"]\n[input]\nkind = "files"\n[output]\nkind = "files"\n'
    family = program(tmp_path, text)
    scenarios = [with_program_faults(family, generate(family, seed)) for seed in range(300)]
    faults = [fault for scenario in scenarios for fault in scenario.faults]
    assert {fault.kind for fault in faults} == {"kill_process", "pause_process"}
    assert not any(fault.rescale_to for fault in faults)
    assert {scenario.parallelism for scenario in scenarios} == {1}
    assert {fault.mark for fault in faults} == {"", "bytes_written"}


def test_kills_wait_for_no_more_rows_than_a_program_shows(tmp_path: Path) -> None:
    (tmp_path / "oracle.py").write_text(
        "from onceproof import FamilyOptions, Workload\n"
        "record_schema, row_schema = 'n BIGINT', 'n BIGINT'\n"
        "options = FamilyOptions(table_keys=1, versions=lambda *_: [])\n"
        "def generate(random): return Workload({'n': [(n, n) for n in range(50)]})\n"
        "def expected(records, declared): return [(1,), (2,)]\n",
        encoding="utf-8",
    )
    family = program(tmp_path, f'oracle = "oracle.py"\n{FILE}')
    measured = replace(MEASURED, records=50, rows=4)

    def waits(seed: int, measured: Measured | None) -> list[int]:
        faults = with_program_faults(family, generate(family, seed), measured).faults
        return [fault.occurrence for fault in faults if fault.point == "committed"]

    # Rows replace each other, and a reader sees as many as the control run has shown.
    assert max(most for seed in range(100) for most in waits(seed, measured)) == 4
    assert max(most for seed in range(100) for most in waits(seed, None)) > 40
    replacing = (tmp_path / "oracle.py").read_text(encoding="utf-8")
    (tmp_path / "oracle.py").write_text(
        replacing.replace("options = FamilyOptions(", "other = dict("), encoding="utf-8"
    )
    family = program(tmp_path, f'oracle = "oracle.py"\n{FILE}')
    assert max(most for seed in range(100) for most in waits(seed, measured)) == 2


def test_the_promise_decides_the_mode(tmp_path: Path) -> None:
    family = program(tmp_path, f'promise = "at_least_once"\n{FILE}')
    assert not with_program_faults(family, generate(family, 1)).is_exactly_once
    family = program(tmp_path)
    assert all(with_program_faults(family, generate(family, seed)).is_exactly_once for seed in range(50))
