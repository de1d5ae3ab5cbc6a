"""The furthest watermarks of a job, from its strategies."""

from __future__ import annotations

from typing import Any

import pytest

from onceproof.engine.durations import Duration
from onceproof.engine.elements import Watermark
from onceproof.engine.watermarks.generators import WatermarkGenerator, WatermarkOutput
from onceproof.engine.watermarks.strategy import TimestampAssigner, WatermarkStrategy
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.watermarks import MAX_WATERMARK, NO_WATERMARK, Timed, strategies_of

RECORDS = ((10, "a"), (30, "b"), (20, "c"))


def furthest(strategy: WatermarkStrategy) -> list[int]:
    return Timed(strategy, is_of_one_split=True).watermarks(RECORDS)


class Punctuated(WatermarkGenerator):
    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        if event == "b":
            output.emit_watermark(Watermark(event_timestamp))

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


class Tenfold(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return 10 * record_timestamp


def test_a_bounded_strategy_is_its_bound_behind_the_newest_record() -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5))
    assert furthest(strategy) == [NO_WATERMARK, 4, 24, 24]


def test_timestamps_are_those_that_the_strategy_assigns() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Tenfold())
    assert furthest(strategy) == [NO_WATERMARK, 99, 299, 299]


def test_a_generator_of_the_user_is_asked() -> None:
    strategy = WatermarkStrategy.for_generator(lambda context: Punctuated())
    assert furthest(strategy) == [NO_WATERMARK, NO_WATERMARK, 30, 30]


def test_a_job_without_watermarks_has_none() -> None:
    assert furthest(WatermarkStrategy.no_watermarks()) == [NO_WATERMARK] * 4


@pytest.mark.parametrize("name", ["window_sum", "sessions", "late_readings", "interval_join", "nexmark_q7"])
def test_the_strategy_of_a_job_is_found_without_building_it(name: str) -> None:
    strategies = strategies_of(load_family(name), {}, {})
    assert strategies is not None
    (found,) = set(strategies)
    assert found.strategy.bound_ms is not None
    assert found.is_of_one_split


def test_a_split_that_may_be_idle_may_be_overtaken_at_any_time() -> None:
    idle = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_millis(5))
    assert furthest(idle) == [MAX_WATERMARK] * 4


def test_a_split_whose_generator_marks_it_idle_may_be_overtaken_from_then_on() -> None:
    class Pausing(Punctuated):
        def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
            super().on_event(event, event_timestamp, output)
            if event == "b":
                output.mark_idle()

    strategy = WatermarkStrategy.for_generator(lambda context: Pausing())
    assert furthest(strategy) == [NO_WATERMARK, NO_WATERMARK, MAX_WATERMARK, MAX_WATERMARK]


def test_strategies_behind_a_source_have_watermarks_of_other_splits() -> None:
    class Job:
        def job(self, env: Any, io: Any) -> None:
            numbers = env.from_source(io.source("numbers"), None, "numbers").name("numbers")
            numbers.assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks())

    family: Any = Job()
    strategies = strategies_of(family, {}, {})
    assert strategies is not None
    assert [found.is_of_one_split for found in strategies] == [False]


def test_the_strategies_of_a_job_that_asks_its_streams_for_more_are_not_known() -> None:
    class Job:
        def job(self, env: Any, io: Any) -> None:
            int(env.from_source(io.source("numbers"), None, "numbers"))

    family: Any = Job()
    assert strategies_of(family, {}, {}) is None


def test_strategies_whose_functions_fail_on_the_records_are_not_known() -> None:
    class Job:
        def job(self, env: Any, io: Any) -> None:
            strategy = WatermarkStrategy.for_generator(lambda context: Third())
            env.from_source(io.source("numbers"), strategy, "numbers")

    class Third(Punctuated):
        def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
            output.emit_watermark(Watermark(event[2]))

    family: Any = Job()
    assert strategies_of(family, {}, {"numbers": RECORDS}) is None
