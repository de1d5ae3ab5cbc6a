"""The profiles dev, ci and nightly: the number of examples and the seed of property tests.

The rules this module lives by:

- ONCEPROOF_PROFILE names the profile. If it is not set, the profile is ci on a CI server (CI is set), else
  dev.
- dev and ci run the same scenarios each time, so a failing test keeps failing until it is fixed. nightly
  draws a new seed and prints it; with ONCEPROOF_SEED set to that seed it runs the same scenarios again.
- A drawn seed is put into the environment, so the workers of pytest-xdist and other child processes inherit
  it.
- This module imports nothing slow, because the pytest plugin imports it at every start of pytest.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from typing import Final

from onceproof.harness.model.seeds import LARGEST_SEED, LEAST_SEED

PROFILES: Final = {"dev": 100, "ci": 400, "nightly": 5000}
"""The examples of each property test; where it has shards, of all of them together."""

NIGHTLY: Final = "nightly"

PROFILE_VARIABLE: Final = "ONCEPROOF_PROFILE"
SEED_VARIABLE: Final = "ONCEPROOF_SEED"

_NOT_CI: Final = ("", "0", "false")


class ProfileError(ValueError):
    """The environment has an unknown profile or a wrong seed; the message is one line."""


def chosen_profile(environment: MutableMapping[str, str] = os.environ) -> str:
    """Return the name of the profile that the environment asks for."""
    name = environment.get(PROFILE_VARIABLE)
    if name is None:
        return "dev" if environment.get("CI", "").lower() in _NOT_CI else "ci"
    if name not in PROFILES:
        raise ProfileError(f"{PROFILE_VARIABLE}={name}: there are the profiles {', '.join(PROFILES)}")
    return name


def given_seed(environment: MutableMapping[str, str] = os.environ) -> int | None:
    """Return the seed in the environment; None where there is none."""
    text = environment.get(SEED_VARIABLE)
    if text is None:
        return None
    try:
        seed = int(text)
    except ValueError:
        raise ProfileError(f"{SEED_VARIABLE}={text}: a seed is a whole number") from None
    if not LEAST_SEED <= seed <= LARGEST_SEED:
        raise ProfileError(f"{SEED_VARIABLE}={text}: a seed has at most 64 bits")
    return seed


def new_seed() -> int:
    """Return a random seed that is short enough to be typed."""
    return int.from_bytes(os.urandom(4))


def settled_seed(profile: str, environment: MutableMapping[str, str] = os.environ) -> int:
    """Return the seed that holds in a profile; a night's is drawn once, and then in the environment."""
    seed = given_seed(environment)
    if seed is None and profile == NIGHTLY:
        seed = new_seed()
        environment[SEED_VARIABLE] = str(seed)
    return seed or 0
