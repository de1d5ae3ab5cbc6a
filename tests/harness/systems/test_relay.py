"""One job on both runtimes by turns, under real SIGKILLs: each restores the checkpoint of the other one."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family import NOTHING_DECLARED
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.faults import KILLS
from onceproof.harness.model.history import ATTEMPT_STARTED
from onceproof.harness.model.scenario import Fault, check
from onceproof.harness.model.system import applicable, find_system
from onceproof.harness.systems.relay import CAPABILITIES, MISSING, RelaySystem
from onceproof.harness.systems.spark.system import spark_drivers
from onceproof.harness.trials.trial import try_scenario

FAMILY = str(Path(__file__).parents[2] / "engine" / "runtime" / "spark" / "visits.py")
CHECKPOINT_RECORDS = 10

RELAYS = {
    ("hashmap", False): (
        Fault("kill_process", "committed", occurrence=5, rescale_to=3),
        Fault("kill_process", "committing", occurrence=8, rescale_to=1),
        Fault("kill_process", "snapshotted", occurrence=8, rescale_to=4),
    ),
    ("rocksdb", True): (
        Fault("kill_process", "metadata_written", occurrence=3, rescale_to=4),
        Fault("kill_task", "uploaded", occurrence=9),
        Fault("kill_process", "element", occurrence=25, rescale_to=3),
        Fault("kill_process", "acknowledged", occurrence=17, rescale_to=2),
    ),
}
"""The faults of a relay, by state backend and incremental checkpoints or not. A kill ends each leg."""


@pytest.fixture(scope="module")
def drivers():
    """The Spark drivers of all relays: one that survives a relay is used for the next."""
    with closing(spark_drivers()) as drivers:
        yield drivers


def rows_below(folder):
    parts = folder.glob("run-*/output/part-*.jsonl")
    return Counter(
        tuple(msgspec.json.decode(line)) for part in parts for line in part.read_bytes().splitlines()
    )


def attempts_of(history):
    return [
        (attempt.partition(".")[0], payload["parallelism"], payload["restored"] or 0)
        for _, kind, attempt, payload in history.events
        if kind == ATTEMPT_STARTED
    ]


@pytest.mark.spark
@pytest.mark.local_kill
@pytest.mark.parametrize(("backend", "incremental"), list(RELAYS), ids=["hashmap", "rocksdb"])
def test_each_runtime_restores_the_checkpoint_of_the_other_one(drivers, tmp_path, backend, incremental):
    family = load_family(FAMILY)
    faults = RELAYS[backend, incremental]
    scenario = replace(
        generate(family, 1),
        seed=None,
        faults=faults,
        mode=msgspec.UNSET,
        parallelism=2,
        source_parallelism=0,
        sink_parallelism=0,
        max_parallelism=16,
        state_backend=backend,
        incremental=incremental,
        checkpoint_interval_ms=3 * CHECKPOINT_RECORDS,
    )
    system = RelaySystem(tmp_path, drivers)
    trial = try_scenario(family, scenario, system=system)
    assert trial.verdict.violations == ()
    assert rows_below(tmp_path) == Counter(family.expected(scenario.records, NOTHING_DECLARED))
    assert trial.history.statistics.coverage == Counter((fault.kind, fault.point) for fault in faults)
    deaths = [fault for fault in faults if fault.kind == "kill_process"]
    attempts = attempts_of(trial.history)
    assert [(leg, parallelism) for leg, parallelism, _ in attempts] == [
        (str(number), parallelism)
        for number, parallelism in enumerate([2, *[fault.rescale_to for fault in deaths]], 1)
    ]
    restored = [checkpoint for _, _, checkpoint in attempts]
    assert restored == sorted(set(restored)), (
        "each leg has completed checkpoints, and the next leg restores one of them"
    )


def test_relay_faults_follow_from_the_seed_and_are_drawn_once():
    system = find_system("relay")
    family = load_family("tickets")
    backends = set()
    for seed in range(40):
        scenario = system.prepared(generate(family, seed))
        check(scenario)
        assert system.prepared(scenario) == scenario
        assert applicable(scenario.faults, CAPABILITIES, MISSING) == (scenario.faults, {})
        assert {fault.kind for fault in scenario.faults} <= KILLS
        deaths = [fault for fault in scenario.faults if fault.kind == "kill_process"]
        assert len(deaths) in (3, 4)
        backends.add((scenario.state_backend, scenario.incremental))
        legs = [scenario.parallelism, *[fault.rescale_to for fault in deaths]]
        assert all(before != after for before, after in pairwise(legs)) or scenario.max_parallelism == 1
    assert len(backends) == 3


def test_relay_scenario_without_a_seed_is_not_changed():
    scenario = replace(generate(load_family("tickets"), 1), seed=None)
    assert find_system("relay").prepared(scenario) == scenario
