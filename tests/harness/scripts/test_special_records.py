"""The records of a script get extreme values and times at boundaries, as far as its job takes them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.trials.trial import scenario_of, try_scenario

SCENARIOS = 120
SIZE_MS = 60_000
BOUND_MS = 1_000

WINDOWS = """
from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.window import TumblingEventTimeWindows

ORDERS = [("ada", 5, 10_000), ("bob", 3, 20_000), ("ada", 4, 70_000), ("ada", 1, 200_000)]


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


env = StreamExecutionEnvironment.get_execution_environment()
orders = env.from_collection(ORDERS, Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]))
strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
timed = orders.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(Second()))
windows = timed.key_by(lambda order: order[0]).window(TumblingEventTimeWindows.of(Time.minutes(1)))
windows.reduce(lambda one, other: (one[0], one[1] + other[1], one[2])).print()
env.execute()
"""
UNTYPED = """
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_collection(NUMBERS, TYPE)
numbers.flat_map(FUNCTION).print()
env.execute()
"""


def loaded(tmp_path: Path, text: str, **names: str) -> Family:
    for name, value in names.items():
        text = text.replace(name.upper(), value)
    path = tmp_path / "job.py"
    path.write_text(text, encoding="utf-8")
    return load_family(str(path))


def drawn(family: Family) -> Iterator[list[Any]]:
    """Yield the values of each split of some scenarios."""
    for seed in range(SCENARIOS):
        for records in scenario_of(family, seed).records.values():
            yield [value for _, value in records]


def test_cells_take_the_extremes_of_their_declared_types(tmp_path: Path) -> None:
    rows = [row for values in drawn(loaded(tmp_path, WINDOWS)) for row in values]
    assert {0, -1, -(2**31), 2**31 - 1} <= {row[1] for row in rows}
    names = {row[0] for row in rows}
    assert {"", None} <= names
    assert max(len(name) for name in names if name) == 300


def test_times_reach_the_boundaries_of_windows_and_none_is_late(tmp_path: Path) -> None:
    seen = set()
    went_back = 0
    for values in drawn(loaded(tmp_path, WINDOWS)):
        latest = 0
        for _, _, time in values:
            assert time >= latest - BOUND_MS
            went_back += time < latest
            latest = max(latest, time)
            seen.add((time + 1) % SIZE_MS)
    assert {0, 1, 2} <= seen
    assert went_back > 0


def test_sound_windows_pass_with_special_records(tmp_path: Path) -> None:
    family = loaded(tmp_path, WINDOWS)
    for seed in range(40):
        trial = try_scenario(family, scenario_of(family, seed))
        assert trial.verdict.passed, (seed, trial.verdict.violations)


def test_values_on_which_the_job_fails_by_itself_are_not_tried(tmp_path: Path) -> None:
    family = loaded(
        tmp_path, UNTYPED, numbers="[5, 2, 1]", type="Types.INT()", function="lambda number: [8 // number]"
    )
    numbers = {value for values in drawn(family) for value in values}
    assert 0 not in numbers
    assert {-1, 2**31 - 1} <= numbers


def test_number_of_repetitions_does_not_become_huge(tmp_path: Path) -> None:
    family = loaded(tmp_path, UNTYPED, numbers="[5, 2, 1]", type="Types.INT()", function="range")
    assert {value for values in drawn(family) for value in values} == {5, 2, 1}


def test_time_made_of_several_cells_leaves_the_records_as_they_are(tmp_path: Path) -> None:
    family = loaded(tmp_path, WINDOWS.replace("return value[2]", "return value[2] + value[1]"))
    assert {row for values in drawn(family) for row in values} == {
        ("ada", 5, 10_000),
        ("bob", 3, 20_000),
        ("ada", 4, 70_000),
        ("ada", 1, 200_000),
    }


DUE_IN_WINDOWS = """        start = ctx.timestamp() // 7_000 * 7_000
        self.counts.put(start, (self.counts.get(start) or 0) + 1)
        ctx.timer_service().register_event_time_timer(start + 6_999)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, self.counts.get(timestamp - 6_999)
        self.counts.remove(timestamp - 6_999)
"""
DUE_AFTER_SILENCE = """        due = ctx.timestamp() + 8_000
        self.counts.put(0, due)
        ctx.timer_service().register_event_time_timer(due)

    def on_timer(self, timestamp, ctx):
        if timestamp == self.counts.get(0):
            yield ctx.get_current_key(), timestamp
"""
TIMERS = """
from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import MapStateDescriptor

CLICKS = [("ann", 1_000), ("bob", 2_500), ("ann", 14_000), ("bob", 29_000), ("cid", 31_000), ("ann", 60_000)]


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Clicks(KeyedProcessFunction):
    def open(self, runtime_context):
        self.counts = runtime_context.get_map_state(MapStateDescriptor("counts", Types.LONG(), Types.LONG()))

    def process_element(self, click, ctx):
BODY


env = StreamExecutionEnvironment.get_execution_environment()
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
clicks = env.from_collection(CLICKS, Types.TUPLE([Types.STRING(), Types.LONG()]))
timed = clicks.assign_timestamps_and_watermarks(strategy)
timed.key_by(lambda click: click[0], Types.STRING()).process(Clicks()).print()
env.execute()
"""


def steps_between(family: Family) -> set[int]:
    """Return by how much event time moves on from one record to the next."""
    times = [[value[1] for value in values] for values in drawn(family)]
    return {later - earlier for each in times for earlier, later in pairwise(each)}


def test_times_come_as_timers_are_due_where_that_is_determined(tmp_path: Path) -> None:
    family = loaded(tmp_path, TIMERS, body=DUE_IN_WINDOWS)
    times = {value[1] for values in drawn(family) for value in values}
    assert {0, 1, 6_999} <= {time % 7_000 for time in times}
    for seed in range(20):
        trial = try_scenario(family, scenario_of(family, seed))
        assert trial.verdict.passed, (seed, trial.verdict.violations)


def test_times_stay_where_watermarks_decide_whether_a_timer_was_due(tmp_path: Path) -> None:
    family = loaded(tmp_path, TIMERS, body=DUE_AFTER_SILENCE)
    assert not {7_999, 8_000, 8_001} & steps_between(family)


LIFETIME_MS = 40 * 3_600_000
REMEMBERED = """
from pyflink.common import Time, Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import StateTtlConfig, ValueStateDescriptor


class First(KeyedProcessFunction):
    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("seen", Types.BOOLEAN())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(40)).build())
        self.seen = runtime_context.get_state(descriptor)

    def process_element(self, number, ctx):
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + 7_000)
        if not self.seen.value():
            self.seen.update(True)
            yield number

    def on_timer(self, timestamp, ctx):
        pass


env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2, 1, 3, 2]).key_by(lambda number: number, Types.INT()).process(First()).print()
env.execute()
"""


def test_clock_jumps_by_lifetimes_and_waits_of_timers_and_none_is_accused(tmp_path: Path) -> None:
    family = loaded(tmp_path, REMEMBERED)
    jumps = set()
    for seed in range(SCENARIOS):
        scenario = scenario_of(family, seed)
        jumps |= {fault.delay for fault in scenario.faults if fault.kind == "clock_ahead"}
        if any(fault.delay >= LIFETIME_MS - 1 for fault in scenario.faults):
            trial = try_scenario(family, scenario)
            assert trial.verdict.passed, (seed, trial.verdict.violations)
    for wait in (LIFETIME_MS, 7_000):
        assert {wait - 1, wait, wait + 1} <= jumps
