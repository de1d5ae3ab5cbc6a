"""Bugs planted into what only real processes meet: forks, silent workers, lost folders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import FrameType

from onceproof.engine import forked_children
from onceproof.engine.connectors import file_sink
from onceproof.engine.job.heartbeats import HeartbeatMonitor
from onceproof.engine.runtime.storage import LocalCheckpointStorage
from onceproof.harness.model.mutants import Reached, mutant, replaced


@mutant(
    id="forked-child-runs-the-job",
    breaks="exactly_once",
    summary="a child that a function has forked comes back into the engine, and runs the job to its end",
)
def forked_child_runs_the_job(reached: Reached) -> Iterator[None]:
    """It has the connections, the files and the attempt of its parent."""

    def no_frame(forking: FrameType | None) -> None:
        reached()

    with replaced(forked_children, "_caller_of_user_code", no_frame):
        yield


@mutant(
    id="silence-of-a-worker-is-no-death",
    breaks="liveness",
    summary="a worker that sends no heartbeats is waited for, as long as its process is there",
)
def silence_of_a_worker_is_no_death(reached: Reached) -> Iterator[None]:
    """A process that is stopped is there."""
    sound = HeartbeatMonitor.is_overdue

    def patient(self: HeartbeatMonitor, now_ms: int) -> bool:
        if sound(self, now_ms):
            reached()
        return False

    with replaced(HeartbeatMonitor, "is_overdue", patient):
        yield


@mutant(
    id="relative-path-stays-relative",
    breaks="exactly_once",
    summary="a sink takes a relative path as it is, so that it means another folder when a function has left",
)
def relative_path_stays_relative(reached: Reached) -> Iterator[None]:
    """The attempt after that writes part of the rows elsewhere."""

    def as_given(text: str | os.PathLike[str]) -> str:
        reached()
        return os.fspath(text)

    with replaced(file_sink, "base_path_of", as_given):
        yield


@mutant(
    id="folder-is-looked-at-once",
    breaks="liveness",
    summary="a process commits on when another folder is where its job had its own, or none",
)
def folder_is_looked_at_once(reached: Reached) -> Iterator[None]:
    """A second process may begin there meanwhile."""

    def still_there(self: LocalCheckpointStorage) -> bool:
        reached()
        return True

    with replaced(LocalCheckpointStorage, "is_in_place", property(still_there)):
        yield
