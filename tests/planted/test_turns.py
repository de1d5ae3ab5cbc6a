"""The turns of families follow from the recorded kills and from what scenarios cost."""

from __future__ import annotations

from onceproof.harness.model.family_places import family_names, load_family, turns_of
from tests.planted.kills import Kill
from tests.planted.turns import LEAST, turns_by


def kills_of(**scenarios: int) -> dict[str, Kill]:
    return {f"bug of {name}": {"family": name, "index": index} for name, index in scenarios.items()}


def test_family_whose_kills_take_long_has_more_turns() -> None:
    turns = turns_by(kills_of(fast=3, slow=300), {"fast": 0.01, "slow": 0.01})
    assert turns["slow"] > 3 * turns["fast"] > 3


def test_family_whose_scenarios_cost_more_has_fewer_turns() -> None:
    turns = turns_by(kills_of(cheap=200, dear=200), {"cheap": 0.01, "dear": 0.09})
    assert turns["cheap"] > 1.5 * turns["dear"]


def test_no_single_kill_decides() -> None:
    costs = dict.fromkeys(("one", "two", "three"), 0.01)
    few = turns_by(kills_of(one=200, two=200, three=200), costs)
    many = turns_by(kills_of(one=200, two=200, three=1_000_000), costs)
    assert many["three"] < 2.5 * few["three"]


def test_families_keep_their_share_without_kills() -> None:
    costs = dict.fromkeys(("one", *LEAST), 0.1)
    assert turns_by(kills_of(one=9), costs).items() >= LEAST.items()


def test_turns_that_are_kept_are_those_of_built_in_families() -> None:
    names = family_names()
    turns = dict(zip(names, turns_of([load_family(name) for name in names]), strict=True))
    assert all(turns[name] >= least for name, least in LEAST.items())
    assert min(turns.values()) == 1
