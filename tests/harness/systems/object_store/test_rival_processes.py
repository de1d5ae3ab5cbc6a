"""Processes of one job over an object store: one history wins, and planted bugs are seen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.connectors import two_phase
from onceproof.engine.runtime import recovery
from onceproof.engine.runtime.checkpoint_history import FoundRecord, JobHistory
from onceproof.engine.runtime.job_driver import JobDriver
from onceproof.engine.runtime.job_requests import publish_metadata
from onceproof.engine.runtime.recovery import METADATA, RecoverableStorage
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.mutants.patching import replaced
from tests.harness.systems.object_store.object_store import StoreClient
from tests.harness.systems.object_store.rival_processes import run_rivals

FAMILY = load_family("word_count")
RECORDS = {
    f"words-{split}": tuple((time, FAMILY.WORDS[(3 * time + split) % 5]) for time in range(12))
    for split in range(2)
}


def problem_within(seeds: range) -> str | None:
    """Return the first problem that a seed shows."""
    return next((found for seed in seeds if (found := run_rivals(FAMILY, RECORDS, seed).problem)), None)


@pytest.mark.slow
def test_rivals_leave_one_history(request: pytest.FixtureRequest) -> None:
    first = 1000 * int(request.config.getoption("--power-seed"))
    assert problem_within(range(first, first + 40)) is None


def test_run_of_rivals_replays_from_its_seed() -> None:
    first, second = run_rivals(FAMILY, RECORDS, 3), run_rivals(FAMILY, RECORDS, 3)
    assert first.requests == second.requests
    assert first.switches > 2


# Planted bugs: what is replaced, with what.


def put_unconditionally() -> tuple[Any, str, Any]:
    create = StoreClient.create_exclusive

    def put(self: StoreClient, path: str, data: bytes = b"") -> bool:
        if path.endswith(METADATA):
            self.write(path, data)
            return True
        return create(self, path, data)

    return StoreClient, "create_exclusive", put


def claim_unchecked_after_the_put() -> tuple[Any, str, Any]:
    def publish(self: JobDriver, metadata: CheckpointMetadata) -> None:
        self.check_claim()
        publish_metadata(self.storage, self.history, metadata, self.next_starting_point(metadata))

    return JobDriver, "publish", publish


def listed_before_the_claim() -> tuple[Any, str, Any]:
    claim = recovery._claim

    def late(storage: RecoverableStorage, above: int) -> tuple[int, list[str]]:
        paths = storage.list("")
        return claim(storage, above)[0], [path for path in paths if not path.startswith("incarnation-")]

    return recovery, "_claim", late


def failed_metadata_not_declared_void() -> tuple[Any, str, Any]:
    return JobHistory, "declare_void", lambda self, metadata, error: None


def checkpoints_of_losers_count() -> tuple[Any, str, Any]:
    return FoundRecord, "counts", lambda self, metadata: True


def transactions_of_a_successor_aborted() -> tuple[Any, str, Any]:
    return two_phase, "is_of_later_process", lambda attempt, other: False


@pytest.mark.parametrize(
    ("plant", "seeds"),
    [
        (put_unconditionally, range(400)),
        (claim_unchecked_after_the_put, range(100)),
        (listed_before_the_claim, range(100)),
        (failed_metadata_not_declared_void, range(155, 555)),
        (checkpoints_of_losers_count, range(400)),
        (transactions_of_a_successor_aborted, range(1820, 2720)),
    ],
)
def test_planted_bug_is_seen(plant: Callable[[], tuple[Any, str, Any]], seeds: range) -> None:
    with ExitStack() as planted:
        planted.enter_context(replaced(*plant()))
        assert problem_within(seeds) is not None
