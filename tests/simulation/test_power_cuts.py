"""Power cuts in the simulation: what the storage keeps, and which syncs a job needs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.faults import KILLS
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.simulation.agenda import Agenda, Clock
from onceproof.harness.systems.simulation.checkpoint_storages import StorageOnDisk, storage_for
from onceproof.harness.systems.simulation.simulated_storage import SimulatedStorage
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem
from onceproof.harness.trials.trial import try_scenario
from tests.harness.systems.words import scenario_with
from tests.planted.catalogue import find_mutant

WORD_COUNT = load_family("word_count")


def cut_at(point, checkpoint=2, **details):
    return Fault("power_cut", point, checkpoint=checkpoint, **details)


def with_seed(seed, *faults):
    """Return a scenario of words; ``seed`` decides what the cuts leave."""
    scenario = scenario_with(*faults)
    return replace(scenario, schedule=replace(scenario.schedule, seed=seed))


def test_only_a_scenario_with_a_power_cut_has_a_disk():
    kill, clock = Fault("kill_process", "completed"), Clock()
    assert type(storage_for(scenario_with(kill), clock, Agenda(clock))) is SimulatedStorage
    assert type(storage_for(scenario_with(cut_at("completed")), clock, Agenda(clock))) is StorageOnDisk


@pytest.mark.parametrize("seed", range(8))
def test_synced_files_survive_a_power_cut_and_deleted_ones_may(seed):
    storage = StorageOnDisk(seed, Clock())
    storage.write("chk-1/a", b"1")
    assert storage.create_exclusive("chk-1/_metadata", b"m")
    assert storage.create_exclusive("incarnation-1")
    before = storage.files
    storage.delete("chk-1/a")
    storage.lose_power()
    after = storage.files
    assert set(before) - set(after) <= {"chk-1/a"}
    assert all(before[path] == content for path, content in after.items())


def test_some_deletion_is_undone_by_a_power_cut_and_some_is_not():
    kept = set()
    for seed in range(30):
        storage = StorageOnDisk(seed, Clock())
        storage.write("chk-1/a", b"1")
        storage.write("chk-1/b", b"1")
        storage.delete("chk-1/a")
        storage.lose_power()
        kept.add("chk-1/a" in storage.files)
        assert storage.undeleted == storage.files.keys() & {"chk-1/a"}
    assert kept == {True, False}


@pytest.mark.parametrize("point", ["snapshotted", "metadata_written", "completed", "committing", "restored"])
def test_job_goes_on_exactly_after_power_cuts(point):
    first = cut_at("completed")
    faults = (first, cut_at(point, 0, occurrence=9)) if point == "restored" else (cut_at(point), first)
    trial = try_scenario(WORD_COUNT, with_seed(1, *faults), twice=True)
    assert trial.verdict.violations == ()
    assert trial.history.statistics.coverage["power_cut", point] >= 1


@pytest.mark.parametrize(
    "left_out",
    [
        "snapshot-not-synced",
        "checkpoint-folder-not-synced",
        "metadata-not-synced",
        "published-name-not-synced",
    ],
)
def test_sync_that_is_left_out_is_caught_at_a_power_cut_and_not_at_a_kill(left_out):
    cuts = [with_seed(seed, cut_at("committing")) for seed in range(6)]
    kills = [replace(each, faults=(replace(each.faults[0], kind="kill_process"),)) for each in cuts]
    with find_mutant(left_out).applied() as reach:
        cut = [try_scenario(WORD_COUNT, each, twice=False, continued=False).verdict.passed for each in cuts]
        assert reach.times
        killed = [
            try_scenario(WORD_COUNT, each, twice=False, continued=False).verdict.passed for each in kills
        ]
    assert not all(cut)
    assert all(killed)


def test_power_cuts_are_drawn_and_strike():
    drawn = [generate(WORD_COUNT, seed) for seed in range(250)]
    cut = [each for each in drawn if any(fault.kind == "power_cut" for fault in each.faults)]
    assert len(cut) > 10
    struck = 0
    for scenario in cut[:10]:
        coverage = SimulatedSystem().run(WORD_COUNT, scenario).statistics.coverage
        struck += any(kind == "power_cut" for kind, _ in coverage)
    assert struck > 2
    assert "power_cut" in KILLS
