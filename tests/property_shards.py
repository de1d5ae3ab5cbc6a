"""The settings under which property tests run, and the shards into which they are split.

Rules:

- The profile is loaded by name (``harness.generation.profiles``), because Hypothesis by itself loads its own
  profile on CI, with the same examples each night. Settings inherit from the profile that is loaded when they
  are created, so conftest.py loads it before the first test module is imported.
- Each shard of a property test has its own seed, so that the workers of pytest-xdist do different work and a
  run can be repeated with another number of workers. The seed depends on the profile, so ci and dev try
  different examples.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

import hypothesis
from hypothesis import HealthCheck, Phase, settings

from onceproof.harness.generation.profiles import (
    NIGHTLY,
    PROFILES,
    SEED_VARIABLE,
    chosen_profile,
    given_seed,
    settled_seed,
)
from onceproof.harness.model.chance import derived_seed

Test = TypeVar("Test", bound=Callable[..., Any])

SHARDS: Final = 4


def register_profiles() -> str:
    """Register the profiles, load the one that the environment names, and return its name.

    A new seed of the profile nightly is printed on stderr, unless the pytest plugin has printed it already.

    Raises:
        ProfileError: the environment names an unknown profile or a wrong seed.
    """
    chosen = chosen_profile()
    if chosen == NIGHTLY and given_seed() is None:
        print(f"onceproof: profile {chosen}, {SEED_VARIABLE}={settled_seed(chosen)}", file=sys.stderr)
    # The default profile, because on CI Hypothesis has loaded its own CI profile.
    parent = settings.get_profile("default")
    for name, examples in PROFILES.items():
        settings.register_profile(
            name,
            parent,
            max_examples=examples,
            # The duration of an example depends on the machine more than on the engine.
            deadline=None,
            derandomize=False,
            database=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )
    settings.load_profile(chosen)
    return chosen


def shard_seed(family: str, shard: int, campaign_seed: int | None = None, profile: str | None = None) -> int:
    """Return the seed of a shard; without arguments, of the loaded profile and its seed."""
    profile = profile or settings.get_current_profile_name()
    if campaign_seed is None:
        campaign_seed = settled_seed(profile)
    return derived_seed(profile, campaign_seed, family, shard)


def in_shard(family: str, shard: int, examples: int | None = None) -> Callable[[Test], Test]:
    """Return a decorator that sets the seed and the number of examples of one shard of a property test.

    It is placed above ``given``.

    Args:
        examples: the examples of all shards together; None for those of the profile.
    """
    loaded = settings.get_profile(settings.get_current_profile_name())
    of_all = loaded.max_examples if examples is None else examples
    sharded = settings(
        max_examples=max(1, of_all // SHARDS),
        # Hypothesis does not shrink; the harness does.
        phases=(Phase.explicit, Phase.generate),
    )

    def decorate(test: Test) -> Test:
        seeded: Test = hypothesis.seed(shard_seed(family, shard))(sharded(test))
        return seeded

    return decorate
