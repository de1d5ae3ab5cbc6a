"""The specifications of valves and of restart strategies, against vectors of Flink."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onceproof.engine.elements import ACTIVE, IDLE, MAX_WATERMARK, Watermark
from onceproof.harness.specifications.restart_waits import (
    FOREVER,
    ExponentialDelay,
    FailedAt,
    FailureRate,
    FixedDelay,
    NoRestarts,
    Wait,
    is_hopeless,
)
from onceproof.harness.specifications.retention import Kept, RetentionSpecification
from onceproof.harness.specifications.valves import IdlenessSpecification, ValveSpecification
from tests.conformance.adapters.watermarks import described

VECTORS = json.loads(Path("tests/conformance/vectors.json").read_text())["vectors"]


def of_area(area):
    return [
        pytest.param(each["input"], each["expected"], id=each["id"])
        for each in VECTORS
        if each["area"] == area
    ]


@pytest.mark.parametrize(("given", "expected"), of_area("watermark.valve"))
def test_valve_answers_as_flink_does(given, expected):
    specification = ValveSpecification(given["channels"])
    for (kind, channel, *timestamp), output in zip(
        given["events"], expected["output_per_event"], strict=True
    ):
        if kind == "wm":
            found = specification.watermark(channel, *timestamp)
        else:
            found = specification.status(channel, kind == "idle")
        assert [described(each) for each in found] == output


def test_channel_that_turns_active_ahead_counts_at_once():
    specification = ValveSpecification(2)
    specification.watermark(0, 10)
    specification.watermark(1, 20)
    assert specification.status(0, True) == (Watermark(20),)
    assert specification.status(1, True) == (IDLE,)
    assert specification.status(0, False) == (ACTIVE,)
    assert specification.watermark(0, 15) == ()
    assert specification.status(1, False) == ()
    assert specification.ended(0, MAX_WATERMARK) == ()
    assert specification.ended(1, MAX_WATERMARK) == (Watermark(MAX_WATERMARK),)


STRATEGIES = {
    "restart.fixed_delay": lambda config: FixedDelay(config["attempts"], config["delay_ms"]),
    "restart.failure_rate": lambda config: FailureRate(
        config["max_failures_per_interval"], config["interval_ms"], config["delay_ms"]
    ),
    "restart.exponential_delay": lambda config: ExponentialDelay(
        config["initial_backoff_ms"],
        config["max_backoff_ms"],
        config["multiplier"],
        config["reset_threshold_ms"],
        config["jitter"],
        config["attempts"],
    ),
}


@pytest.mark.parametrize(
    ("area", "given", "expected"),
    [pytest.param(area, *each.values, id=each.id) for area in STRATEGIES for each in of_area(area)],
)
def test_strategy_answers_as_flink_does(area, given, expected):
    strategy = STRATEGIES[area](given["config"])
    now, failures, trace = 0, [], iter(expected["trace"])
    for kind, *ms in given["events"]:
        if kind == "advance":
            now += ms[0]
            continue
        answer = next(trace)
        if kind == "fail":
            failures.append(now)
            wait = strategy.wait(failures)
            assert (wait is not None) is answer["can_restart"], now
            assert wait in (None, Wait(answer["backoff_ms"], answer["backoff_ms"]))


def test_stream_turns_idle_a_time_out_after_a_call_without_a_record():
    stream = IdlenessSpecification(10)
    assert [stream.periodic(now) for now in (0, 10, 11, 30)] == [False, False, True, False]
    stream.record()
    assert [stream.periodic(now) for now in (31, 32, 42)] == [False, False, False], "behind a record"
    stream.record()
    assert [stream.periodic(now) for now in (43, 44, 55)] == [False, False, True]


def test_no_restart_follows_without_a_strategy():
    assert NoRestarts().wait([1]) is None


def test_jitter_lets_a_restart_come_between_two_moments():
    strategy = ExponentialDelay(100, 1000, 2.0, 5000, 0.1, FOREVER)
    assert strategy.wait([0]) == Wait(100, 110)
    assert strategy.wait([0, 50]) == Wait(50, 60)
    assert strategy.wait([0, 200]) == Wait(180, 220)
    assert strategy.wait([0, 200, 6000]) == Wait(100, 110)
    assert strategy.wait([0, 105], {1: 105}) == Wait(0, 0), "it failed at its restart, as far as is seen"


def test_error_that_repeats_at_one_place_is_hopeless_at_its_limit():
    place, other = FailedAt(1, "ValueError", 3, 7), FailedAt(1, "ValueError", 4, 7)
    assert is_hopeless([None, place, place], 2)
    assert not is_hopeless([place, other], 2)
    assert not is_hopeless([place, None, place], 2)
    assert not is_hopeless([None, None], 2)
    assert not is_hopeless([place] * 9, 0)


def test_oldest_checkpoint_is_dropped_and_a_savepoint_stays():
    specification = RetentionSpecification(2)
    savepoint, first, second, third = (
        Kept(1, "savepoint", "a"),
        *(Kept(each, "checkpoint", "a") for each in (2, 3, 4)),
    )
    assert specification.completed(savepoint) == []
    assert specification.completed(first) == []
    assert specification.completed(second) == []
    assert specification.kept == [first, second]
    assert specification.completed(third) == [first]


def test_shared_file_may_be_deleted_once_no_retained_checkpoint_uses_it():
    specification = RetentionSpecification(1)
    specification.completed(Kept(1, "checkpoint", "a", frozenset({"x", "y"})))
    assert specification.still_used(["x"]) == ["x"]
    specification.completed(Kept(2, "checkpoint", "a", frozenset({"y"})))
    assert specification.still_used(["x"]) == []
    assert specification.deleted == {"x"}
