"""The operator of AsyncDataStream (Flink: AsyncWaitOperator).

The rules this module lives by:

- Not more than ``capacity`` values have requests or wait to be emitted. What comes beyond waits in the
  backlog, and the task takes no further records until that is empty. Nothing blocks the thread of the tasks,
  and a barrier waits only behind records that the task has not taken.
- Answers come back in the task's own thread: the requests wake the task, and it calls ``process_time``.
- The snapshot has every value that was not emitted, done or not, in the order of the input. After a restore
  all of them are asked for again, before any new value.
- A time-out covers all tries of a value. An answer that comes later belongs to nothing and is dropped.
- Watermarks wait in line with the values. At the end of the input the task waits for all results.
- Where the job is driven in epochs (Spark), a task lives for one epoch. There the operator waits in place:
  for room, before the barrier, and at the end. Its time is that of the machine then.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from onceproof.engine.async_functions import AsyncFunction, AsyncRetryStrategy
from onceproof.engine.elements import Record
from onceproof.engine.operators.async_queue import (
    OrderedQueue,
    Request,
    StreamElementQueue,
    UnorderedQueue,
)
from onceproof.engine.operators.async_requests import Answer, Requests
from onceproof.engine.operators.base import Downstream, FunctionOperator, OperatorContext
from onceproof.engine.state.descriptors import ListStateDescriptor
from onceproof.engine.state.operator import OperatorListState
from onceproof.engine.state.snapshot import OperatorSnapshot
from onceproof.engine.types import TypeInformation, Types
from onceproof.engine.types.wrapped import nullable
from onceproof.engine.wall_clock import WallClock

IN_FLIGHT: Final = "in-flight-requests"
_TIMES_OUT: Final = -1


class WrongResult(TypeError):
    """A request has not come to a list of results. The message is one line."""


class AsyncWaitOperator(FunctionOperator):
    """Emits the results of requests, in the order of the input or as they come."""

    uses_time = True
    passes_watermarks = False
    may_hold_input = True
    function: AsyncFunction

    def __init__(
        self,
        function: AsyncFunction,
        timeout_ms: int,
        capacity: int,
        strategy: AsyncRetryStrategy,
        is_ordered: bool,
        value_type: TypeInformation | None,
    ) -> None:
        super().__init__(function)
        self._timeout_ms = timeout_ms
        self._capacity = capacity
        self._strategy = strategy
        predicate = strategy.get_retry_predicate()
        self._retries_result = predicate.result_predicate()
        self._retries_error = predicate.exception_predicate()
        self._value_type = Types.DYNAMIC() if value_type is None else value_type
        self._queue: StreamElementQueue = OrderedQueue() if is_ordered else UnorderedQueue()
        self._backlog: deque[Request | int] = deque()
        """Values and watermarks behind those that fill the capacity."""
        self._running: dict[int, Request] = {}
        self._numbers = 0
        self._due: list[tuple[int, int, int, Request]] = []
        """A heap of times: when, a number, _TIMES_OUT or the tries after which to try again, and of what."""
        self._sequence = 0

    def open(self, context: OperatorContext) -> None:
        """Open the function, and make the requests of the restored values again."""
        assert context.downstream is not None
        self._downstream: Downstream = context.downstream
        self._waits_in_place = context.settled
        self._requests: Requests = context.requests(f"{context.task_name}-{context.subtask}", context.wake_up)
        self._clock = self._requests.now_ms if context.settled else context.steady_clock
        self._store = context.operator_store()
        element_type = Types.TUPLE([self._value_type, nullable(Types.LONG())])
        self._state: OperatorListState = self._store.get_list_state(
            ListStateDescriptor(IN_FLIGHT, element_type)
        )
        super().open(context)
        for value, timestamp in list(self._state.get()):
            self._take_in(Request(value, timestamp))
        self._wake_later()

    # What the task asks.

    @property
    def holds_input(self) -> bool:
        """Return whether the task must take no further records now."""
        return bool(self._backlog)

    @property
    def is_busy(self) -> bool:
        """Return whether the end of the input must wait for results."""
        return not self._waits_in_place and bool(self._backlog or len(self._queue))

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        for value, timestamp in records:
            self._take_in(Request(value, timestamp))
        if self._waits_in_place:
            while self._backlog:
                self._wait()
        self._wake_later()
        return []

    def process_watermark(self, timestamp: int) -> list[Record]:
        """Put the watermark behind the values that came before it."""
        if self._backlog:
            self._backlog.append(timestamp)
        else:
            self._queue.add_watermark(timestamp)
            self._emit()
        return []

    def process_time(self, now: int) -> list[Record]:
        """Take answers, look what is due, and emit what is done."""
        self._advance()
        self._wake_later()
        return []

    def next_due_ms(self, wall_clock: WallClock) -> int | None:
        """Return when a value times out or is tried again; None also where the operator waits in place."""
        return self._due[0][0] if self._due and not self._waits_in_place else None

    def prepare_snapshot(self, checkpoint_id: int) -> list[Record]:
        self._wait_for_all()
        return []

    def finish(self) -> list[Record]:
        self._wait_for_all()
        assert not self._backlog, "the input ends before all values have results"
        assert not len(self._queue), "the input ends before all results are emitted"
        return []

    def snapshot(self, checkpoint_id: int, timestamp_ms: int) -> OperatorSnapshot | None:
        waiting = [*self._queue.requests(), *(each for each in self._backlog if isinstance(each, Request))]
        self._state.update([(request.value, request.timestamp) for request in waiting])
        return super().snapshot(checkpoint_id, timestamp_ms)

    def close(self) -> None:
        try:
            self._requests.close()
        finally:
            super().close()

    # Requests.

    def _take_in(self, request: Request) -> None:
        if self._backlog or len(self._queue) >= self._capacity:
            self._backlog.append(request)
        else:
            self._begin(request)

    def _begin(self, request: Request) -> None:
        self._queue.add(request)
        if self._timeout_ms > 0:
            self._at(self._clock() + self._timeout_ms, _TIMES_OUT, request)
        self._try(request)

    def _try(self, request: Request) -> None:
        self._numbers += 1
        request.number = self._numbers
        request.tries += 1
        self._running[request.number] = request
        self._requests.start(request.number, self.function.async_invoke(request.value))

    def _at(self, due_ms: int, what: int, request: Request) -> None:
        self._sequence += 1
        heapq.heappush(self._due, (due_ms, self._sequence, what, request))

    def _advance(self, answer: Answer | None = None) -> None:
        answer = answer or self._requests.take()
        while answer is not None:
            self._answered(answer)
            answer = self._requests.take()
        now = self._clock()
        while self._due and self._due[0][0] <= now:
            _, _, what, request = heapq.heappop(self._due)
            if request.results is not None:
                continue
            if what is _TIMES_OUT:
                self._times_out(request)
            elif request.number == 0 and what == request.tries:
                self._try(request)
        self._emit()

    def _answered(self, answer: Answer) -> None:
        request = self._running.pop(answer.number, None)
        if request is None:
            return
        request.number = 0
        error = answer.error
        if self._is_tried_again(request, answer):
            backoff_ms = self._strategy.get_backoff_time_millis(request.tries)
            self._at(self._clock() + backoff_ms, request.tries, request)
        elif error is not None:
            raise error
        else:
            self._done(request, answer.result, "async_invoke")

    def _is_tried_again(self, request: Request, answer: Answer) -> bool:
        error = answer.error
        if error is None:
            decides: Any = self._retries_result
            found = decides is not None and decides(answer.result)
        else:
            decides = self._retries_error
            found = decides is not None and isinstance(error, Exception) and decides(error)
        return found and self._strategy.can_retry(request.tries)

    def _times_out(self, request: Request) -> None:
        if request.number:
            del self._running[request.number]
            self._requests.cancel(request.number)
            request.number = 0
        self._done(request, self.function.timeout(request.value), "timeout")

    def _done(self, request: Request, results: Iterable[Any], method: str) -> None:
        if isinstance(results, str | bytes) or not isinstance(results, Iterable):
            raise WrongResult(
                f"{method} of {type(self.function).__name__} returned {results!r}: return a list of results"
            )
        request.results = list(map(self._own, results))
        self._queue.done(request)

    # Results.

    def _emit(self) -> None:
        """Emit what is done, and begin what waits for room, until neither is possible."""
        while True:
            self._emit_done()
            backlog = self._backlog
            if not backlog or len(self._queue) >= self._capacity:
                return
            while backlog and (len(self._queue) < self._capacity or not isinstance(backlog[0], Request)):
                first = backlog.popleft()
                if isinstance(first, Request):
                    self._begin(first)
                else:
                    self._queue.add_watermark(first)

    def _emit_done(self) -> None:
        batch: list[Record] = []
        for entry in self._queue.take():
            if isinstance(entry, Request):
                assert entry.results is not None
                batch += [(result, entry.timestamp) for result in entry.results]
                continue
            if batch:
                self._downstream.emit(batch)
                batch = []
            self._downstream.watermark(entry)
        if batch:
            self._downstream.emit(batch)

    # Waiting.

    def _wake_later(self) -> None:
        if self._due and not self._waits_in_place:
            self._downstream.wake_at_steady(self._due[0][0])

    def _wait_for_all(self) -> None:
        while self._waits_in_place and (self._backlog or len(self._queue)):
            self._wait()

    def _wait(self) -> None:
        seconds = max(0, self._due[0][0] - self._clock()) / 1000 if self._due else None
        self._advance(self._requests.wait(seconds))
