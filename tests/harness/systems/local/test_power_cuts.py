"""Power cuts on real files: disks rebuilt from recorded calls, and the job started again on them."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from onceproof import engine
from tests.harness.systems.disk.recorded_calls import MARK, START
from tests.harness.systems.local.power_cuts import Cut, Recording
from tests.harness.systems.local.recorded_child import (
    CHECKPOINTS,
    FINISHED,
    OTHER_CHECKPOINTS,
    SAVED,
    SAVEPOINT,
    RecordedProcess,
)
from tests.harness.systems.local.recorded_words import record_words

pytestmark = pytest.mark.slow

ENGINE = Path(engine.__file__).parent
TOGETHER = {
    "folder in make_folder for LocalCheckpointStorage.write": r"checkpoint \d+ .* is not on the disk",
    "folder in make_folder for LocalCheckpointStorage.publish": "the record of its job is not on the disk",
}
"""What is lost if this sync of a new folder's name is left out, and that of ``publish`` too: each makes up
for the other. Snapshots make the folder of a checkpoint, the first record of a job that of all records."""
SYNC_OF_PUBLISH = "folder in sync_parent for LocalCheckpointStorage.publish"
SUPERFLUOUS_HERE = {
    *TOGETHER,
    SYNC_OF_PUBLISH,
    "folder in LocalCheckpointStorage.write",
    "folder in sync_parent for LocalCheckpointStorage.make_durable",
}
"""The metadata of a checkpoint lie in the folder of its snapshots, and two syncs make all names durable: one
where the folder is made, one where the metadata are published. So it is with records. Here one thread makes
a checkpoint's folder and then writes into it; on Spark a worker may find the folder that another one has made
and not yet synced, which the syncs of publish and make_durable are for.

What each of these calls promises is tested below and in test_storage_power_cuts.py."""
FOUND_AFTER_A_KILL = {
    ("rename", "chk-2/_metadata"): "folder in LocalCheckpointStorage.make_durable",
    ("mkdir", "results"): "folder in open_folder for FileSinkFunction.abort_unknown",
}
"""The call after which a process is killed before it has synced, and the sync with which the next one makes
durable what it finds."""


RESCALED = (
    RecordedProcess(asks="savepoint", dies_at=("rename", "chk-5/_metadata")),
    RecordedProcess(parallelism=3),
)
CLAIMED = (
    RecordedProcess(asks="stop"),
    RecordedProcess(parallelism=3, begins_from="stop", claims=True),
)
LIVES: dict[str, tuple[RecordedProcess, ...]] = {
    "undisturbed": (),
    "killed": (RecordedProcess(dies_after=150), RecordedProcess()),
    "savepoint, killed, rescaled": RESCALED,
    "stopped with a savepoint, which is claimed": CLAIMED,
}


def _record(folder: Path, backend: str, *processes: RecordedProcess) -> Recording:
    return record_words(folder, *processes, state_backend=backend)


@pytest.fixture(scope="module")
def with_databases(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A job whose checkpoints share files."""
    return _record(tmp_path_factory.mktemp("power") / "job", "rocksdb")


@pytest.fixture(scope="module")
def recordings(with_databases: Recording, tmp_path_factory: pytest.TempPathFactory) -> Sequence[Recording]:
    """Recordings in which every sync of the engine is met."""
    others = [
        _record(tmp_path_factory.mktemp("power") / "job", "rocksdb", *LIVES[life])
        for life in ("stopped with a savepoint, which is claimed", "savepoint, killed, rescaled")
    ]
    return with_databases, *others


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("life", LIVES)
def test_job_goes_on_exactly_from_any_disk_after_a_power_cut(
    backend: str, life: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    count, seed = request.config.getoption("--power-cuts"), request.config.getoption("--power-seed")
    recording = _record(tmp_path / "job", backend, *LIVES[life])
    problems = [
        problem
        for cut in recording.cuts(count, seed, rescales_to=(0, 1, 3))
        if (problem := recording.problem_after(cut)) is not None
    ]
    assert not problems, f"pytest {request.node.nodeid} --power-seed {seed}:\n" + "\n".join(problems)


def test_each_sync_that_is_left_out_loses_something_at_some_power_cut(
    recordings: Sequence[Recording],
) -> None:
    met = {site for recording in recordings for site in recording.sites()}
    missed = {
        site
        for site in met - SUPERFLUOUS_HERE
        if all(each.catch(site) is None for each in recordings if site in each.sites())
    }
    assert missed == set()


def test_savepoint_that_was_reported_complete_and_is_lost_is_missed(recordings: Sequence[Recording]) -> None:
    *_, recording = recordings
    problem = recording.catch("folder in open_folder for OpenRequests.take")
    assert problem is not None
    assert re.search("savepoint kept/taken/[^ ]+ was reported complete, and is not on the disk", problem)


def test_savepoint_that_is_there_and_does_not_restore_is_noticed(recordings: Sequence[Recording]) -> None:
    *_, recording = recordings
    at_the_end = Cut(len(recording.calls), None)
    assert recording.problem_after(at_the_end) is None
    problem = recording.problem_after(at_the_end, "file in write_file for LocalCheckpointStorage.write")
    assert problem is not None
    assert re.search("savepoint kept/taken/[^ ]+ does not restore: .* truncated", problem)


def test_recordings_have_a_savepoint_a_stop_a_claim_and_a_rescale(recordings: Sequence[Recording]) -> None:
    _, claimed, rescaled = recordings
    folders = {
        mark.removeprefix(SAVEPOINT)
        for each in (claimed, rescaled)
        for call in each.calls
        if (mark := call.other).startswith(SAVEPOINT)
    }
    assert sorted(folder.rpartition("/")[0] for folder in folders) == sorted(SAVED.values())
    [stopped] = [folder for folder in folders if folder.startswith(SAVED["stop"])]
    deleted = {call.path for call in claimed.calls if call.method == "unlink"}
    assert f"{claimed.job.root}/{stopped}/_metadata" in deleted
    assert [each.parallelism for each in rescaled.processes] == [2, 3]
    written = {call.other.removeprefix(f"{claimed.job.root}/") for call in claimed.calls if call.other}
    for folder in (CHECKPOINTS, OTHER_CHECKPOINTS):
        assert any(re.fullmatch(f"{folder}/[0-9a-f]+/chk-[0-9]+/_metadata", path) for path in written)


@pytest.mark.parametrize("site", TOGETHER)
def test_of_two_syncs_that_make_up_for_each_other_one_is_needed(with_databases: Recording, site: str) -> None:
    problem = with_databases.catch(site, SYNC_OF_PUBLISH)
    assert problem is not None
    assert re.search(TOGETHER[site], problem)


@pytest.mark.parametrize("call", FOUND_AFTER_A_KILL)
def test_what_a_killed_process_left_is_durable_before_it_is_relied_on(
    call: tuple[str, str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seed = request.config.getoption("--power-seed")
    recording = _record(tmp_path / "job", "hashmap", RecordedProcess(dies_at=call), RecordedProcess())
    assert [each.method for each in recording.calls].count(START) == 2
    problems = [recording.problem_after(cut) for cut in recording.cuts(10, seed)]
    assert [problem for problem in problems if problem is not None] == []
    assert recording.catch(FOUND_AFTER_A_KILL[call]) is not None, "the planted bug: it is not synced"


def test_recording_marks_each_complete_checkpoint_and_the_end(with_databases: Recording) -> None:
    marks = [call.other for call in with_databases.calls if call.method == MARK]
    assert marks == [*map(str, range(1, len(marks))), FINISHED]
    assert len(marks) > 3


def test_recordings_pass_every_function_of_the_engine_that_syncs(recordings: Sequence[Recording]) -> None:
    sites = {site for recording in recordings for site in recording.sites()}
    passed = {site.split(" in ")[1].split(" for ")[0] for site in sites}
    assert passed == set(_syncing_functions())


def test_nothing_synced_and_nothing_reported_is_lost_together(with_databases: Recording) -> None:
    problem = with_databases.catch("folder in LocalCheckpointStorage.publish")
    assert problem is not None
    assert "checkpoint 1 was reported complete, and is not on the disk" in problem


def _syncing_functions() -> list[str]:
    """Return the functions of the engine that call a sync, apart from those that do nothing else."""
    found: list[str] = []
    for path in sorted(ENGINE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            functions = node.body if isinstance(node, ast.ClassDef) else [node]
            prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
            for function in functions:
                if isinstance(function, ast.FunctionDef) and _syncs(function):
                    found.append(prefix + function.name)
    only_sync = ("sync_folder", "sync_file", "_sync", "_JointSyncs.sync", "SystemFileCalls.fsync")
    return [name for name in found if name not in only_sync]


def _syncs(function: ast.FunctionDef) -> bool:
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in ("fsync", "sync_folder", "sync_file", "_sync"):
                return True
    return False
