"""What functions keep outside Flink state: found in a run, and carried over a restore."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.systems.simulation.outside_state import OutsideState, Place
from onceproof.harness.trials.trial import try_scenario

FOLDER = Path(__file__).parents[1] / "wrong_jobs"
RESCALED_TWICE = 26
"""The seed of a scenario in which two subtasks have an entry of one key, one of them an old one."""


def job(name: str) -> tuple[Family, str]:
    """Return a wrong job, and the module of its functions."""
    family = load_family(f"{FOLDER / name}.py:family")
    [module] = [name_ for name_, each in sys.modules.items() if vars(each).get("family") is family]
    return family, module


def watched(name: str, seed: int, carried: tuple[Place, ...] = ()) -> tuple[OutsideState, bool]:
    family, module = job(name)
    watch = OutsideState([module], FOLDER, carried, is_traced=True)
    with watch.watching():
        passed = try_scenario(family, generate(family, seed), twice=False).verdict.passed
    return watch, passed


def failing_seed(name: str) -> int:
    family, _ = job(name)
    for seed in range(40):
        scenario = generate(family, seed)
        if not try_scenario(family, scenario).verdict.passed:
            return seed
    raise AssertionError(f"{name} passes")


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("seen_in_a_set", Place("work", "Dedup", "self.seen")),
        ("buffer_not_in_the_snapshot", Place("rows", "Buffering", "self.buffer")),
    ],
)
def test_a_changed_attribute_is_found_and_mends_the_job_if_it_is_carried_over(name: str, kept: Place) -> None:
    seed = failing_seed(name)
    watch, passed = watched(name, seed)
    assert not passed
    assert list(watch.changed) == [kept]
    assert watched(name, seed, (kept,))[1]


def test_after_rescales_a_subtask_has_each_entry_as_the_last_one_left_it() -> None:
    name, seed = "counts_in_a_dict", RESCALED_TWICE
    watch, passed = watched(name, seed)
    assert not passed
    assert watched(name, seed, tuple(watch.changed))[1]


def test_state_of_the_engine_is_not_outside_of_it() -> None:
    assert not watched("wrong_key", 0)[0].changed


def test_a_buffer_of_a_checkpointed_function_changes_and_is_no_fault() -> None:
    watch, _ = watched("emptied_in_open", 2)
    assert [place.name for place in watch.changed] == ["self.buffer"]


def test_files_of_a_job_stay_in_the_folder_of_the_run(tmp_path: Path) -> None:
    watch = OutsideState([], FOLDER)
    with watch.open(tmp_path / "seen.txt", "a") as file:
        file.write("1")
    with watch.open(tmp_path / "seen.txt") as file:
        assert file.read() == "1"
    with watch.open(FOLDER / "family.py") as file:
        assert file.read(3) == '"""'
    assert not list(tmp_path.iterdir())
    assert [place.name for place in watch.changed] == ["the file 'seen.txt'"]
