"""Mutants of the times that results carry, of what ends or expires unnoticed, and of targets that refuse."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Final

from onceproof.engine.connectors.kafka.kafka_errors import TransactionLost
from onceproof.engine.connectors.kafka.row_producer import RowProducer
from onceproof.engine.connectors.kafka.transaction_function import (
    KafkaTransactionFunction,
    PlaceOfTransaction,
    lost_rows,
)
from onceproof.engine.connectors.kafka.transactions import CommitAnswer, TransactionHandle
from onceproof.engine.connectors.write_ahead import GenericWriteAheadSink, PendingBatch
from onceproof.engine.elements import Record
from onceproof.engine.operators.async_wait import AsyncWaitOperator
from onceproof.engine.operators.firing import TimerFiring
from onceproof.engine.operators.interval_join import IntervalJoinOperator
from onceproof.engine.operators.window import WindowOperator
from onceproof.engine.state.timers import TimerQueue
from onceproof.engine.state.ttl_states import TtlValueState
from onceproof.engine.timer_service import TimeDomain
from onceproof.engine.windows.merging import MergingWindowSet
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant

CACHED_VALUES: Final = 1000
"""PyFlink's default of python.state.cache-size."""


@mutant(
    id="expired-values-live-on-in-a-cache",
    origin="FLINK-24105",
    breaks="exactly_once",
    summary="a value that was read or written lately comes out of a cache, which knows no time to live",
)
def expired_values_live_on_in_a_cache(reached: Reached) -> Iterator[None]:
    """The cache stands in front of the state that expires."""
    read, update, clear = TtlValueState.value, TtlValueState.update, TtlValueState.clear
    cache: OrderedDict[tuple[int, Any], tuple[TtlValueState, Any]] = OrderedDict()

    def keep(state: TtlValueState, value: Any) -> None:
        place = id(state), state._entry()
        cache.pop(place, None)
        if value is not None:
            cache[place] = state, value
        if len(cache) > CACHED_VALUES:
            cache.popitem(last=False)

    def cached(self: TtlValueState) -> Any:
        entry = self._entry()
        known = cache.get((id(self), entry))
        if known is None or known[0] is not self:
            value = read(self)
            keep(self, value)
            return value
        held = self._table.get(entry)
        if held is None or self._life.has_expired(held):
            reached()
        return known[1]

    def written(self: TtlValueState, value: Any) -> None:
        update(self, value)
        keep(self, value)

    def cleared(self: TtlValueState) -> None:
        clear(self)
        keep(self, None)

    with (
        replaced(TtlValueState, "value", cached),
        replaced(TtlValueState, "update", written),
        replaced(TtlValueState, "clear", cleared),
    ):
        yield


@mutant(
    id="results-of-processing-timers-carry-processing-time",
    origin="FLINK-7388",
    breaks="exactly_once",
    summary="what a timer in processing time emits has the time of the timer for its event time",
)
def results_of_processing_timers_carry_processing_time(reached: Reached) -> Iterator[None]:
    """The two time domains have nothing to do with each other."""
    fire = TimerFiring.fire

    def stamped(self: TimerFiring, queue: TimerQueue, limit: int, domain: TimeDomain) -> list[Record]:
        if domain is TimeDomain.EVENT_TIME:
            return fire(self, queue, limit, domain)
        on_timer = self._on_timer
        times: list[int] = []

        def noting(timestamp: int, context: Any) -> list[Any]:
            emitted = list(on_timer(timestamp, context) or ())
            times.extend([timestamp] * len(emitted))
            return emitted

        self._on_timer = noting
        try:
            results = fire(self, queue, limit, domain)
        finally:
            self._on_timer = on_timer
        if results:
            reached()
        return [(value, timestamp) for (value, _), timestamp in zip(results, times, strict=True)]

    with replaced(TimerFiring, "fire", stamped):
        yield


@mutant(
    id="late-session-stays-among-the-windows",
    origin="FLINK-4134",
    breaks="exactly_once",
    summary="the window of a late record stays among those of its key, and later records merge with it",
)
def late_session_stays_among_the_windows(reached: Reached) -> Iterator[None]:
    """It is empty, and has no timer that would remove it."""
    add_and_merge, retire, check = (
        WindowOperator.add_and_merge,
        MergingWindowSet.retire,
        WindowOperator._check_merged,
    )
    adding: list[WindowOperator] = []

    def keeping(
        self: WindowOperator, value: Any, timestamp: int | None, windows: Any, results: list[Record]
    ) -> bool:
        adding.append(self)
        try:
            return add_and_merge(self, value, timestamp, windows, results)
        finally:
            adding.pop()

    def unless_adding(self: MergingWindowSet, window: Any) -> None:
        if not adding:
            retire(self, window)
            return
        reached()

    def unless_late(self: WindowOperator, merged: Any) -> None:
        if not self._by_event_time:
            check(self, merged)

    with (
        replaced(WindowOperator, "add_and_merge", keeping),
        replaced(WindowOperator, "_check_merged", unless_late),
        replaced(MergingWindowSet, "retire", unless_adding),
    ):
        yield


@mutant(
    id="pair-carries-the-time-of-the-record-that-completes-it",
    origin="KAFKA-6455",
    breaks="exactly_once",
    summary="the results of a pair have the timestamp of the record that came last, not the later one",
)
def pair_carries_the_time_of_the_record_that_completes_it(reached: Reached) -> Iterator[None]:
    """It depends on the order of arrival in which window they are counted, and whether they are late."""
    join = IntervalJoinOperator.join

    def at_arrival(
        self: IntervalJoinOperator, value: Any, timestamp: int, side: int, results: list[Record]
    ) -> None:
        joined: list[Record] = []
        join(self, value, timestamp, side, joined)
        for result, later in joined:
            if later != timestamp:
                reached()
            results.append((result, timestamp))

    with replaced(IntervalJoinOperator, "join", at_arrival):
        yield


@mutant(
    id="input-ends-ahead-of-its-requests",
    origin="FLINK-13491",
    breaks="exactly_once",
    summary="the end of the input does not wait for requests, and their results are lost",
)
def input_ends_ahead_of_its_requests(reached: Reached) -> Iterator[None]:
    """The operator does not hear that its input ends."""
    finish = AsyncWaitOperator.finish

    def without_waiting(self: AsyncWaitOperator) -> list[Record]:
        if self._waits_in_place:
            return finish(self)
        if self._backlog or len(self._queue):
            reached()
        return []

    with (
        replaced(AsyncWaitOperator, "is_busy", property(lambda self: False)),
        replaced(AsyncWaitOperator, "finish", without_waiting),
    ):
        yield


@mutant(
    id="restored-transaction-without-rows-is-committed",
    origin="FLINK-31363",
    breaks="no_error",
    summary="a restore commits a transaction without rows, which never began at the broker, and fails",
)
def restored_transaction_without_rows_is_committed(reached: Reached) -> Iterator[None]:
    """Only the process that named it knows that it has no rows."""

    def asking_the_broker(self: KafkaTransactionFunction, transaction: list[Any]) -> None:
        if transaction[PlaceOfTransaction.ROWS]:
            self.commit(transaction)
            return
        reached()
        handle = TransactionHandle(*transaction[: PlaceOfTransaction.ROWS])
        answer = self._cluster().commit(handle)
        if answer is not CommitAnswer.COMMITTED:
            raise TransactionLost(lost_rows(transaction, answer))

    with replaced(KafkaTransactionFunction, "recover_and_commit", asking_the_broker):
        yield


@mutant(
    id="refused-batches-wait-in-reverse",
    origin="FLINK-24041",
    breaks="exactly_once",
    summary="batches that the target has not taken are put back one by one, so the newest is sent first",
    unseen="few targets refuse two batches of a subtask",
)
def refused_batches_wait_in_reverse(reached: Reached) -> Iterator[None]:
    """Each goes to the head of the queue, in front of the one before."""
    pending_batches, send_up_to = GenericWriteAheadSink.pending_batches, GenericWriteAheadSink._send_up_to

    def put_back(self: GenericWriteAheadSink) -> list[PendingBatch]:
        at_the_head = vars(self).get("put_back", ())
        first = [self._pending[place] for place in at_the_head if place in self._pending]
        return first + [batch for batch in pending_batches(self) if batch.place not in at_the_head]

    def putting_back(self: GenericWriteAheadSink, checkpoint_id: int, *, is_last: bool) -> None:
        due = [batch.place for batch in self.pending_batches() if batch.checkpoint_id <= checkpoint_id]
        try:
            send_up_to(self, checkpoint_id, is_last=is_last)
        finally:
            left = [place for place in due if place in self._pending]
            if len(left) > 1:
                reached()
            vars(self)["put_back"] = tuple(reversed(left))

    with (
        replaced(GenericWriteAheadSink, "pending_batches", put_back),
        replaced(GenericWriteAheadSink, "_send_up_to", putting_back),
    ):
        yield


@mutant(
    id="row-that-was-not-stored-is-forgotten",
    origin="FLINK-35749",
    breaks="exactly_once",
    summary="a row that Kafka reports as lost between two checkpoints is forgotten ahead of the next flush",
)
def row_that_was_not_stored_is_forgotten(reached: Reached) -> Iterator[None]:
    """The report ends in a future whose result is never asked for."""
    serve = RowProducer._serve

    def forgetting(self: RowProducer, call: Callable[[float], int], timeout_s: float) -> int:
        if getattr(call, "__name__", "") != "poll":
            return serve(self, call, timeout_s)
        left = call(timeout_s)
        if self._failure is not None:
            reached()
            self._failure = None
        return left

    with replaced(RowProducer, "_serve", forgetting):
        yield
