"""Mutants of AsyncDataStream: what the snapshot of requests has, and the order of watermarks."""

from __future__ import annotations

from collections.abc import Iterator

from onceproof.engine.elements import Record
from onceproof.engine.operators.async_queue import Request
from onceproof.engine.operators.async_wait import AsyncWaitOperator
from onceproof.engine.state.snapshot import OperatorSnapshot
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant

FAMILIES = ("async_lookups",)


def _snapshot_of(operator: AsyncWaitOperator, kept: list[Request]) -> OperatorSnapshot | None:
    operator._state.update([(request.value, request.timestamp) for request in kept])
    return super(AsyncWaitOperator, operator).snapshot(0, 0)


@mutant(
    id="requests-are-in-no-snapshot",
    breaks="exactly_once",
    summary="a value whose request is under way is not in the snapshot",
    families=FAMILIES,
)
def requests_are_in_no_snapshot(reached: Reached) -> Iterator[None]:
    """After a restore it is never asked for again."""

    def forgetful(self: AsyncWaitOperator, checkpoint_id: int, timestamp_ms: int) -> OperatorSnapshot | None:
        if len(self._queue):
            reached()
        return _snapshot_of(self, [each for each in self._backlog if isinstance(each, Request)])

    with replaced(AsyncWaitOperator, "snapshot", forgetful):
        yield


@mutant(
    id="answered-requests-are-in-no-snapshot",
    breaks="exactly_once",
    summary="a value that has its results, which wait for earlier ones, is not in the snapshot",
    families=FAMILIES,
)
def answered_requests_are_in_no_snapshot(reached: Reached) -> Iterator[None]:
    """The results were not emitted."""

    def forgetful(self: AsyncWaitOperator, checkpoint_id: int, timestamp_ms: int) -> OperatorSnapshot | None:
        kept = [each for each in self._queue.requests() if each.results is None]
        if len(kept) < len(self._queue):
            reached()
        return _snapshot_of(self, [*kept, *(each for each in self._backlog if isinstance(each, Request))])

    with replaced(AsyncWaitOperator, "snapshot", forgetful):
        yield


@mutant(
    id="values-without-room-are-in-no-snapshot",
    breaks="exactly_once",
    summary="a value that waits for room among the requests is not in the snapshot",
    families=FAMILIES,
)
def values_without_room_are_in_no_snapshot(reached: Reached) -> Iterator[None]:
    """Its source has gone on."""

    def forgetful(self: AsyncWaitOperator, checkpoint_id: int, timestamp_ms: int) -> OperatorSnapshot | None:
        if self._backlog:
            reached()
        return _snapshot_of(self, list(self._queue.requests()))

    with replaced(AsyncWaitOperator, "snapshot", forgetful):
        yield


@mutant(
    id="watermark-passes-requests",
    breaks="exactly_once",
    summary="a watermark does not wait for the requests of the values before it",
    families=FAMILIES,
)
def watermark_passes_requests(reached: Reached) -> Iterator[None]:
    """Their results are late."""

    def eager(self: AsyncWaitOperator, timestamp: int) -> list[Record]:
        if len(self._queue):
            reached()
        self._downstream.watermark(timestamp)
        return []

    with replaced(AsyncWaitOperator, "process_watermark", eager):
        yield
