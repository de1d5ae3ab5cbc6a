"""The seeds of a run are pinned, since old reports name them."""

from __future__ import annotations

from onceproof.harness.model.seeds import (
    CHECKED_TWICE,
    CONTINUED,
    LARGEST_SEED,
    is_checked_twice,
    is_continued,
    numbered,
    scenario_seed,
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


def test_a_share_of_the_scenarios_is_checked_twice() -> None:
    checked = sum(is_checked_twice(scenario_seed(0, "word_count", index)) for index in range(64 * 64))
    assert 32 < checked < 2 * CHECKED_TWICE
    assert not is_checked_twice(None)


def test_the_checkpoints_of_a_share_of_the_scenarios_are_examined() -> None:
    count = CONTINUED * CONTINUED
    share = sum(is_continued(scenario_seed(0, "word_count", index)) for index in range(count))
    assert CONTINUED / 2 < share < 2 * CONTINUED
    assert is_continued(None)
