"""Metrics of functions: what they count, and where a user of a job reads them."""

from __future__ import annotations

import logging
import pickle

import pytest

from onceproof.engine import (
    Configuration,
    GlobalWindows,
    MapFunction,
    StreamExecutionEnvironment,
    Trigger,
    TriggerResult,
)
from onceproof.engine.metrics import Counter, MetricRegistry


class Clock:
    now = 0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def registry():
    return MetricRegistry()


@pytest.fixture
def group(registry, clock):
    return registry.group("a1", "Map", 0, clock)


def test_each_kind_of_metric_shows_its_value_under_its_full_name(registry, group):
    group.counter("lines").inc()
    group.counter("lines").inc(3)
    group.counter("lines").dec()
    group.gauge("length", lambda: 7)
    inner = group.add_group("shop", "north")
    for cents in (5, 1, 3):
        inner.distribution("cents").update(cents)
    inner.add_group("none").distribution("cents")
    group.meter("rows", 10).mark_event(20)
    assert registry.values() == {
        "Map.0.length": 7,
        "Map.0.lines": 3,
        "Map.0.rows": {"count": 20, "rate": 2.0},
        "Map.0.shop.north.cents": {"count": 3, "sum": 9, "min": 1, "max": 5, "mean": 3},
        "Map.0.shop.north.none.cents": {"count": 0},
    }


def test_a_meter_measures_the_span_that_ends_now(group, clock):
    meter = group.meter("rows", 4)
    for second in range(8):
        clock.now = second * 1000
        meter.mark_event(2)
        meter.mark_event()
    assert (meter.get_count(), meter.get_rate()) == (24, 3)
    clock.now = 9_999
    assert meter.get_rate() == 1.5
    clock.now = 60_000
    assert (meter.get_count(), meter.get_rate()) == (24, 0)


@pytest.mark.parametrize("span", [0, -1, 1.5])
def test_a_meter_without_a_span_is_refused(group, span):
    with pytest.raises(ValueError, match="give whole seconds"):
        group.meter("rows", span)


def test_a_name_of_another_kind_is_refused_with_the_mend(group):
    group.counter("rows")
    with pytest.raises(ValueError, match=r"'Map\.0\.rows' is a counter already.*give it another name"):
        group.meter("rows")


def test_a_gauge_that_fails_shows_its_error_and_a_second_one_replaces_it(registry, group):
    group.gauge("length", lambda: 1 // 0)
    assert registry.values()["Map.0.length"].startswith("ZeroDivisionError")
    group.gauge("length", lambda: 2)
    assert registry.values() == {"Map.0.length": 2}
    with pytest.raises(TypeError, match="give a function"):
        group.gauge("length", 2)


def test_a_gauge_shows_what_is_no_number_as_a_text(registry, group):
    group.gauge("folder", lambda: ["a"])
    group.gauge("none", lambda: None)
    assert registry.values() == {"Map.0.folder": "['a']", "Map.0.none": None}


def test_two_operators_of_a_name_do_not_share_metrics(registry, clock):
    for operator, subtask, count in (("a1", 0, 1), ("a1", 1, 2), ("b2", 0, 4)):
        registry.group(operator, "Map", subtask, clock).counter("rows").inc(count)
    assert registry.values() == {"Map.0.rows": 1, "Map.1.rows": 2, "Map (2).0.rows": 4}


def counted_in(events):
    """What an epoch counts: ``events`` are (milliseconds, number)."""
    clock, registry = Clock(), MetricRegistry()
    group = registry.group("a1", "Map", 0, clock)
    rows, meter, numbers = group.counter("rows"), group.meter("events", 4), group.distribution("numbers")
    group.gauge("last", lambda: events[-1][1] if events else None)
    for clock.now, number in events:
        rows.inc()
        meter.mark_event()
        numbers.update(number)
    return pickle.loads(pickle.dumps(registry.closed()))


def test_epochs_go_on_from_one_another_in_each_kind_of_metric(registry):
    for events in ([(0, 5), (1000, 9)], [], [(1000, 2), (4999, 4)]):
        registry.go_on(counted_in(events))
    assert registry.values() == {
        "Map.0.events": {"count": 4, "rate": 0.75},
        "Map.0.last": 4,
        "Map.0.numbers": {"count": 4, "sum": 20, "min": 2, "max": 9, "mean": 5},
        "Map.0.rows": 4,
    }


class Counting(MapFunction):
    """Counts what it maps, and fails where it is to fail once."""

    failures = 0

    def __init__(self, fail_at=None):
        self.fail_at = fail_at

    def open(self, runtime_context):
        self.rows: Counter = runtime_context.get_metrics_group().add_group("mine").counter("rows")
        self.attempt = runtime_context.get_attempt_number()

    def map(self, value):
        self.rows.inc()
        if value == self.fail_at and self.attempt == 0:
            raise OSError("the disk was away")
        return value


def test_the_result_and_the_log_of_a_job_show_its_metrics(caplog):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1, 2, 3]).map(Counting()).name("counted").print()
    with caplog.at_level(logging.INFO):
        result = env.execute("with metrics")
    assert result.metrics == {"counted.0.mine.rows": 3}
    said = [each.getMessage() for each in caplog.records]
    assert "job 'with metrics': metric counted.0.mine.rows is 3" in said


def test_the_metrics_of_worker_processes_come_together_in_the_result():
    options = {"execution.local.workers": 2, "parallelism.default": 2}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    env.from_collection([1, 2, 3, 4]).rebalance().map(Counting()).name("counted").print()
    result = env.execute("in workers")
    assert result.metrics == {"counted.0.mine.rows": 2, "counted.1.mine.rows": 2}


class Fives(Trigger):
    """Fires at each fifth record, and counts the records in a metric."""

    def on_element(self, element, timestamp, window, ctx):
        counter = ctx.get_metric_group().counter("seen")
        counter.inc()
        return TriggerResult.FIRE_AND_PURGE if counter.get_count() % 5 == 0 else TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        raise NotImplementedError("global windows are never merged")

    def clear(self, window, ctx):
        return None


def test_a_trigger_has_the_metrics_of_its_window_operator():
    env = StreamExecutionEnvironment.get_execution_environment()
    keyed = env.from_collection(list(range(12))).key_by(lambda value: 0)
    keyed.window(GlobalWindows.create()).trigger(Fives()).reduce(max).name("fives").print()
    assert env.execute("fives").metrics == {"fives.0.seen": 12}


def test_metrics_begin_anew_with_an_attempt():
    options = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 ms"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    env.from_collection([1, 2, 3]).map(Counting(fail_at=3)).name("counted").print()
    result = env.execute("restarted")
    assert result.restarts == 1
    assert result.metrics == {"counted.0.mine.rows": 3}
