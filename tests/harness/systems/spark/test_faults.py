"""The engine on Spark under each real fault: with separate executors, and on two hosts.

The trials in one JVM are run by test_system, on its driver.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import pytest
from msgspec.structs import replace

from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.verdict import judge
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import FAULT_FIRED, INPUT_READ, JOB_FINISHED
from onceproof.harness.model.scenario import Fault
from onceproof.harness.model.system import find_system

pytestmark = [pytest.mark.spark, pytest.mark.local_kill]

EPOCHS = 3
TRIALS = {
    "spark": (
        (
            "page_views",
            Fault("kill_task", "pre_committed", checkpoint=1, means="zombie"),
            Fault("kill_task", "barrier_received", checkpoint=2, means="shuffle"),
            Fault("fail_write", "snapshotted", checkpoint=3, means="full", delay=1),
        ),
        (
            "word_count",
            Fault("fail_write", "metadata_written", checkpoint=1, means="read_only", delay=3),
            Fault("kill_task", "aligned", checkpoint=2, delay=5),
        ),
    ),
    "spark-cluster": (
        (
            "nexmark_q5",
            Fault("kill_task", "pre_committed", checkpoint=1, means="executor"),
            Fault("kill_all", "aligned", checkpoint=2, means="executor"),
            Fault("kill_task", "uploaded", checkpoint=3, means="zombie"),
        ),
    ),
    "spark-standalone": (
        (
            "flights",
            Fault("kill_task", "pre_committed", checkpoint=1, means="slow"),
            Fault("kill_task", "aligned", checkpoint=2, means="zombie"),
            Fault("kill_task", "snapshotted", checkpoint=3, means="executor"),
        ),
    ),
}
"""By system, the scenarios that share one driver. None kills it, because a start takes longest."""
CLUSTERS = ("spark-cluster", "spark-standalone")
"""The systems with drivers of their own; test_system has one in a single JVM already."""


def scenario_of(name, faults):
    """Return the first fitting scenario of the family, cut into epochs, with one fault for each epoch."""
    family = load_family(name)
    drawn = next(each for each in (generate(family, seed) for seed in range(99)) if is_fit(each))
    return replace(
        drawn,
        faults=faults,
        # An interval has three steps for each record. One more epoch reads the remaining records.
        checkpoint_interval_ms=3 * (drawn.record_count() // EPOCHS),
        tolerable_failures=1,
        restart_delay_ms=1,
    )


def is_fit(scenario):
    return 15 <= scenario.record_count() <= 40 and scenario.parallelism == 2


def check_survival(system, trials):
    """Check that the job survives each fault of the trials, one after another on the same drivers."""
    for family_name, *faults in trials:
        family, scenario = load_family(family_name), scenario_of(family_name, tuple(faults))
        history = system.run(family, scenario)
        assert judge(scenario, history, PythonOracle(family, scenario)).violations == ()
        assert [event[1] for event in history.events[-2:]] == [JOB_FINISHED, INPUT_READ]
        # Each fault has struck once, and the history records its means.
        struck = history.statistics
        assert struck.coverage == Counter((fault.kind, fault.point) for fault in faults)
        assert struck.means == Counter((fault.kind, fault.means) for fault in faults if fault.means)
        recorded = {payload.get("means", "") for _, kind, _, payload in history.events if kind == FAULT_FIRED}
        assert recorded == {fault.means for fault in faults}
        assert all(recovery.commit_seconds is not None for recovery in struck.recoveries)


@pytest.mark.parametrize("name", CLUSTERS)
def test_job_survives_each_real_fault_of_its_processes_and_files(name):
    with closing(find_system(name)) as system:
        check_survival(system, TRIALS[name])
