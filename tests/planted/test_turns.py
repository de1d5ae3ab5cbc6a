"""The turns of families follow from the recorded kills and from what scenarios cost."""

from __future__ import annotations

from onceproof.harness.model.family_places import family_names, load_family, turns_of
from tests.planted.kills import Kill
from tests.planted.turns import MOST_COUNTED, OF_RANDOM_JOBS, turns_by


def kills_of(**scenarios: int) -> dict[str, Kill]:
    return {f"bug of {name}": {"family": name, "index": index} for name, index in scenarios.items()}


def test_family_whose_kills_take_long_has_more_turns() -> None:
    turns = turns_by(kills_of(fast=1, slow=36), {"fast": 0.01, "slow": 0.01, "random_job": 0.01})
    assert round(turns["slow"] / turns["fast"]) == 6


def test_family_whose_scenarios_cost_more_has_fewer_turns() -> None:
    turns = turns_by(kills_of(cheap=9, dear=9), {"cheap": 0.01, "dear": 0.09})
    assert round(turns["cheap"] / turns["dear"]) == 3


def test_no_single_kill_decides() -> None:
    costs = {"often": 0.01, "once": 0.01}
    assert turns_by(kills_of(often=9, once=2_000), costs) == turns_by(
        kills_of(often=9, once=MOST_COUNTED), costs
    )


def test_random_jobs_keep_their_share_without_kills() -> None:
    assert turns_by(kills_of(one=9), {"one": 0.01, "random_job": 0.1})["random_job"] == OF_RANDOM_JOBS


def test_turns_that_are_kept_are_those_of_built_in_families() -> None:
    names = family_names()
    turns = dict(zip(names, turns_of([load_family(name) for name in names]), strict=True))
    assert turns["random_job"] >= OF_RANDOM_JOBS
    assert min(turns.values()) == 1
