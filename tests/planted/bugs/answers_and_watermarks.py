"""Mutants of requests: time-outs between two tries, and watermarks beside restored requests."""

from __future__ import annotations

from collections.abc import Iterator

from onceproof.engine.operators.async_queue import Request, UnorderedQueue
from onceproof.engine.operators.async_wait import AsyncWaitOperator
from onceproof.engine.operators.base import OperatorContext
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="time-out-between-two-tries-drops-the-value",
    origin="FLINK-40456",
    breaks="liveness",
    summary="a time-out while a value waits for another try ends the tries and has no result",
)
def time_out_between_two_tries_drops_the_value(reached: Reached) -> Iterator[None]:
    """Each of the two leaves the value to the other, and it is never emitted."""
    times_out = AsyncWaitOperator._times_out

    def leaving_it(self: AsyncWaitOperator, request: Request) -> None:
        if request.number:
            times_out(self, request)
            return
        reached()
        # No try that waits has this number any more.
        request.tries += 1

    with replaced(AsyncWaitOperator, "_times_out", leaving_it):
        yield


@mutant(
    id="restored-requests-hold-no-watermark-back",
    origin="hazelcast#23271",
    breaks="exactly_once",
    summary="watermarks overtake the requests that were restored, as these are not counted",
)
def restored_requests_hold_no_watermark_back(reached: Reached) -> Iterator[None]:
    """Their results are late behind it."""
    open_operator, take = AsyncWaitOperator.open, UnorderedQueue.take
    restored: set[Request] = set()

    def counting_none(self: AsyncWaitOperator, context: OperatorContext) -> None:
        open_operator(self, context)
        restored.update(self._queue.requests())
        restored.update([each for each in self._backlog if isinstance(each, Request)])

    def overtaking(self: UnorderedQueue) -> Iterator[Request | int]:
        for segment, behind in zip(list(self._segments), list(self._segments)[1:], strict=False):
            waiting = [each for each in segment.requests if each.results is None]
            if not all(each in restored for each in waiting):
                break
            if waiting:
                reached()
            for each in waiting:
                del segment.requests[each]
                each.segment = behind
            behind.requests = {**dict.fromkeys(waiting), **behind.requests}
        yield from take(self)

    with (
        replaced(AsyncWaitOperator, "open", counting_none),
        replaced(UnorderedQueue, "take", overtaking),
    ):
        yield
