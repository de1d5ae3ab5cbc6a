"""The window operator against a model that keeps all records and searches them each time."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceproof.engine.api.adapters import CallableReduce
from onceproof.engine.elements import MAX_WATERMARK
from onceproof.engine.key_groups import key_group_of, operator_index
from onceproof.engine.operators import window as window_module
from onceproof.engine.operators.window import WindowOperator
from onceproof.engine.operators.window_parts import WindowFunctions, WindowSettings
from onceproof.engine.types import Types
from onceproof.engine.windows.assigners import (
    EventTimeSessionWindows,
    MergingWindowAssigner,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from onceproof.engine.windows.window_functions import ProcessWindowFunction
from tests.engine.counting import Sum

MAX_PARALLELISM = 8
LATE = "late"


class EmitWindow(ProcessWindowFunction):
    """Emits the key, the window, and the sum of its elements: pairs, or one number."""

    def process(self, key, context, elements):
        window = context.window()
        numbers = [each if isinstance(each, int) else each[1] for each in elements]
        yield key, (window.start, window.end), sum(numbers)


FOLDS = {
    "list": None,
    "reduce": CallableReduce(lambda a, b: (a[0], a[1] + b[1])),
    "aggregate": Sum(),
}


class Model:
    """The simplest implementation of windows: all records are kept, and searched each time."""

    def __init__(self, assigner, lateness):
        self.assigner = assigner
        self.lateness = lateness
        self.watermark = -(1 << 63)
        self.windows = {}
        self.emitted = []
        self.late = []

    def windows_of(self, timestamp):
        return list(self.assigner.assign_windows(None, timestamp, None))

    def is_over(self, window):
        return window.end - 1 + self.lateness <= self.watermark

    def add(self, key, number, timestamp):
        added = False
        for window in self.windows_of(timestamp):
            held = self.windows.setdefault(key, {})
            joined = []
            if isinstance(self.assigner, MergingWindowAssigner):
                joined = [other for other in held if other.intersects(window)]
                for other in joined:
                    window = window.cover(other)
            if self.is_over(window):
                continue
            added = True
            numbers = [number for other in joined for number in held.pop(other)]
            numbers = numbers or held.get(window, [])
            held[window] = [*numbers, number]
            if window.end - 1 <= self.watermark:
                self.emit(key, window)
        if not added and timestamp + self.lateness <= self.watermark:
            self.late.append((key, number))

    def emit(self, key, window):
        self.emitted.append((key, (window.start, window.end), sum(self.windows[key][window])))

    def advance(self, watermark):
        before, self.watermark = self.watermark, watermark
        for key, held in self.windows.items():
            for window in sorted(held):
                if before < window.end - 1 <= watermark:
                    self.emit(key, window)
            self.windows[key] = {
                window: numbers for window, numbers in held.items() if not self.is_over(window)
            }


ASSIGNERS = [
    TumblingEventTimeWindows(10),
    TumblingEventTimeWindows(7, -3),
    SlidingEventTimeWindows(10, 4),
    SlidingEventTimeWindows(4, 10, 1),
    EventTimeSessionWindows(6),
]
STREAMS = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.sampled_from(["a", "b", "c"]), st.integers(-20, 40)),
        st.tuples(st.just("watermark"), st.integers(0, 12)),
        st.tuples(st.just("restore"), st.integers(1, 4)),
    ),
    max_size=40,
)


@pytest.mark.parametrize("assigner", ASSIGNERS, ids=["tumbling", "offset", "sliding", "gaps", "sessions"])
@given(actions=STREAMS, fold=st.sampled_from(sorted(FOLDS)), lateness=st.sampled_from([0, 5, 30]))
def test_windows_are_those_of_the_model_through_restores_at_any_parallelism(
    new_bench, assigner, actions, fold, lateness
):
    bench = new_bench()
    bench.side[LATE] = []

    def make():
        settings = WindowSettings(
            assigner=assigner,
            trigger=assigner.get_default_trigger(None),
            key_selector=lambda value: value[0],
            key_type=Types.STRING(),
            value_type=Types.TUPLE([Types.STRING(), Types.LONG()]),
            accumulator_type=Types.LONG(),
            allowed_lateness_ms=lateness,
            late_tag=LATE,
        )
        return WindowOperator(WindowFunctions(FOLDS[fold], EmitWindow()), settings)

    model = Model(assigner, lateness)
    subtasks = bench.open_all(make, 1)
    emitted = []
    watermark = -20
    for number, (action, *arguments) in enumerate(actions):
        if action == "record":
            key, timestamp = arguments
            model.add(key, number, timestamp)
            group = key_group_of(key, MAX_PARALLELISM, Types.STRING())
            subtask = subtasks[operator_index(MAX_PARALLELISM, len(subtasks), group)]
            emitted += subtask.process_batch([((key, number), timestamp)], 0)
        elif action == "watermark":
            watermark += arguments[0]
            model.advance(watermark)
            for subtask in subtasks:
                emitted += subtask.process_watermark(watermark)
        else:
            subtasks = bench.restore_all(subtasks, make, arguments[0])
            # Event time begins anew; the watermark that was reached comes again first of all.
            model.advance(watermark)
            for subtask in subtasks:
                emitted += subtask.process_watermark(watermark)
    for subtask in subtasks:
        emitted += subtask.process_watermark(MAX_WATERMARK)
    model.advance(MAX_WATERMARK)
    assert Counter(value for value, _ in emitted) == Counter(model.emitted)
    assert all(subtask._known_timers == 0 for subtask in subtasks)
    assert all(timestamp == span[1] - 1 for (_, span, _), timestamp in emitted)
    assert Counter(value for value, _ in bench.side[LATE]) == Counter(model.late)
    for subtask in subtasks:
        for registered in subtask._keyed._registered.values():
            assert not list(registered.table), f"{registered.name} is left behind"


def test_windows_are_the_same_if_the_timer_cache_is_too_small(new_bench, monkeypatch):
    monkeypatch.setattr(window_module, "MAX_KNOWN_TIMERS", 2)
    bench = new_bench()
    settings = WindowSettings(
        assigner=SlidingEventTimeWindows(10, 5),
        trigger=SlidingEventTimeWindows(10, 5).get_default_trigger(None),
        key_selector=lambda value: value[0],
        key_type=Types.STRING(),
        value_type=None,
        accumulator_type=Types.LONG(),
    )
    (operator,) = bench.open_all(lambda: WindowOperator(WindowFunctions(Sum(), EmitWindow()), settings), 1)
    for key in "abcabc":
        operator.process_batch([((key, 1), 7)], 0)
        assert operator._known_timers <= 2
    assert sorted(value for value, _ in operator.process_watermark(14)) == [
        (key, (start, start + 10), 2) for key in "abc" for start in (0, 5)
    ]
