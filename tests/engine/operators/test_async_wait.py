"""The operator of requests by hand: order, capacity, watermarks, time-outs, tries, snapshots."""

from __future__ import annotations

import asyncio

import pytest

from onceproof.engine.async_functions import NO_RETRY_STRATEGY, AsyncFunction, AsyncRetryStrategy
from onceproof.engine.async_retry_predicates import empty_result_predicate, has_exception_predicate
from onceproof.engine.operators.async_requests import Answer
from onceproof.engine.operators.async_wait import IN_FLIGHT, AsyncWaitOperator, WrongResult
from onceproof.engine.operators.base import OperatorContext
from onceproof.engine.types import Types


class ByHand:
    """Requests that the test answers."""

    def __init__(self, name, wake_up):
        self.open = {}
        self.started = []
        self.cancelled = []
        self.answers = []
        self.is_closed = False

    def start(self, number, request):
        request.close()
        self.open[number] = request
        self.started.append(number)

    def cancel(self, number):
        self.cancelled.append(number)

    def take(self):
        return self.answers.pop(0) if self.answers else None

    def wait(self, seconds):
        raise AssertionError("nothing waits in place")

    def now_ms(self):
        raise AssertionError("the steady clock counts")

    def close(self):
        self.is_closed = True


class Ask(AsyncFunction):
    async def async_invoke(self, value):
        await asyncio.sleep(0)

    def timeout(self, value):
        return [f"{value} timed out"]


class Emitted:
    """What the operator gives to the rest of its chain."""

    def __init__(self):
        self.entries = []
        self.due = []

    def emit(self, records):
        self.entries += records

    def watermark(self, timestamp):
        self.entries.append(timestamp)

    def wake_at_steady(self, due_ms):
        self.due.append(due_ms)


class Job:
    """An open operator, its requests, what it emits, and a clock."""

    def __init__(self, *, ordered=True, capacity=10, timeout_ms=0, strategy=NO_RETRY_STRATEGY, restored=None):
        self.emitted = Emitted()
        self.now = 0
        self.operator = AsyncWaitOperator(Ask(), timeout_ms, capacity, strategy, ordered, Types.STRING())
        context = OperatorContext(
            task_name="ask",
            subtask=0,
            parallelism=1,
            max_parallelism=16,
            key_groups=(0, 15),
            attempt="1.1",
            clock=lambda: self.now,
            steady_clock=lambda: self.now,
            probe=lambda *point: None,
            operator=restored,
            downstream=self.emitted,
            requests=self.requests,
        )
        self.operator.open(context)

    def requests(self, name, wake_up):
        self.runs = ByHand(name, wake_up)
        return self.runs

    def give(self, *values):
        assert self.operator.process_batch([(value, at) for at, value in enumerate(values)], 0) == []

    def answer(self, number, result=None, error=None):
        self.runs.answers.append(Answer(number, [f"answer {number}"] if result is None else result, error))
        assert self.operator.process_time(self.now) == []

    def at(self, now):
        self.now = now
        self.operator.process_time(now)

    @property
    def values(self):
        return [entry if isinstance(entry, int) else entry[0] for entry in self.emitted.entries]

    def waiting(self):
        assert self.operator.snapshot(1, 0) is not None
        state = self.operator._state
        assert state.name == IN_FLIGHT
        return [value for value, _ in state.get()]


def test_ordered_results_wait_for_those_before_them():
    job = Job()
    job.give("a", "b", "c")
    job.answer(2)
    job.answer(3)
    assert job.values == []
    job.answer(1)
    assert job.emitted.entries == [("answer 1", 0), ("answer 2", 1), ("answer 3", 2)]


def test_unordered_results_come_as_they_are_answered():
    job = Job(ordered=False)
    job.give("a", "b", "c")
    job.answer(3)
    job.answer(1)
    assert job.values == ["answer 3", "answer 1"]


@pytest.mark.parametrize("ordered", [True, False])
def test_watermark_waits_for_all_results_before_it(ordered):
    job = Job(ordered=ordered)
    job.give("a", "b")
    job.operator.process_watermark(10)
    job.give("c")
    job.answer(3)
    job.answer(2)
    assert 10 not in job.values
    job.answer(1)
    assert job.values.index(10) == 2
    assert job.values[3:] == ["answer 3"]


def test_watermark_before_any_value_passes_at_once():
    job = Job(ordered=False)
    job.operator.process_watermark(5)
    assert job.values == [5]


@pytest.mark.parametrize("ordered", [True, False])
def test_values_beyond_the_capacity_hold_the_input(ordered):
    job = Job(ordered=ordered, capacity=2)
    job.give("a", "b")
    assert not job.operator.holds_input
    job.give("c", "d")
    job.operator.process_watermark(7)
    assert job.operator.holds_input
    assert job.runs.started == [1, 2]
    job.answer(1)
    assert job.runs.started == [1, 2, 3]
    assert job.operator.holds_input
    job.answer(2)
    assert job.runs.started == [1, 2, 3, 4]
    assert not job.operator.holds_input
    job.answer(4)
    job.answer(3)
    assert job.values[-1] == 7


def test_end_of_the_input_waits_for_results():
    job = Job()
    job.give("a")
    assert job.operator.is_busy
    job.answer(1)
    assert not job.operator.is_busy
    assert job.operator.finish() == []


def test_time_out_gives_what_the_function_says_and_drops_the_answer():
    job = Job(timeout_ms=50)
    job.give("a")
    assert job.emitted.due[-1] == 50
    job.at(49)
    assert job.values == []
    job.at(50)
    assert job.values == ["a timed out"]
    assert job.runs.cancelled == [1]
    job.answer(1)
    assert job.values == ["a timed out"]


def test_failed_request_without_a_strategy_fails_the_task():
    job = Job()
    job.give("a")
    with pytest.raises(ConnectionError, match="gone"):
        job.answer(1, error=ConnectionError("gone"))


def test_request_is_made_again_after_each_delay_until_tries_are_used_up():
    strategy = AsyncRetryStrategy.exponential_backoff(2, 10, 100, 3, None, has_exception_predicate)
    job = Job(timeout_ms=1000, strategy=strategy)
    job.give("a")
    job.answer(1, error=ConnectionError("one"))
    job.at(9)
    assert job.runs.started == [1]
    job.at(10)
    assert job.runs.started == [1, 2]
    job.answer(2, error=ConnectionError("two"))
    job.at(39)
    assert job.runs.started == [1, 2]
    job.at(40)
    assert job.runs.started == [1, 2, 3]
    with pytest.raises(ConnectionError, match="three"):
        job.answer(3, error=ConnectionError("three"))


def test_empty_result_is_tried_again_and_time_out_covers_all_tries():
    strategy = AsyncRetryStrategy.fixed_delay(5, 30, empty_result_predicate, None)
    job = Job(timeout_ms=50, strategy=strategy)
    job.give("a")
    job.answer(1, [])
    job.at(30)
    assert job.runs.started == [1, 2]
    job.answer(2, [])
    job.at(50)
    assert job.values == ["a timed out"]
    job.at(60)
    assert job.runs.started == [1, 2]


@pytest.mark.parametrize("result", [7, "text"])
def test_result_that_is_no_list_is_named(result):
    job = Job()
    job.give("a")
    with pytest.raises(
        WrongResult, match=f"async_invoke of Ask returned {result!r}: return a list of results"
    ):
        job.answer(1, result)


@pytest.mark.parametrize("ordered", [True, False])
def test_snapshot_has_all_that_was_not_emitted_in_order(ordered):
    job = Job(ordered=ordered, capacity=3)
    job.give("a", "b", "c", "d", "e")
    job.answer(2)
    assert job.waiting() == (["a", "b", "c", "d", "e"] if ordered else ["a", "c", "d", "e"])
    job.answer(1)
    assert job.waiting() == ["c", "d", "e"]


def test_close_ends_the_requests():
    job = Job()
    job.give("a")
    job.operator.close()
    assert job.runs.is_closed
