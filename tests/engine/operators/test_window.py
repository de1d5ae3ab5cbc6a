"""The window operator, in cases that the conformance vectors do not cover."""

from __future__ import annotations

import pytest

from onceproof.engine.api.adapters import CallableReduce
from onceproof.engine.elements import MAX_WATERMARK
from onceproof.engine.operators.window import MergedTooLate, WindowOperator
from onceproof.engine.operators.window_parts import WindowFunctions, WindowSettings
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from onceproof.engine.types import Types
from onceproof.engine.windows.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from onceproof.engine.windows.evictors import CountEvictor, TimeEvictor
from onceproof.engine.windows.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerResult,
)
from onceproof.engine.windows.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from onceproof.engine.windows.windows import TimeWindow, TimeWindowSerializer
from tests.engine.counting import Sum

MAX_PARALLELISM = 8
LATE = "late"


class Tell(ProcessWindowFunction):
    """Emits the window, the key and the elements."""

    def process(self, key, context, elements):
        window = context.window()
        yield key, (window.start, window.end), list(elements)


def operator(assigner, trigger=None, fold=None, function=None, **how):
    settings = WindowSettings(
        assigner=assigner,
        trigger=trigger or assigner.get_default_trigger(None),
        key_selector=lambda value: value[0],
        key_type=Types.STRING(),
        value_type=Types.TUPLE([Types.STRING(), Types.LONG()]),
        accumulator_type=Types.LONG(),
        **how,
    )
    return WindowOperator(WindowFunctions(fold, function), settings)


def tumbling(**how):
    how = {"fold": Sum(), "function": Tell(), **how}
    return operator(TumblingEventTimeWindows(10), **how)


def feed(tested, *pairs):
    """Records (key, number, timestamp)."""
    return tested.process_batch([((key, number), timestamp) for key, number, timestamp in pairs], 0)


def values(records):
    return [value for value, _ in records]


def tables(tested):
    """Return all entries of each state."""
    return [list(registered.table) for registered in tested._keyed._registered.values()]


# Functions.


def test_windows_can_be_worked_out_by_each_kind_of_function(bench):
    class Apply(WindowFunction):
        def apply(self, key, window, inputs):
            return [(key, window.start, list(inputs))]

    class ApplyAll(AllWindowFunction):
        def apply(self, window, inputs):
            return [(window.start, list(inputs))]

    class ProcessAll(ProcessAllWindowFunction):
        def process(self, context, elements):
            yield context.window().start, context.current_watermark(), list(elements)

    records = [("a", 1, 3), ("a", 2, 4)]
    pairs = [("a", 1), ("a", 2)]
    for function, fold, expected in [
        (Apply(), None, ("a", 0, pairs)),
        (Apply(), Sum(), ("a", 0, [3])),
        (ApplyAll(), None, (0, pairs)),
        (ProcessAll(), None, (0, 9, pairs)),
        (ProcessAll(), Sum(), (0, 9, [3])),
        (None, Sum(), 3),
    ]:
        tested = bench.open(tumbling(fold=fold, function=function))
        feed(tested, *records)
        assert tested.process_watermark(9) == [(expected, 9)]


def test_both_functions_are_opened_and_closed(bench):
    calls = []

    class Folding(Sum):
        def open(self, runtime_context):
            calls.append(("open fold", runtime_context.get_task_name()))

        def close(self):
            calls.append("close fold")

    class Telling(Tell):
        def open(self, runtime_context):
            calls.append(("open", self.get_runtime_context() is runtime_context))

        def close(self):
            calls.append("close")

    tested = bench.open(tumbling(fold=Folding(), function=Telling()))
    tested.close()
    assert calls == [("open", True), ("open fold", "work"), "close", "close fold"]


class Memory(ProcessWindowFunction):
    """Counts how often a window fired, and how often any window of its key."""

    window_state = ValueStateDescriptor("of the window", Types.LONG())
    key_state = ListStateDescriptor("of the key", Types.LONG())

    def process(self, key, context, elements):
        here = context.window_state().get_state(self.window_state)
        everywhere = context.global_state().get_list_state(self.key_state)
        here.update((here.value() or 0) + 1)
        everywhere.add(context.window().start)
        yield key, here.value(), everywhere.get()

    def clear(self, context):
        context.window_state().get_state(self.window_state).clear()


def test_a_process_function_keeps_state_for_each_window_and_for_all_of_a_key(bench):
    tested = bench.open(tumbling(fold=None, function=Memory(), allowed_lateness_ms=5))
    feed(tested, ("a", 1, 3), ("a", 2, 13))
    assert values(tested.process_watermark(11)) == [("a", 1, [0])]
    assert values(feed(tested, ("a", 3, 4))) == [("a", 2, [0, 0])], "late, and allowed to be"
    assert tested.process_watermark(14) == []
    assert values(tested.process_watermark(19)) == [("a", 1, [0, 0, 10])]
    window_state = tested._keyed.table(Memory.window_state, TimeWindowSerializer.window_type)
    assert list(window_state) == [("a", (10, 20))], "cleared with its window"


def test_state_of_a_window_that_may_merge_is_refused(bench):
    tested = bench.open(operator(EventTimeSessionWindows(5), function=Memory()))
    feed(tested, ("a", 1, 3))
    with pytest.raises(TypeError, match="keep it in global_state"):
        tested.process_watermark(99)


def test_window_functions_have_side_outputs(bench):
    tag = OutputTag("small")

    class Sorting(ProcessWindowFunction):
        def process(self, key, context, elements):
            for _, number in elements:
                yield (tag, number) if number < 5 else number

    bench.side["small"] = []
    tested = bench.open(tumbling(fold=None, function=Sorting()))
    feed(tested, ("a", 1, 3), ("a", 7, 4))
    assert tested.process_watermark(9) == [(7, 9)]
    assert bench.side["small"] == [(1, 9)]


# Late records.


def test_late_records_without_reader_are_counted(bench):
    tested = bench.open(tumbling())
    tested.process_watermark(45)
    assert feed(tested, ("a", 1, 3), ("a", 2, 41), ("a", 3, 55)) == []
    assert tested.late_records_dropped == 1, "41 is behind the watermark, too, but its window still lives"


def test_late_records_keep_their_timestamp_in_the_side_output(bench):
    bench.side[LATE] = []
    tested = bench.open(tumbling(late_tag=LATE))
    tested.process_watermark(50)
    feed(tested, ("a", 1, 3))
    assert bench.side[LATE] == [(("a", 1), 3)]
    assert tested.late_records_dropped == 0


# Processing time.


def test_windows_of_processing_time_are_worked_out_when_their_time_is_over(bench):
    bench.now = 3
    tested = bench.open(operator(TumblingProcessingTimeWindows(10), fold=Sum(), function=Tell()))
    feed(tested, ("a", 1, 1000))
    bench.now = 9
    feed(tested, ("a", 2, -1000))
    assert min(bench.behind.wishes) == 9
    assert tested.process_watermark(MAX_WATERMARK) == []
    assert tested.process_time(9) == [(("a", (0, 10), [3]), 9)]
    assert tested.process_time(20) == []
    bench.now = 15
    feed(tested, ("a", 5, None))
    bench.now = 40
    assert values(tested.process_time(40)) == [("a", (10, 20), [5])]
    assert all(not table for table in tables(tested))


def test_sessions_of_processing_time_grow_with_each_arrival(bench):
    tested = bench.open(operator(ProcessingTimeSessionWindows(10), fold=Sum(), function=Tell()))
    for bench.now in (0, 7, 14, 30):
        feed(tested, ("a", 1, None))
    assert values(tested.process_time(22)) == []
    assert values(tested.process_time(23)) == [("a", (0, 24), [3])]
    assert values(tested.process_time(39)) == [("a", (30, 40), [1])]
    assert all(not table for table in tables(tested))


def test_windows_of_processing_time_continue_after_a_restore(bench):
    def make():
        return operator(TumblingProcessingTimeWindows(10), fold=Sum(), function=Tell())

    (tested,) = bench.open_all(make, 1)
    feed(tested, ("a", 1, None), ("b", 2, None))
    bench.behind.wishes.clear()
    restored = bench.restore_all([tested], make, 3)
    assert set(bench.behind.wishes) == {9}
    fired = [value for each in restored for value in values(each.process_time(25))]
    assert sorted(fired) == [("a", (0, 10), [1]), ("b", (0, 10), [2])]


# Triggers.


def test_purging_trigger_emits_only_new_records(bench):
    trigger = PurgingTrigger.of(CountTrigger.of(2))
    tested = bench.open(tumbling(trigger=trigger))
    emitted = feed(tested, *[("a", number, 3) for number in range(1, 6)])
    assert values(emitted) == [("a", (0, 10), [3]), ("a", (0, 10), [7])]
    assert tested.process_watermark(9) == [], "what is left is dropped with the window"
    assert all(not table for table in tables(tested))


def test_counts_are_added_when_windows_merge(bench):
    tested = bench.open(
        operator(EventTimeSessionWindows(5), trigger=CountTrigger.of(4), fold=Sum(), function=Tell())
    )
    assert feed(tested, ("a", 1, 0), ("a", 1, 1), ("a", 1, 8)) == []
    assert values(feed(tested, ("a", 1, 4))) == [("a", (0, 13), [4])]
    assert tested.process_watermark(MAX_WATERMARK) == []
    assert all(not table for table in tables(tested))


def test_a_continuous_trigger_fires_at_multiples_of_its_interval_and_at_the_end(bench):
    tested = bench.open(tumbling(trigger=ContinuousEventTimeTrigger(4)))
    feed(tested, ("a", 1, 1))
    assert values(tested.process_watermark(4)) == [("a", (0, 10), [1])]
    feed(tested, ("a", 2, 6))
    assert values(tested.process_watermark(7)) == []
    assert values(tested.process_watermark(8)) == [("a", (0, 10), [3])]
    assert values(tested.process_watermark(30)) == [("a", (0, 10), [3])]
    assert all(not table for table in tables(tested))


def test_continuous_trigger_continues_when_windows_merge(bench):
    tested = bench.open(
        operator(
            EventTimeSessionWindows(6),
            trigger=ContinuousEventTimeTrigger(5),
            fold=Sum(),
            function=Tell(),
        )
    )
    feed(tested, ("a", 1, 1), ("a", 1, 6))
    assert values(tested.process_watermark(5)) == [("a", (1, 12), [2])]
    assert values(tested.process_watermark(10)) == [("a", (1, 12), [2])]
    assert values(tested.process_watermark(11)) == [("a", (1, 12), [2])]
    assert all(not table for table in tables(tested))


def test_a_continuous_trigger_of_processing_time_fires_at_multiples_of_its_interval(bench):
    trigger = ContinuousProcessingTimeTrigger(10)
    tested = bench.open(operator(GlobalWindows.create(), trigger=trigger, fold=Sum(), function=None))
    bench.now = 13
    feed(tested, ("a", 1, None))
    assert tested.process_time(19) == []
    assert values(tested.process_time(20)) == [1]
    feed(tested, ("a", 2, None))
    assert values(tested.process_time(33)) == [3]


def test_continuous_trigger_fires_once_behind_the_end_by_the_wall_clock(bench):
    trigger = ContinuousProcessingTimeTrigger(10)
    assigner = TumblingEventTimeWindows(20)
    tested = bench.open(operator(assigner, trigger=trigger, fold=Sum(), function=None))
    bench.now = 1000
    feed(tested, ("a", 1, 5))
    assert values(tested.process_time(1000)) == [1]
    assert tested.process_time(2000) == []
    feed(tested, ("a", 2, 6))
    assert values(tested.process_time(2000)) == [3]


class AtTwoTimes(Trigger):
    """Fires a window at its middle and at its end, and keeps whether it has."""

    done = ValueStateDescriptor("done", Types.BOOLEAN())

    def on_element(self, element, timestamp, window, ctx):
        ctx.register_event_time_timer((window.start + window.end) // 2)
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        done = ctx.get_partitioned_state(self.done)
        if done.value() is None:
            done.update(True)
            return TriggerResult.FIRE
        return TriggerResult.FIRE_AND_PURGE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        raise NotImplementedError

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.done).clear()


def test_a_trigger_of_ones_own_has_timers_and_state_of_its_window(bench):
    tested = bench.open(tumbling(trigger=AtTwoTimes(), allowed_lateness_ms=5))
    feed(tested, ("a", 1, 1), ("a", 1, 12), ("b", 4, 3))
    assert sorted(values(tested.process_watermark(6))) == [("a", (0, 10), [1]), ("b", (0, 10), [4])]
    feed(tested, ("a", 1, 7))
    assert sorted(values(tested.process_watermark(9))) == [("a", (0, 10), [2]), ("b", (0, 10), [4])]
    assert values(tested.process_watermark(15)) == [("a", (10, 20), [1])]
    tested.process_watermark(MAX_WATERMARK)
    assert all(not table for table in tables(tested))


# Evictors.


def test_records_are_evicted_before_they_are_folded(bench):
    tested = bench.open(tumbling(evictor=CountEvictor.of(2), fold=Sum()))
    feed(tested, ("a", 1, 1), ("a", 2, 2), ("a", 4, 3))
    assert values(tested.process_watermark(9)) == [("a", (0, 10), [6])]


def test_evicted_records_are_gone_at_the_next_firing(bench):
    tested = bench.open(tumbling(evictor=TimeEvictor(2, True), fold=None, trigger=CountTrigger.of(2)))
    emitted = feed(tested, ("a", 1, 1), ("a", 2, 5), ("a", 3, 6), ("a", 4, 9))
    numbers = [[number for _, number in held] for _, _, held in values(emitted)]
    assert numbers == [[1, 2], [2, 3, 4]]


def test_evicted_records_stay_evicted_after_a_restore(bench):
    def make():
        return tumbling(evictor=CountEvictor.of(1, True), fold=None, trigger=CountTrigger.of(2))

    (tested,) = bench.open_all(make, 1)
    feed(tested, ("a", 1, 1), ("a", 2, 2), ("a", 3, 3))
    (restored,) = bench.restore_all([tested], make, 1)
    ((_, _, held),) = values(feed(restored, ("a", 4, 4)))
    assert [number for _, number in held] == [2, 3, 4]


KEEPS_NONE = CountEvictor.of(0)


def test_reduce_over_records_that_are_all_evicted_gives_none(bench):
    tested = bench.open(tumbling(evictor=KEEPS_NONE, fold=CallableReduce(min)))
    feed(tested, ("a", 1, 1), ("a", 2, 2))
    assert tested.process_watermark(9) == [(("a", (0, 10), [None]), 9)]


def test_aggregate_over_records_that_are_all_evicted_is_that_of_no_records(bench):
    tested = bench.open(tumbling(evictor=KEEPS_NONE, function=None))
    feed(tested, ("a", 1, 1), ("a", 2, 2))
    assert tested.process_watermark(9) == [(0, 9)]


def test_function_is_called_without_elements_where_all_are_evicted(bench):
    tested = bench.open(tumbling(evictor=KEEPS_NONE, fold=None))
    feed(tested, ("a", 1, 1))
    assert values(tested.process_watermark(9)) == [("a", (0, 10), [])]


def test_window_whose_records_were_evicted_at_a_firing_does_not_fire_empty_again(bench):
    tested = bench.open(tumbling(evictor=KEEPS_NONE, trigger=CountTrigger.of(1)))
    assert values(feed(tested, ("a", 1, 1))) == [("a", (0, 10), [0])]
    assert tested.process_watermark(9) == []
    # An empty state is no state: the trigger that fires at the end has nothing to work out.
    tested = bench.open(tumbling(evictor=KEEPS_NONE, trigger=ContinuousEventTimeTrigger(4)))
    feed(tested, ("a", 1, 1))
    assert values(tested.process_watermark(4)) == [("a", (0, 10), [0])]
    assert tested.process_watermark(9) == []


# What cannot be.


class Backwards(EventTimeSessionWindows):
    """Merges all windows into one whose cleanup time has passed."""

    def merge_windows(self, windows, callback):
        windows = list(windows)
        if len(windows) > 1:
            callback.merge(windows, TimeWindow(0, 1))


def test_windows_that_are_merged_into_one_whose_time_is_over_are_an_error(bench):
    tested = bench.open(operator(Backwards(5), trigger=EventTimeTrigger(), fold=Sum()))
    tested.process_watermark(10)
    feed(tested, ("a", 1, 20))
    with pytest.raises(MergedTooLate, match="Backwards must not let a window's end move backwards"):
        feed(tested, ("a", 1, 40))
