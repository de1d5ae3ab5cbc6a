"""Under pytest-xdist each scenario runs once, on any number of workers."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from onceproof.harness.model.seeds import numbered

if TYPE_CHECKING:
    from tests.harness.testing.conftest import User

CHECKOUT = str(Path(__file__).parents[3])
PROFILES = "from tests.property_shards import register_profiles\n\nregister_profiles()\n"

SEEDS = """
import os
from pathlib import Path

from onceproof import exactly_once


def note(name, seeds):
    worker = os.environ.get("PYTEST_XDIST_WORKER", "here")
    with Path(__file__).with_name(f"seeds-{worker}.txt").open("a") as lines:
        lines.writelines(f"{name} {seed}\\n" for seed in seeds)


@exactly_once("word_count", scenarios=30, shards=6)
def test_words(onceproof):
    note("word_count", [seed for _, seed in onceproof.tally.families["word_count"].seeds])


@exactly_once("page_views", scenarios=10, shards=3)
def test_pages(onceproof):
    note("page_views", [seed for _, seed in onceproof.tally.families["page_views"].seeds])
"""


def noted(folder: Path) -> Counter[tuple[str, int]]:
    """Return how often each seed was run, and delete the notes."""
    seeds: Counter[tuple[str, int]] = Counter()
    for path in folder.glob("seeds-*.txt"):
        for line in path.read_text().splitlines():
            name, seed = line.split()
            seeds[name, int(seed)] += 1
        path.unlink()
    return seeds


def asked_for(seed: int) -> Counter[tuple[str, int]]:
    """Return the seeds of the scenarios of the two tests."""
    return Counter(
        (name, scenario_seed)
        for name, count in (("word_count", 30), ("page_views", 10))
        for _, scenario_seed in numbered(seed, [name], 0, count)
    )


@pytest.mark.parametrize("arguments", [[], ["-n", "2", "--dist", "worksteal"]])
def test_each_scenario_runs_once_on_any_number_of_workers(user: User, arguments: list[str]) -> None:
    user.write("test_seeds.py", SEEDS)
    ended = user.pytest(*arguments)
    assert ended.counts() == {"passed": 9}, ended.out
    workers = len(list(user.folder.glob("seeds-gw*.txt")))
    assert workers == (2 if arguments else 0)
    assert noted(user.folder) == asked_for(0)


def test_workers_share_one_new_seed_that_is_printed_once(user: User) -> None:
    user.write("test_seeds.py", SEEDS)
    user.write("conftest.py", PROFILES)
    ended = user.pytest("-n", "2", "--hypothesis-profile", "nightly", PYTHONPATH=CHECKOUT)
    assert ended.counts() == {"passed": 9}, ended.out + ended.error
    [seed] = re.findall(r"^onceproof: profile nightly, seed (\d+);", ended.out, re.MULTILINE)
    assert noted(user.folder) == asked_for(int(seed))


SHARDS = """
import os
from pathlib import Path

import pytest
from hypothesis import given

from onceproof.harness.model.family_places import load_family
from onceproof.harness.generation.strategies import generated
from tests.property_shards import in_shard


@pytest.mark.parametrize("shard", range(4))
def test_shard(shard):
    drawn = []

    @in_shard("word_count", shard, examples=20)
    @given(generated(load_family("word_count")))
    def draw(scenario):
        drawn.append(scenario.seed)

    draw()
    worker = os.environ.get("PYTEST_XDIST_WORKER", "here")
    with Path(__file__).with_name(f"seeds-{worker}.txt").open("a") as lines:
        lines.writelines(f"word_count {seed}\\n" for seed in drawn)
"""


def test_shards_of_a_property_test_share_the_seed_of_the_night(user: User) -> None:
    user.write("conftest.py", PROFILES)
    user.write("test_shards.py", SHARDS)
    ended = user.pytest("-n", "2", ONCEPROOF_PROFILE="nightly", PYTHONPATH=CHECKOUT)
    assert ended.counts() == {"passed": 4}, ended.out + ended.error
    [seed] = re.findall(r"^onceproof: profile nightly, seed (\d+);", ended.out, re.MULTILINE)
    night = noted(user.folder)
    user.pytest(ONCEPROOF_PROFILE="nightly", ONCEPROOF_SEED=seed)
    assert noted(user.folder) == night
    # Another night, or another profile with the same seed, draws other scenarios.
    user.pytest(ONCEPROOF_PROFILE="nightly")
    assert len(noted(user.folder) & night) <= len(night) // 4
    user.pytest(ONCEPROOF_PROFILE="ci", ONCEPROOF_SEED=seed)
    assert len(noted(user.folder) & night) <= len(night) // 4


def test_shards_with_the_same_failure_write_separate_files(owner: User) -> None:
    owner.write(
        "test_forgetful.py",
        'from onceproof import exactly_once\n\n\n@exactly_once("forgetful.py", 20, shards=2)\n'
        "def test_forgetful():\n    pass\n",
    )
    ended = owner.pytest("-n", "2")
    assert ended.counts() == {"failed": 2}, ended.out
    commands = ended.commands("replay")
    assert len(set(commands)) == len(commands) >= 2
    for command in commands[:2]:
        replayed = owner.shell(command)
        assert replayed.code == 1
        assert "FAILED " in replayed.out
