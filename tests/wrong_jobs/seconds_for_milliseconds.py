"""The time of an order is assigned in seconds, where milliseconds are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import (
    Duration,
    KeyedProcessFunction,
    MapStateDescriptor,
    RuntimeContext,
    TimestampAssigner,
    Types,
    WatermarkStrategy,
)
from tests.wrong_jobs.family import MINUTE, ROW, WrongJob, by_minute

NAMED = "in the wrong unit"


class InSeconds(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return record_timestamp // 1000  # wrong


class Minutes(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = MapStateDescriptor("cents", Types.LONG(), Types.LONG())
        self.cents = runtime_context.get_map_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> None:
        minute = ctx.timestamp() // MINUTE
        self.cents.put(minute, (self.cents.get(minute) or 0) + value[2])
        ctx.timer_service().register_event_time_timer((minute + 1) * MINUTE - 1)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        minute = timestamp // MINUTE
        yield ctx.get_current_key(), minute, self.cents.get(minute)
        self.cents.remove(minute)


def build(orders: Any) -> Any:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_days(1))
    timed = orders.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(InSeconds()))
    return timed.key_by(lambda order: order[1], Types.STRING()).process(Minutes(), ROW)


family = WrongJob(
    "seconds_for_milliseconds", build, by_minute, held_back=True, vertices=("Timestamps/Watermarks", "work")
)
