"""Savepoints of released versions are restored: keyed state of each kind, timers, positions, part files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.engine.runtime import released_job
from tests.patience import PATIENCE_SECONDS

RELEASED = Path(__file__).with_name("released")


def rows_of(folder: Path, **options: object) -> list[str]:
    gate = released_job.Gate()
    gate.reached.set()
    client = released_job.start(folder, gate, **options)
    client.get_job_execution_result().result(PATIENCE_SECONDS)
    return released_job.rows_in(folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return rows_of(tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("release", sorted(path.name for path in RELEASED.iterdir()))
def test_job_goes_on_from_the_savepoint_of_a_release(
    release: str, backend: str, whole: list[str], tmp_path: Path
) -> None:
    shutil.copytree(RELEASED / release / "out", tmp_path / "out")
    before = released_job.rows_in(tmp_path)
    assert 0 < len(before) < len(whole)
    path = str(RELEASED / release / "savepoint")
    options = {"execution.state-recovery.path": path, "state.backend.type": backend, "parallelism.default": 3}
    assert rows_of(tmp_path, **options) == whole
