"""Process functions with timers and side outputs."""

from __future__ import annotations

import pytest

from onceproof.engine.elements import MAX_WATERMARK, MIN_WATERMARK
from onceproof.engine.functions import KeyedProcessFunction, ProcessFunction
from onceproof.engine.operators.process import (
    KeyedProcessOperator,
    ProcessOperator,
    TimedProcessOperator,
    has_timers,
)
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.timer_service import TimeDomain
from onceproof.engine.types import Types

ODD = OutputTag("odd")


class Alarms(KeyedProcessFunction):
    """A value is (key, timestamps): a timer for each, in event time; those below 0 in processing time.

    ``then`` is called as a timer fires.
    """

    def __init__(self, then=lambda timestamp, ctx: ()):
        self.then = then

    def open(self, runtime_context):
        self.fired = runtime_context.get_state(ValueStateDescriptor("fired", Types.LONG()))

    def process_element(self, value, ctx):
        for timestamp in value[1]:
            if timestamp < 0:
                ctx.timer_service().register_processing_time_timer(-timestamp)
            else:
                ctx.timer_service().register_event_time_timer(timestamp)

    def on_timer(self, timestamp, ctx):
        self.fired.update((self.fired.value() or 0) + 1)
        yield ctx.get_current_key(), timestamp, self.fired.value()
        yield from self.then(timestamp, ctx)


class Asking(KeyedProcessFunction):
    """Emits the current times."""

    def process_element(self, value, ctx):
        service = ctx.timer_service()
        yield service.current_watermark(), service.current_processing_time(), ctx.current_processing_time()


def first(value):
    return value[0]


def alarms(*arguments):
    return TimedProcessOperator(Alarms(*arguments), first, Types.STRING())


def values(records):
    return [value for value, _ in records]


# Event time.


def test_timers_fire_by_time_over_all_keys_and_their_results_carry_it(bench):
    operator = bench.open(alarms())
    assert bench.process(operator, ("a", [30, 10]), ("b", [20])) == []
    assert operator.process_watermark(9) == []
    assert operator.process_watermark(20) == [(("a", 10, 1), 10), (("b", 20, 1), 20)]
    assert operator.process_watermark(MAX_WATERMARK) == [(("a", 30, 2), 30)]


def test_a_timer_in_the_past_waits_for_the_next_watermark(bench):
    operator = bench.open(alarms())
    operator.process_watermark(100)
    assert bench.process(operator, ("a", [50])) == []
    assert operator.process_watermark(101) == [(("a", 50, 1), 50)]


def test_a_timer_registered_while_others_fire_fires_with_them_if_it_is_due(bench):
    def again(timestamp, ctx):
        if timestamp < 40:
            ctx.timer_service().register_event_time_timer(timestamp + 10)
        yield "watermark", ctx.timer_service().current_watermark()

    operator = bench.open(alarms(again))
    bench.process(operator, ("a", [10]), ("b", [25]))
    assert [value[1] for value in values(operator.process_watermark(30)) if value[0] != "watermark"] == [
        10,
        20,
        25,
        30,
    ]
    assert values(operator.process_watermark(35)) == [("b", 35, 2), ("watermark", 35)]


def test_the_context_of_a_timer_knows_its_key_time_and_kind(bench):
    seen = []

    def note(timestamp, ctx):
        seen.append((ctx.get_current_key(), ctx.timestamp(), ctx.time_domain()))
        return ()

    operator = bench.open(alarms(note))
    bench.process(operator, ("a", [10]), ("b", [-20]))
    operator.process_watermark(10)
    operator.process_time(20)
    assert seen == [("a", 10, TimeDomain.EVENT_TIME), ("b", 20, TimeDomain.PROCESSING_TIME)]


def test_delete_removes_only_the_timer_of_the_current_key(bench):
    class Deleting(Alarms):
        def process_element(self, value, ctx):
            yield from super().process_element(value, ctx) or ()
            if value[0] == "b":
                ctx.timer_service().delete_event_time_timer(10)

    operator = bench.open(TimedProcessOperator(Deleting(), first, Types.STRING()))
    bench.process(operator, ("a", [10]), ("b", [10]))
    assert values(operator.process_watermark(10)) == [("a", 10, 1)]


# Processing time.


def test_processing_time_timers_request_wakeups_and_results_have_no_timestamp(bench):
    operator = bench.open(alarms())
    bench.process(operator, ("a", [-70, -50]))
    assert min(bench.behind.wishes) == 50
    bench.behind.wishes.clear()
    assert operator.process_time(60) == [(("a", 50, 1), None)]
    assert bench.behind.wishes == [70], "what comes next is asked for again"
    assert operator.process_time(65) == []
    assert operator.process_watermark(MAX_WATERMARK) == [], "the end of event time is not that of the other"
    assert operator.process_time(70) == [(("a", 70, 2), None)]


def test_a_deleted_timer_of_processing_time_does_not_fire(bench):
    def delete(timestamp, ctx):
        ctx.timer_service().delete_processing_time_timer(timestamp + 1)
        return ()

    operator = bench.open(alarms(delete))
    bench.process(operator, ("a", [-50, -51, -53]))
    assert [value[1] for value in values(operator.process_time(60))] == [50, 53]


# Snapshots.


@pytest.mark.parametrize(("before", "after"), [(1, 1), (1, 3), (3, 1), (2, 3), (4, 2)])
def test_timers_fire_after_a_restore_in_the_subtask_of_their_key(bench, before, after):
    keys = [f"key {number}" for number in range(12)]
    operators = bench.open_all(alarms, before)
    for operator in operators:
        low, high = operator._keyed.key_group_range
        own = [key for key in keys if low <= group_of(key) <= high]
        bench.process(operator, *[(key, [10, 20, -30]) for key in own])
        operator.process_watermark(15)
    bench.behind.wishes.clear()
    restored = bench.restore_all(operators, alarms, after)
    fired = [value for operator in restored for value in values(operator.process_watermark(99))]
    assert sorted(fired) == sorted((key, 20, 2) for key in keys)
    assert set(bench.behind.wishes) == {30}
    woken = [value for operator in restored for value in values(operator.process_time(30))]
    assert sorted(woken) == sorted((key, 30, 3) for key in keys)


def group_of(key):
    from onceproof.engine.key_groups import key_group_of

    return key_group_of(key, 8, Types.STRING())


def test_event_time_begins_anew_after_a_restore(bench):
    (operator,) = bench.open_all(alarms, 1)
    bench.process(operator, ("a", [10]))
    operator.process_watermark(50)
    (restored,) = bench.restore_all([operator], alarms, 1)
    assert restored.timers.watermark == MIN_WATERMARK


# Without timers.


def test_function_without_on_timer_has_times_but_no_timers(bench):
    assert not has_timers(Asking())
    assert has_timers(Alarms())
    bench.now = 77
    operator = bench.open(KeyedProcessOperator(Asking(), first, Types.STRING()))
    assert bench.process(operator, "a") == [(MIN_WATERMARK, 77, 77)]
    assert operator.process_watermark(5) == []
    assert bench.process(operator, "a") == [(5, 77, 77)]


@pytest.mark.parametrize(
    "verb",
    [
        "register_event_time_timer",
        "register_processing_time_timer",
        "delete_event_time_timer",
        "delete_processing_time_timer",
    ],
)
def test_a_timer_that_nothing_hears_is_no_error_and_one_without_a_key_is(bench, verb):
    class Registers(KeyedProcessFunction):
        def process_element(self, value, ctx):
            getattr(ctx.timer_service(), verb)(5)

    keyed = bench.open(KeyedProcessOperator(Registers(), first, Types.STRING()))
    assert bench.process(keyed, "a") == []
    assert keyed.process_watermark(MAX_WATERMARK) == []

    class OnPlain(ProcessFunction):
        process_element = Registers.process_element

    with pytest.raises(TypeError, match=r"no timer at 5: .* call key_by directly before"):
        bench.process(bench.open(ProcessOperator(OnPlain())), "a")


@pytest.mark.parametrize("timestamp", [5.0, "5", None, True])
def test_a_timer_at_no_whole_millisecond_is_refused(bench, timestamp):
    class Registers(Alarms):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(timestamp)

    operator = bench.open(TimedProcessOperator(Registers(), first, Types.STRING()))
    with pytest.raises(TypeError, match="whole milliseconds"):
        bench.process(operator, ("a", []))


# Side outputs.


class Sorting(ProcessFunction):
    def process_element(self, value, ctx):
        if value % 2:
            yield ODD, value
        else:
            yield value


class KeyedSorting(KeyedProcessFunction):
    process_element = Sorting.process_element

    def on_timer(self, timestamp, ctx):
        yield ODD, ("timer", timestamp)


def test_tagged_value_goes_to_the_side_output_with_its_timestamp(bench):
    bench.side["odd"] = []
    operator = bench.open(ProcessOperator(Sorting()))
    assert operator.process_batch([(1, 10), (2, 20), (3, 30), (4, 40)], 0) == [(2, 20), (4, 40)]
    assert bench.side["odd"] == [(1, 10), (3, 30)]


def test_side_output_without_reader_is_dropped(bench):
    operator = bench.open(ProcessOperator(Sorting()))
    assert operator.process_batch([(1, 10), (2, 20)], 0) == [(2, 20)]


def test_timers_have_side_outputs_too(bench):
    bench.side["odd"] = []
    operator = bench.open(TimedProcessOperator(KeyedSorting(), lambda value: value % 2, Types.LONG()))
    operator.timers.event.register(1, 10)
    operator.timers.register_processing(1, 20)
    assert operator.process_watermark(15) == []
    assert operator.process_time(20) == []
    assert bench.side["odd"] == [(("timer", 10), 10), (("timer", 20), None)]


def test_tags_with_equal_ids_are_equal():
    assert OutputTag("late") == OutputTag("late", Types.STRING())
    assert OutputTag("late") != OutputTag("early")
    assert len({OutputTag("late"), OutputTag("late")}) == 1
    with pytest.raises(ValueError, match="not empty"):
        OutputTag("")


def test_a_tag_with_more_than_one_value_is_an_error(bench):
    class Wrong(ProcessFunction):
        def process_element(self, value, ctx):
            yield ODD, value, value

    with pytest.raises(TypeError, match="yield the tag and one value"):
        bench.process(bench.open(ProcessOperator(Wrong())), 1)
