"""Which profile and which seed the environment asks for, and what is said where it asks for neither."""

from __future__ import annotations

import pytest

from onceproof.harness.generation.profiles import (
    PROFILES,
    ProfileError,
    chosen_profile,
    given_seed,
    new_seed,
    settled_seed,
)


@pytest.mark.parametrize(
    ("environment", "profile"),
    [
        ({}, "dev"),
        ({"CI": ""}, "dev"),
        ({"CI": "false"}, "dev"),
        ({"CI": "0"}, "dev"),
        ({"CI": "1"}, "ci"),
        ({"CI": "true"}, "ci"),
        ({"CI": "true", "ONCEPROOF_PROFILE": "nightly"}, "nightly"),
        ({"ONCEPROOF_PROFILE": "ci"}, "ci"),
    ],
)
def test_the_environment_chooses_the_profile(environment: dict[str, str], profile: str) -> None:
    assert chosen_profile(environment) == profile


def test_an_unknown_profile_is_an_error_with_the_known_ones() -> None:
    with pytest.raises(ProfileError, match=r"^ONCEPROOF_PROFILE=night: there are .* dev, ci, nightly$"):
        chosen_profile({"ONCEPROOF_PROFILE": "night"})


def test_a_seed_is_a_whole_number() -> None:
    assert given_seed({}) is None
    assert given_seed({"ONCEPROOF_SEED": "-3"}) == -3
    with pytest.raises(ProfileError, match=r"^ONCEPROOF_SEED=3\.5: a seed is a whole number$"):
        given_seed({"ONCEPROOF_SEED": "3.5"})
    with pytest.raises(ProfileError, match=r": a seed has at most 64 bits$"):
        given_seed({"ONCEPROOF_SEED": str(2**63)})


@pytest.mark.parametrize("profile", [name for name in PROFILES if name != "nightly"])
def test_the_seed_of_dev_and_ci_is_fixed_and_not_in_the_environment(profile: str) -> None:
    environment: dict[str, str] = {}
    assert settled_seed(profile, environment) == 0
    assert environment == {}
    assert settled_seed(profile, {"ONCEPROOF_SEED": "9"}) == 9


def test_nightly_draws_a_new_seed_once_for_each_night() -> None:
    nights: list[dict[str, str]] = [{}, {}]
    seeds = [settled_seed("nightly", night) for night in nights]
    assert seeds[0] != seeds[1]
    # What is started meanwhile finds it there.
    assert nights == [{"ONCEPROOF_SEED": str(seed)} for seed in seeds]
    assert [settled_seed("nightly", night) for night in nights] == seeds
    assert settled_seed("nightly", {"ONCEPROOF_SEED": "9"}) == 9


def test_a_new_seed_can_be_typed() -> None:
    assert all(0 <= new_seed() < 2**32 for _ in range(100))


def test_dev_ci_and_nightly_have_increasing_numbers_of_examples() -> None:
    assert list(PROFILES) == ["dev", "ci", "nightly"]
    assert list(PROFILES.values()) == sorted(PROFILES.values())
