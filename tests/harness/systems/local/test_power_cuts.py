"""Power cuts on real files: disks rebuilt from recorded calls, and the job started again on them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from onceproof import engine
from onceproof.harness.model.family import load_family
from onceproof.harness.systems.disk.recorded_calls import MARK, START
from onceproof.harness.systems.local.power_cuts import Recording, catch, record
from onceproof.harness.systems.local.recorded_child import FINISHED

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
    "folder in LocalCheckpointStorage.make_durable",
    "folder in sync_parent for LocalCheckpointStorage.make_durable",
}
"""The metadata of a checkpoint lie in the folder of its snapshots, and two syncs make all names durable: one
where the folder is made, one where the metadata are published. So it is with records. No process of this
recording dies.

What each of these calls promises is tested below and in test_storage_power_cuts.py."""
FOUND_AFTER_A_KILL = {
    ("rename", "chk-2/_metadata"): "folder in LocalCheckpointStorage.make_durable",
    ("mkdir", "results"): "folder in open_folder for FileSinkFunction.abort_unknown",
}
"""The call after which a process is killed before it has synced, and the sync with which the next one makes
durable what it finds."""


def _record(
    folder: Path, backend: str, dies_after: tuple[int, ...] = (), dies_at: tuple[str, str] = ("", "")
) -> Recording:
    family = load_family("word_count")
    words = family.WORDS
    records = {
        f"words-{split}": tuple((time, words[(3 * time + split) % 5]) for time in range(12))
        for split in range(2)
    }
    return record(family, records, folder, dies_after=dies_after, dies_at=dies_at, state_backend=backend)


@pytest.fixture(scope="module")
def with_databases(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A job whose checkpoints share files."""
    return _record(tmp_path_factory.mktemp("power") / "job", "rocksdb")


@pytest.mark.parametrize(("backend", "dies_after"), [("hashmap", (150,)), ("rocksdb", ())])
def test_job_goes_on_exactly_from_any_disk_after_a_power_cut(
    backend: str, dies_after: tuple[int, ...], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    count, seed = request.config.getoption("--power-cuts"), request.config.getoption("--power-seed")
    recording = _record(tmp_path / "job", backend, dies_after)
    problems = [
        problem
        for cut in recording.cuts(count, seed)
        if (problem := recording.problem_after(cut)) is not None
    ]
    assert not problems, f"pytest {request.node.nodeid} --power-seed {seed}:\n" + "\n".join(problems)


def test_each_sync_that_is_left_out_loses_something_at_some_power_cut(with_databases: Recording) -> None:
    missed = with_databases.sites() - SUPERFLUOUS_HERE
    assert {site for site in missed if catch(with_databases, site) is None} == set()


@pytest.mark.parametrize("site", TOGETHER)
def test_of_two_syncs_that_make_up_for_each_other_one_is_needed(with_databases: Recording, site: str) -> None:
    problem = catch(with_databases, site, SYNC_OF_PUBLISH)
    assert problem is not None
    assert re.search(TOGETHER[site], problem)


@pytest.mark.parametrize("call", FOUND_AFTER_A_KILL)
def test_what_a_killed_process_left_is_durable_before_it_is_relied_on(
    call: tuple[str, str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seed = request.config.getoption("--power-seed")
    recording = _record(tmp_path / "job", "hashmap", dies_at=call)
    assert [each.method for each in recording.calls].count(START) == 2
    problems = [recording.problem_after(cut) for cut in recording.cuts(10, seed)]
    assert [problem for problem in problems if problem is not None] == []
    assert catch(recording, FOUND_AFTER_A_KILL[call]) is not None, "the planted bug: it is not synced"


def test_recording_marks_each_complete_checkpoint_and_the_end(with_databases: Recording) -> None:
    marks = [call.other for call in with_databases.calls if call.method == MARK]
    assert marks == [*map(str, range(1, len(marks))), FINISHED]
    assert len(marks) > 3


def test_recording_passes_every_function_of_the_engine_that_syncs(with_databases: Recording) -> None:
    passed = {site.split(" in ")[1].split(" for ")[0] for site in with_databases.sites()}
    assert passed == set(_syncing_functions())


def test_nothing_synced_and_nothing_reported_is_lost_together(with_databases: Recording) -> None:
    problem = catch(with_databases, "folder in LocalCheckpointStorage.publish")
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
    return [
        name for name in found if name not in ("sync_folder", "sync_file", "_sync", "SystemFileCalls.fsync")
    ]


def _syncs(function: ast.FunctionDef) -> bool:
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in ("fsync", "sync_folder", "sync_file", "_sync"):
                return True
    return False
