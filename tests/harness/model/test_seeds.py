"""The seeds of a run are pinned, since old reports name them."""

from __future__ import annotations

from onceproof.harness.model.seeds import (
    CHECKED_TWICE,
    CONTINUED,
    LARGEST_SEED,
    Share,
    is_checked_twice,
    is_continued,
    numbered,
    scenario_seed,
    turn_order,
)


def test_seeds_are_the_same_for_ever() -> None:
    assert scenario_seed(7, "word_count", 0) == 1677471494907203773
    assert scenario_seed(7, "page_views", 0) == 7037351355982291500
    assert scenario_seed(8, "word_count", 0) == 1707585732872339884


def test_seeds_fit_a_signed_column_and_differ() -> None:
    seeds = {scenario_seed(0, "word_count", index) for index in range(2000)}
    assert len(seeds) == 2000
    assert all(0 <= seed <= LARGEST_SEED for seed in seeds)


def test_families_take_turns_and_keep_their_own_count() -> None:
    both = list(numbered(7, ["a", "b"], 0, 5))
    assert both == [(n % 2, scenario_seed(7, "ab"[n % 2], n // 2)) for n in range(5)]
    # A batch from the middle equals that part of the whole run.
    assert list(numbered(7, ["a", "b"], 3, 2)) == both[3:]
    assert [seed for _, seed in numbered(7, ["a"], 0, 3)] == [seed for _, seed in both[::2]]


def test_turns_of_a_family_are_spread_over_the_round() -> None:
    order = turn_order((1, 1, 1, 1, 4))
    assert [place for place, _ in order] == [0, 4, 1, 4, 2, 3, 4, 4]
    assert [nth for place, nth in order if place == 4] == [0, 1, 2, 3]
    assert turn_order((1, 1, 1)) == ((0, 0), (1, 0), (2, 0))


def test_more_turns_of_a_family_run_more_of_the_same_scenarios() -> None:
    alike = list(numbered(7, ["a", "b"], 0, 8))
    often = list(numbered(7, ["a", "b"], 0, 8, turns=(1, 3)))
    assert [place for place, _ in often].count(1) == 6
    assert [seed for place, seed in often if place == 0] == [seed for place, seed in alike if not place][:2]
    assert [seed for place, seed in often if place == 1][:4] == [seed for place, seed in alike if place]
    assert list(numbered(7, ["a", "b"], 5, 3, turns=(1, 3))) == often[5:]


def test_shares_of_a_run_with_turns_are_the_run() -> None:
    whole = list(numbered(7, ["a", "b"], 0, 19, turns=(2, 3)))
    parts = [
        each
        for share in (Share(3, 0), Share(3, 1), Share(3, 2))
        for each in numbered(7, ["a", "b"], 0, share.scenarios_in(19, 5), share, (2, 3))
    ]
    assert sorted(parts) == sorted(whole)


def test_a_share_of_the_scenarios_is_checked_twice() -> None:
    checked = sum(is_checked_twice(scenario_seed(0, "word_count", index)) for index in range(64 * 64))
    assert 32 < checked < 2 * CHECKED_TWICE
    assert not is_checked_twice(None)


def test_the_checkpoints_of_a_share_of_the_scenarios_are_examined() -> None:
    count = CONTINUED * CONTINUED
    share = sum(is_continued(scenario_seed(0, "word_count", index)) for index in range(count))
    assert CONTINUED / 2 < share < 2 * CONTINUED
    assert is_continued(None)
