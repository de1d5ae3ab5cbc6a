"""The entries of a file sink's commits, in a real folder and in the simulated one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from onceproof.engine.connectors.commit_ledger import KEPT, CommitLedger
from onceproof.engine.connectors.part_files import Mark
from onceproof.engine.file_calls import FileCalls, SystemFileCalls
from onceproof.harness.model.family_places import load_family
from onceproof.harness.systems.simulation.simulated_files import SimulatedFiles
from onceproof.harness.systems.simulation.world import World
from tests.harness.systems.words import scenario_with

OWNER, PLACE = "0123456789abcdef", "fedcba9876543210"


class Process:
    """A process that commits part files of subtask 0 in a folder."""

    def __init__(self, calls: FileCalls, folder: str) -> None:
        self.calls, self.folder = calls, folder
        self.ledger = CommitLedger(calls, PLACE)

    def note(self, epoch: int, attempt: str = "1.1") -> None:
        self.ledger.note(self.folder, Mark(OWNER, 0, epoch, attempt), 1)

    def has(self, epoch: int, attempt: str = "1.1") -> bool:
        return self.ledger.has(self.folder, Mark(OWNER, 0, epoch, attempt), 1)

    def names(self) -> list[str]:
        return [name for name, _ in self.calls.entries(self.folder)]

    def noted(self) -> list[str]:
        return sorted(name.split("-", 1)[1] for name in self.names())


@pytest.fixture(params=["real", "simulated"])
def process(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Process]:
    """Begins another process in the same folder."""
    if request.param == "real":
        return lambda: Process(SystemFileCalls(), str(tmp_path))
    system = World(load_family("word_count"), scenario_with()).external
    return lambda: Process(SimulatedFiles(system), "/rows")


def test_one_entry_follows_the_commits_of_an_attempt(process: Callable[[], Process]) -> None:
    one = process()
    for epoch in range(3):
        one.note(epoch)
    assert one.noted() == ["0-1.1.2-1.committed"]


def test_entry_left_by_an_earlier_process_makes_room_for_a_later_one(process: Callable[[], Process]) -> None:
    process().note(0)
    one = process()
    # A restored commit comes ahead of the look at the folder.
    one.note(1)
    assert one.noted() == ["0-1.1.0-1.committed", "0-1.1.1-1.committed"]
    one.ledger.found(one.folder, one.names(), OWNER)
    # It had failed, and is repeated.
    one.note(1)
    assert one.noted() == ["0-1.1.1-1.committed"]
    for attempt in range(2, KEPT + 1):
        one.note(1, f"{attempt}.1")
    assert one.has(1)
    one.note(1, f"{KEPT + 1}.1")
    assert not one.has(1)
    assert len(one.noted()) == KEPT
