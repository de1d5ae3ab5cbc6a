"""Bugs planted into what only real processes meet: forks, silent workers, lost folders, topics."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

from onceproof.engine import forked_children
from onceproof.engine.connectors import file_sink
from onceproof.engine.connectors.kafka import partition_reader
from onceproof.engine.connectors.kafka.topic_ids import TopicWatch
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


@mutant(
    id="topic-ids-are-not-compared",
    breaks="consistent_cut",
    summary="a reader goes on at its offset in a topic that was deleted and created again",
)
def topic_ids_are_not_compared(reached: Reached) -> Iterator[None]:
    """Rows of two topics are mixed."""

    def trusting(self: TopicWatch, found: str, offset: int) -> None:
        reached()

    with replaced(TopicWatch, "compare", trusting):
        yield


@mutant(
    id="offsets-that-are-gone-are-skipped",
    breaks="completeness",
    summary="a reader whose offset the broker has deleted goes on at the first one that is there",
)
def offsets_that_are_gone_are_skipped(reached: Reached) -> Iterator[None]:
    """The rows between them are lost without a word."""
    sound = partition_reader.client_properties

    def lenient(properties: Mapping[str, Any]) -> dict[str, Any]:
        reached()
        return {**sound(properties), "auto.offset.reset": "earliest"}

    with replaced(partition_reader, "client_properties", lenient):
        yield
