"""What the job must keep is there at each look, and a checkpoint is restored from what is there."""

from __future__ import annotations

from itertools import count

from msgspec.structs import replace

from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.job_settings import CheckpointMode
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.systems.simulation.agenda import Clock
from onceproof.harness.systems.simulation.comparison_runs import RecordedRun, recorded_run
from onceproof.harness.systems.simulation.retention_watch import RetentionWatch, lost_files
from onceproof.harness.systems.simulation.simulated_storage import SimulatedStorage
from onceproof.harness.trials.checkpoint_trials import check_continuations
from tests.planted.catalogue import find_mutant

FAMILY = "word_count"


def calm(seed: int, retained: int) -> Scenario:
    """Return a scenario without faults that takes several checkpoints and retains some."""
    family = load_family(FAMILY)
    drawn = next(
        each
        for each in (generate(family, number) for number in count(seed))
        if each.record_count() > 60 and each.checkpoint_mode == CheckpointMode() and each.asked == ()
    )
    return replace(drawn, seed=None, faults=(), retained=retained, checkpoint_interval_ms=20)


def recorded(scenario: Scenario) -> RecordedRun:
    run = recorded_run(load_family(FAMILY), scenario)
    assert len(run.checkpoints) > 4
    return run


def test_each_checkpoint_is_kept_until_enough_newer_ones_are_complete() -> None:
    for retained in (1, 2, 3):
        run = recorded(calm(140, retained))
        assert [each.metadata.checkpoint_id for each in run.retained] == [
            each.metadata.checkpoint_id for each in run.checkpoints
        ]
        for each in run.retained:
            assert lost_files(each.metadata, each.files) == []
            others = [path for path in each.files if path.startswith("chk-")]
            assert {path.partition("/")[0] for path in others} == {f"chk-{each.metadata.checkpoint_id}"}


def test_checkpoint_that_is_deleted_early_is_named_with_its_file() -> None:
    scenario = calm(140, 2)
    with find_mutant("retained-checkpoint-deleted-early").applied():
        violations = check_continuations(load_family(FAMILY), scenario)
    assert {(each.property, each.anomaly) for each in violations} == {("restore_anywhere", "deleted")}
    assert violations[0].witness["path"].endswith("/_metadata")


def test_file_that_is_gone_is_reported_once() -> None:
    run = recorded(calm(140, 2))
    first, second, third = [each.metadata for each in run.checkpoints[:3]]
    storage = SimulatedStorage(Clock())
    storage.files = dict(run.checkpoints[2].files)
    watch = RetentionWatch(storage, 2)
    for metadata in (first, second, third):
        watch.completed(metadata)
    assert list(watch.look()) == []
    [gone, *_] = [path for path in storage.files if path.startswith(f"chk-{second.checkpoint_id}/")]
    storage.delete(gone)
    assert list(watch.look()) == [gone]
    assert list(watch.look()) == []


def test_metadata_unknown_to_the_job_replace_the_oldest_checkpoint() -> None:
    run = recorded(calm(140, 1))
    storage = SimulatedStorage(Clock())
    watch = RetentionWatch(storage, 1)
    watch.completed(run.checkpoints[0].metadata)
    storage.write("chk-99/_metadata", b"")
    assert list(watch.look()) == []
    storage.delete("chk-99/_metadata")
    assert list(watch.look()) != []
