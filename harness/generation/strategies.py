"""Hypothesis strategies for scenarios, and the settings under which property tests run.

The rules this module lives by:

- Two strategies for the same value. ``generated`` draws one number, the seed of a scenario: by far the
  fastest, and it meets the plots of the generator. ``structured`` draws records, faults and schedule one by
  one, so that Hypothesis itself searches among them, and meets what the generator never thought of.
- Never is a step of the schedule drawn from Hypothesis: a run takes hundreds, and its buffer holds 8,192
  draws. Sizes are drawn before what they are the sizes of, because lists are short otherwise.
- Hypothesis does not shrink here: harness.shrinking takes a second for what takes Hypothesis a minute. The
  failing scenario is shown as JSON, which replays.
- The profile is loaded by name (``harness.generation.profiles``). Left alone, Hypothesis notices CI and draws
  the same examples each night. Settings take what they do not name from the profile of the moment at which
  they are made, so a profile is loaded before the first test module is imported: in conftest.py.
- Shard i of a property test has a seed of its own, so that pytest-xdist's workers never do the same work, and
  so that a run can be repeated with another number of workers. The profile is a part of it: what ci tries is
  something else than what somebody has tried before at a desk.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random
from typing import Any, Final, TypeVar

import hypothesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from onceproof.harness.generation.fault_patterns import HIGHEST_PARALLELISM
from onceproof.harness.generation.generator import generate
from onceproof.harness.generation.profiles import (
    NIGHTLY,
    PROFILES,
    SEED_VARIABLE,
    chosen_profile,
    given_seed,
    settled_seed,
)
from onceproof.harness.model.chance import SEED_LIMIT, derived_seed
from onceproof.harness.model.family import Family
from onceproof.harness.model.faults import COORDINATOR_POINTS, FAULT_KINDS, FAULTS
from onceproof.harness.model.scenario import ACTION_CLASSES, ANY_TASK, Fault, InputRecord, Scenario, Schedule
from onceproof.harness.model.step_limits import with_ample_limits

Test = TypeVar("Test", bound=Callable[..., Any])

SHARDS: Final = 4


def register_profiles() -> str:
    """Register our profiles, load the one that the environment asks for, and return its name.

    ProfileError where the environment names none. A night's new seed is told on stderr, unless the pytest
    plugin has drawn and told it already.
    """
    chosen = chosen_profile()
    if chosen == NIGHTLY and given_seed() is None:
        print(f"onceproof: profile {chosen}, {SEED_VARIABLE}={settled_seed(chosen)}", file=sys.stderr)
    # Not what is loaded: where Hypothesis has noticed CI, that is its own profile for it.
    parent = settings.get_profile("default")
    for name, examples in PROFILES.items():
        settings.register_profile(
            name,
            parent,
            max_examples=examples,
            # How long an example takes says more of the machine than of the engine.
            deadline=None,
            derandomize=False,
            database=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )
    settings.load_profile(chosen)
    return chosen


def shard_seed(family: str, shard: int, campaign_seed: int | None = None, profile: str | None = None) -> int:
    """Return the seed of a shard: under the loaded profile and its seed, where none is given."""
    profile = profile or settings.get_current_profile_name()
    if campaign_seed is None:
        campaign_seed = settled_seed(profile)
    return derived_seed(profile, campaign_seed, family, shard)


def in_shard(family: str, shard: int, examples: int | None = None) -> Callable[[Test], Test]:
    """Return a decorator that gives a property test the seed of a shard, and its part of the examples.

    ``examples`` are those of all shards; the profile's, if none are given. It stands above ``given``.
    """
    loaded = settings.get_profile(settings.get_current_profile_name())
    of_all = loaded.max_examples if examples is None else examples
    sharded = settings(
        max_examples=max(1, of_all // SHARDS),
        # The harness shrinks.
        phases=(Phase.explicit, Phase.generate),
    )

    def decorate(test: Test) -> Test:
        seeded: Test = hypothesis.seed(shard_seed(family, shard))(sharded(test))
        return seeded

    return decorate


def generated(family: Family) -> st.SearchStrategy[Scenario]:
    """Return the scenarios of all seeds."""
    return st.integers(0, SEED_LIMIT - 1).map(lambda seed: generate(family, seed))


@st.composite
def structured(draw: st.DrawFn, family: Family) -> Scenario:
    """Return scenarios whose records, faults, schedule and settings are drawn one by one."""
    base = generate(family, draw(st.integers(0, SEED_LIMIT - 1)))
    parallelism = st.integers(1, HIGHEST_PARALLELISM)
    scenario = replace(
        base,
        seed=None,
        records=draw(_records(family)),
        parallelism=draw(parallelism),
        max_parallelism=draw(st.sampled_from((4, 5, 7, 8, 128))),
        source_parallelism=draw(st.integers(0, 3)),
        sink_parallelism=draw(st.integers(0, HIGHEST_PARALLELISM)),
        channel_capacity=draw(st.integers(1, 4)),
        checkpoint_interval_ms=draw(st.integers(10, 60)),
        faults=draw(_sized(faults(), 0, 4)),
        schedule=draw(schedules()),
    )
    return with_ample_limits(scenario)


def _sized(elements: st.SearchStrategy[Any], least: int, most: int) -> st.SearchStrategy[tuple[Any, ...]]:
    """Return tuples of every length from least to most, each as likely as the others."""
    return st.integers(least, most).flatmap(
        lambda size: st.lists(elements, min_size=size, max_size=size).map(tuple)
    )


@st.composite
def _records(draw: st.DrawFn, family: Family) -> dict[str, tuple[InputRecord, ...]]:
    """Return records made of values that the family itself draws, since only it knows what these mean."""
    material = family.generate(Random(draw(st.integers(0, SEED_LIMIT - 1))))
    records = [record for split in material.records.values() for record in split]
    splits = list(material.records)[: draw(st.integers(1, 3))]
    if not records:
        return dict.fromkeys(splits, ())
    # Few different ones: what happens twice to the same key is what can go wrong.
    few = records[: draw(st.integers(1, 8))]
    return {split: draw(_sized(st.sampled_from(few), 0, 15)) for split in splits}


@st.composite
def faults(draw: st.DrawFn) -> Fault:
    """Return faults of every kind at every point at which it makes sense."""
    kind = draw(st.sampled_from(FAULT_KINDS))
    row = FAULTS[kind]
    point = draw(st.sampled_from(row.points))
    rescale = st.sampled_from((0, 0, *range(1, HIGHEST_PARALLELISM + 1)))
    return Fault(
        kind,
        point,
        task=ANY_TASK,
        checkpoint=0 if row.strikes == "commit" else draw(st.integers(0, 3)),
        occurrence=1
        if point in COORDINATOR_POINTS
        else draw(st.integers(1, 30 if point == "element" else 6)),
        after=draw(st.integers(0, 20)) if row.is_kill else 0,
        delay=0 if row.delay == "none" else draw(st.integers(1, 150)),
        rescale_to=draw(rescale) if row.is_kill else 0,
    )


def schedules() -> st.SearchStrategy[Schedule]:
    """Return fair schedules, uniform ones by their seed, and priorities with few changes."""
    seeds = st.integers(0, 999_999)
    actions = st.sampled_from(ACTION_CLASSES)
    priorities = st.dictionaries(actions, st.integers(-2, 2), min_size=1, max_size=4)
    changes = _sized(st.tuples(st.integers(0, 300), actions, st.integers(-2, 2)), 0, 4)
    return st.one_of(
        st.just(Schedule()),
        seeds.map(lambda seed: Schedule("uniform", seed)),
        st.tuples(seeds, priorities, changes).map(lambda drawn: Schedule("priority", *drawn)),
    )
