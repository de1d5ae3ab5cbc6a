"""Queries of Structured Streaming under real SIGKILLs, judged by the same checkers and the same oracles."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import msgspec
import pytest

from harness.family import load_family
from harness.history import ATTEMPT_STARTED, JOB_FINISHED, TRANSACTION_VISIBLE
from harness.scenario import Fault
from harness.systems.structured_streaming import StructuredStreamingSystem
from harness.trial import scenario_of, try_scenario

pytestmark = [pytest.mark.spark, pytest.mark.local_kill]


@pytest.fixture(scope="module")
def system():
    """One driver serves all tests that do not kill it."""
    with closing(StructuredStreamingSystem()) as system:
        yield system


def tried(system, name, seed, *faults):
    """Run a scenario of a family with other faults than were drawn for it."""
    family = load_family(name)
    scenario = msgspec.structs.replace(scenario_of(family, seed), faults=faults, mode=msgspec.UNSET)
    trial = try_scenario(family, scenario, system=system)
    assert trial.verdict.violations == ()
    # Every fault has struck, once: a kill that nobody dies of proves nothing.
    struck = trial.history.statistics.coverage
    assert struck == Counter([(fault.kind, fault.point) for fault in faults])
    return trial.history


def payloads(history, kind):
    return [payload for _, each, _, payload in history.events if each == kind]


def test_transform_with_state_survives_the_death_of_the_driver_before_spark_knows_of_the_commit(system):
    history = tried(system, "word_count", 6, Fault("kill_process", "committed", checkpoint=1))
    first, second = payloads(history, ATTEMPT_STARTED)
    # The batch was planned and shown; the next driver runs it again, and nobody sees that.
    assert (first["restored"], second["restored"]) == (None, 1)
    assert [each["epoch"] for each in payloads(history, TRANSACTION_VISIBLE)] == [0, 1]
    assert payloads(history, JOB_FINISHED) == [{}]
