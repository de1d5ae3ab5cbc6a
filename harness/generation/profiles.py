"""The profiles dev, ci and nightly: how much property tests try, and which seed their scenarios come from.

The rules this module lives by:

- ONCEPROOF_PROFILE names the profile. Where it is not set the profile is ci on a CI server, which sets CI,
  and dev elsewhere.
- dev and ci try the same each time: what is red stays red until it is mended. A night draws a seed of its
  own, tells it, and does the same again when ONCEPROOF_SEED holds that seed.
- A seed that is drawn is put into the environment: the workers of pytest-xdist and every other child inherit
  it, so all of them work on one night.
- Nothing dear is imported: the pytest plugin asks here whenever pytest starts, also where nobody uses it.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from typing import Final

PROFILES: Final = {"dev": 100, "ci": 400, "nightly": 5000}
"""The examples of each property test; where it has shards, of all of them together."""

NIGHTLY: Final = "nightly"

PROFILE_VARIABLE: Final = "ONCEPROOF_PROFILE"
SEED_VARIABLE: Final = "ONCEPROOF_SEED"

_NOT_CI: Final = ("", "0", "false")


class ProfileError(ValueError):
    """The environment names no profile or no seed; the message is one line."""


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
        return int(text)
    except ValueError:
        raise ProfileError(f"{SEED_VARIABLE}={text}: a seed is a whole number") from None


def new_seed() -> int:
    """Return a seed that nobody has used yet, short enough to be typed."""
    return int.from_bytes(os.urandom(4))


def settled_seed(profile: str, environment: MutableMapping[str, str] = os.environ) -> int:
    """Return the seed that holds in a profile; a night's is drawn once, and then in the environment."""
    seed = given_seed(environment)
    if seed is None and profile == NIGHTLY:
        seed = new_seed()
        environment[SEED_VARIABLE] = str(seed)
    return seed or 0
