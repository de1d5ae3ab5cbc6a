"""Any two of assigner, trigger, evictor, lateness and function together, against a model of Flink's rules.

The model itself answers the recorded vectors of Flink's WindowOperator. What it says of merged windows
depends on the order of PyFlink's set, which the recorded jobs of ``tests/conformance`` show.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from onceproof.engine.api.adapters import CallableReduce
from onceproof.engine.elements import MAX_WATERMARK
from onceproof.engine.functions import AggregateFunction
from onceproof.engine.key_groups import key_group_of, operator_index
from onceproof.engine.operators.window import WindowOperator
from onceproof.engine.operators.window_parts import WindowFunctions, WindowSettings
from onceproof.engine.types import Types
from onceproof.engine.windows.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from onceproof.engine.windows.evictors import CountEvictor, Evictor, TimeEvictor
from onceproof.engine.windows.triggers import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerResult,
)
from onceproof.engine.windows.window_functions import ProcessWindowFunction, WindowFunction
from onceproof.engine.windows.windows import GlobalWindow
from tests.engine.operators import window_rules as rules

MAX_PARALLELISM = 8
LATE = "late"
VECTORS = Path(__file__).parents[2] / "conformance" / "vectors.json"


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return gap_of(element[1][0])


def gap_of(number):
    return 2 + number % 4 * 3


class ByNumber(Trigger):
    """Multiples of 3 fire, those of 5 purge, and each record sets a timer 2 ms later."""

    def on_element(self, element, timestamp, window, ctx):
        is_global = isinstance(window, GlobalWindow)
        ctx.register_event_time_timer(timestamp + 4 if is_global else window.max_timestamp())
        ctx.register_event_time_timer(timestamp + 2)
        number = element[1][0]
        return TriggerResult((number % 3 == 0, number % 5 == 0))

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE_AND_PURGE if time == window.max_timestamp() else TriggerResult.FIRE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def can_merge(self):
        return True

    def on_merge(self, window, ctx):
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window, ctx):
        ctx.delete_event_time_timer(window.max_timestamp())


class KeepOdd(Evictor):
    """Evicts even numbers, so that it may leave none."""

    def evict_before(self, elements, size, window, evictor_context):
        elements[:] = [each for each in elements if each.value[1][0] % 2]

    def evict_after(self, elements, size, window, evictor_context):
        pass


class Joined(AggregateFunction):
    """Shows in which order numbers were added, and where accumulators were merged."""

    def create_accumulator(self):
        return ()

    def add(self, value, accumulator):
        return accumulator + value[1]

    def get_result(self, accumulator):
        return (*accumulator, "result")

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


def span(window):
    return "global" if isinstance(window, GlobalWindow) else (window.start, window.end)


class Process(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, span(context.window()), tuple(elements)


class Apply(WindowFunction):
    def apply(self, key, window, inputs):
        return [(key, span(window), tuple(inputs))]


# Each choice: how the engine is set, and how the model is. Values of records are (key, (number,)).
ASSIGNERS = {
    "tumbling": (TumblingEventTimeWindows(10), {"assign": rules.tumbling(10)}),
    "offset": (TumblingEventTimeWindows(7, -3), {"assign": rules.tumbling(7, -3)}),
    "sliding": (SlidingEventTimeWindows(10, 4), {"assign": rules.sliding(10, 4)}),
    "gaps": (SlidingEventTimeWindows(4, 10, 1), {"assign": rules.sliding(4, 10, 1)}),
    "sessions": (EventTimeSessionWindows(6), {"assign": rules.sessions(lambda _: 6), "merges": True}),
    "dynamic": (
        EventTimeSessionWindows.with_dynamic_gap(Gap()),
        {"assign": rules.sessions(gap_of), "merges": True},
    ),
    "global": (GlobalWindows(), {"assign": rules.all_in_one}),
}
TRIGGERS = {
    "at the end": (EventTimeTrigger(), rules.AtEnd()),
    "count": (CountTrigger.of(2), rules.Counting(2)),
    "continuous": (ContinuousEventTimeTrigger(4), rules.Continuous(4)),
    "own": (ByNumber(), rules.ByNumber()),
    "purging at the end": (PurgingTrigger.of(EventTimeTrigger()), rules.Purging(rules.AtEnd())),
    "purging count": (PurgingTrigger.of(CountTrigger.of(3)), rules.Purging(rules.Counting(3))),
    "purging continuous": (
        PurgingTrigger.of(ContinuousEventTimeTrigger(3)),
        rules.Purging(rules.Continuous(3)),
    ),
}
EVICTORS = {
    "none": (None, {}),
    "last two": (CountEvictor.of(2), {"evict_before": rules.keep_last(2)}),
    "all": (CountEvictor.of(0), {"evict_before": rules.keep_last(0)}),
    "all, after": (CountEvictor.of(0, True), {"evict_after": rules.keep_last(0)}),
    "recent": (TimeEvictor(3), {"evict_before": rules.keep_recent(3)}),
    "recent, after": (TimeEvictor(3, True), {"evict_after": rules.keep_recent(3)}),
    "even": (KeepOdd(), {"evict_before": rules.keep_odd}),
}
LATENESS = {"no lateness": 0, "some": 5, "much": 30}
REDUCE = CallableReduce(lambda one, other: (one[0], one[1] + other[1]))
FUNCTIONS = {
    "process": (None, Process()),
    "apply": (None, Apply()),
    "reduce": (REDUCE, None),
    "reduce and process": (REDUCE, Process()),
    "aggregate": (Joined(), None),
    "aggregate and apply": (Joined(), Apply()),
}


def expected_value(function, key, window, numbers):
    """Return what a function makes of the numbers that are left when a window fires."""
    fold, inner = FUNCTIONS[function]
    if fold is None:
        elements = tuple((key, (number,)) for number in numbers)
    elif fold is REDUCE:
        elements = ((key, numbers) if numbers else None,)
    else:
        elements = ((*numbers, "result"),)
    if inner is None:
        (value,) = elements
        return value
    return key, "global" if window == rules.GLOBAL else window, elements


CHOICES = {
    "assigner": list(ASSIGNERS),
    "trigger": list(TRIGGERS),
    "evictor": list(EVICTORS),
    "lateness": list(LATENESS),
    "function": list(FUNCTIONS),
}
ROWS = list(rules.all_pairs(CHOICES))


def test_rows_have_every_pair_of_choices():
    for one in CHOICES:
        for other in CHOICES:
            pairs = {(row[one], row[other]) for row in ROWS}
            assert one == other or len(pairs) == len(CHOICES[one]) * len(CHOICES[other])


def model_of(row):
    _, assigner = ASSIGNERS[row["assigner"]]
    _, trigger = TRIGGERS[row["trigger"]]
    _, evictor = EVICTORS[row["evictor"]]
    return rules.WindowRules(trigger=trigger, lateness=LATENESS[row["lateness"]], **assigner, **evictor)


def operator_of(row):
    fold, function = FUNCTIONS[row["function"]]
    settings = WindowSettings(
        assigner=ASSIGNERS[row["assigner"]][0],
        trigger=TRIGGERS[row["trigger"]][0],
        key_selector=lambda value: value[0],
        key_type=Types.STRING(),
        value_type=None,
        evictor=EVICTORS[row["evictor"]][0],
        allowed_lateness_ms=LATENESS[row["lateness"]],
        late_tag=LATE,
    )
    return WindowOperator(WindowFunctions(fold, function), settings)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: ", ".join(row.values()))
def test_windows_of_any_two_choices_are_those_of_the_model(new_bench, row):
    for seed in range(6):
        random = Random(seed)
        bench = new_bench()
        bench.side[LATE] = []
        model = model_of(row)
        subtasks = bench.open_all(lambda: operator_of(row), 1)
        watermark = -20
        # A continuous trigger would go on to the end of all time in a window that has no end, in Flink, too.
        end = 1000 if row["assigner"] == "global" else MAX_WATERMARK
        steps = [random.choices(["record", "watermark", "restore"], [12, 4, 1])[0] for _ in range(80)]
        for number, step in enumerate([*steps, "end"], 1):
            emitted, seen = [], len(model.results)
            if step == "record":
                key, timestamp = random.choice("abc"), watermark + random.randint(-12, 25)
                model.add(key, number, timestamp)
                group = key_group_of(key, MAX_PARALLELISM, Types.STRING())
                subtask = subtasks[operator_index(MAX_PARALLELISM, len(subtasks), group)]
                emitted += subtask.process_batch([((key, (number,)), timestamp)], 0)
            elif step == "restore":
                subtasks = bench.restore_all(subtasks, lambda: operator_of(row), random.randint(1, 3))
            if step != "record":
                # After a restore the watermark that was reached comes again first of all.
                watermark += random.randint(0, 8) if step == "watermark" else 0
                reached = end if step == "end" else watermark
                model.advance(reached)
                for subtask in subtasks:
                    emitted += subtask.process_watermark(reached)
            assert Counter(emitted) == Counter(
                (expected_value(row["function"], key, window, numbers), window[1] - 1)
                for key, window, numbers in model.results[seen:]
            ), (seed, number)
        assert [(key, number) for (key, (number,)), _ in bench.side[LATE]] == model.late
        assert not model.held or row["assigner"] == "global"


# The model itself against what Flink's own classes answered.


def vectors():
    content = json.loads(VECTORS.read_text(encoding="utf-8"))["vectors"]
    return [each for each in content if each["area"] == "window.operator"]


def model_of_vector(given):
    size, keeps = given.get("size_ms", 0), {}
    trigger = rules.AtEnd()
    match given["assigner"]:
        case "tumbling":
            assigner = {"assign": rules.tumbling(size, given.get("offset_ms", 0))}
        case "sliding":
            assigner = {"assign": rules.sliding(size, given["slide_ms"])}
        case "session":
            assigner = {"assign": rules.sessions(lambda _: given["gap_ms"]), "merges": True}
        case "count":
            assigner, trigger = {"assign": rules.all_in_one}, rules.Purging(rules.Counting(given["size"]))
        case "count_sliding":
            assigner, trigger = {"assign": rules.all_in_one}, rules.Counting(given["slide"])
            keeps = {"evict_before": rules.keep_last(given["size"])}
        case "global":
            assigner, trigger = {"assign": rules.all_in_one}, rules.Silent()
    if "trigger" in given:
        trigger = trigger_of_vector(given["trigger"])
    if "evictor" in given:
        kind, amount, *after = given["evictor"]
        assert kind == "count"
        keeps = {"evict_after" if after else "evict_before": rules.keep_last(amount)}
    return rules.WindowRules(
        trigger=trigger, lateness=given.get("allowed_lateness_ms", 0), **assigner, **keeps
    )


def trigger_of_vector(form):
    match form:
        case ["purging", nested]:
            return rules.Purging(trigger_of_vector(nested))
        case ["continuous", interval]:
            return rules.Continuous(interval)
        case ["count", size]:
            return rules.Counting(size)
        case ["event_time"]:
            return rules.AtEnd()
    raise ValueError(form)


@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: vector["id"])
def test_model_answers_as_flinks_window_operator_did(vector):
    given = vector["input"]
    model = model_of_vector(given)
    for kind, *event in given["events"]:
        if kind == "e":
            model.add(*event)
        else:
            model.advance(event[0])
    model.advance(MAX_WATERMARK)
    results, late = [], []
    for kind, content, *_ in vector["expected"]["output"]:
        if kind == "out":
            window = rules.GLOBAL if content["window"] == ["global"] else tuple(content["window"])
            shown = sorted(content["values"]) if "values" in content else [content["sum"]]
            results.append((content["key"], window, tuple(shown)))
        elif kind == "late":
            late.append(tuple(content))
    is_sum = given["function"] == "reduce_sum"
    assert Counter(results) == Counter(
        (key, window, (sum(numbers),) if is_sum else tuple(sorted(numbers)))
        for key, window, numbers in model.results
    )
    assert Counter(late) == Counter(model.late if given.get("late_side_output") else [])
