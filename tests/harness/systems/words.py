"""A scenario of words for real processes. Every family that counts words can run it."""

from __future__ import annotations

from onceproof.harness.model.scenario import Scenario, Schedule

WORDS = ("ant", "bee", "cat", "ant", "dog", "ant", "bee", "elk", "ant", "cat")


def scenario_with(*faults, **changes) -> Scenario:
    settings = {
        "family": "word_count",
        "generator_version": 1,
        "seed": None,
        "parameters": {},
        "records": {name: tuple((time, word) for time, word in enumerate(WORDS * 3)) for name in ("x", "y")},
        "parallelism": 2,
        "max_parallelism": 8,
        "source_parallelism": 2,
        "sink_parallelism": 2,
        "channel_capacity": 2,
        "checkpoint_interval_ms": 30,
        "checkpoint_timeout_ms": 30_000,
        "tolerable_failures": 0,
        "retained": 1,
        "restart_delay_ms": 1,
        "faults": faults,
        "schedule": Schedule(),
        "step_budget": 10_000,
    }
    return Scenario(**{**settings, **changes})
