"""AsyncDataStream in whole jobs: results, errors of functions, refusals, what a stopped job asks again."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from onceproof.engine import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    CheckpointListener,
    Configuration,
    Encoder,
    FileSink,
    MapFunction,
    NumberSequenceSource,
    StreamExecutionEnvironment,
    Time,
    WatermarkStrategy,
)
from onceproof.engine.api.async_data_stream import DEFAULT_CAPACITY
from onceproof.engine.api.job_client import SavepointFailed
from onceproof.engine.connectors.source import Source, SplitReader
from onceproof.engine.graph import InvalidJob
from onceproof.engine.runtime.job_result import JobExecutionFailed
from tests.patience import PATIENCE_SECONDS

WAYS = {"ordered": AsyncDataStream.ordered_wait, "unordered": AsyncDataStream.unordered_wait}
MINUTE = Time.minutes(1)


class Doubled(AsyncFunction):
    """Answers after some milliseconds, the even numbers later than the odd ones."""

    async def async_invoke(self, value):
        await asyncio.sleep(0.004 if value % 2 == 0 else 0.001)
        return [value, -value]


def environment(parallelism=1, **options):
    settings = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(settings))
    return env.set_parallelism(parallelism)


def numbers(last, **options):
    env = environment(**options)
    return env.from_source(NumberSequenceSource(0, last), WatermarkStrategy.no_watermarks(), "numbers")


def no_thread_is_left():
    given_up = time.monotonic() + PATIENCE_SECONDS
    while [each for each in threading.enumerate() if each.name.startswith("requests-")]:
        assert time.monotonic() < given_up, "a thread of requests is left"
        time.sleep(0.01)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("parallelism", [1, 3])
def test_each_value_has_its_results_and_no_thread_is_left(way, parallelism):
    stream = numbers(300, parallelism=parallelism, execution__checkpointing__interval="10 ms")
    rows = list(way(stream, Doubled(), MINUTE, 20).execute_and_collect())
    assert sorted(rows) == sorted([sign * number for number in range(301) for sign in (1, -1)])
    no_thread_is_left()


def test_ordered_results_are_in_the_order_of_the_values():
    rows = list(AsyncDataStream.ordered_wait(numbers(200), Doubled(), MINUTE).execute_and_collect())
    assert rows == [sign * number for number in range(201) for sign in (1, -1)]


def test_timers_and_checkpoints_go_on_while_requests_wait():
    completed, is_seen = [], threading.Event()

    class Slow(AsyncFunction):
        """Answers for the last value once checkpoints are complete, which wait behind the others."""

        async def async_invoke(self, value):
            while value == 3 and not (is_seen.is_set() and len(completed) > 20):
                await asyncio.sleep(0.005)
            return [value]

    class Listens(MapFunction, CheckpointListener):
        def map(self, value):
            return value

        def notify_checkpoint_complete(self, checkpoint_id):
            completed.append(checkpoint_id)

    stream = numbers(3, execution__checkpointing__interval="10 ms", restart_strategy__type="disable")
    waiting = AsyncDataStream.unordered_wait(stream, Slow(), MINUTE, 1).map(Listens())
    with waiting.execute_and_collect() as rows:
        assert next(rows) == 0
        client = rows._client
        assert client.get_job_status().result().name == "RUNNING"
        is_seen.set()
        assert list(rows) == [1, 2, 3]
    assert client.get_job_execution_result().result().checkpoints > 20


def test_error_of_a_request_fails_the_job_in_one_line():
    class Broken(AsyncFunction):
        async def async_invoke(self, value):
            raise ValueError(f"cannot ask for {value}")

    stream = numbers(3, restart_strategy__type="disable")
    with pytest.raises(JobExecutionFailed, match=r"Async Wait.*ValueError: cannot ask for 0"):
        list(AsyncDataStream.ordered_wait(stream, Broken(), MINUTE).execute_and_collect())
    no_thread_is_left()


def test_request_that_times_out_fails_the_job_by_default():
    class Never(AsyncFunction):
        async def async_invoke(self, value):
            await asyncio.sleep(3600)

    stream = numbers(0, restart_strategy__type="disable")
    with pytest.raises(JobExecutionFailed, match="TimeoutError: the request for 0 has timed out"):
        list(AsyncDataStream.ordered_wait(stream, Never(), Time.milliseconds(20)).execute_and_collect())
    no_thread_is_left()


class Plain(AsyncFunction):
    def async_invoke(self, value):
        return [value]


ONCE_MORE = AsyncRetryStrategy.fixed_delay(1, 1)


@pytest.mark.parametrize(
    ("said", "function", "timeout", "strategy", "capacity"),
    [
        ("takes an AsyncFunction, not <built-in function abs>", abs, MINUTE, ONCE_MORE, 1),
        (
            "async_invoke of Plain is not a coroutine: declare it with async def",
            Plain(),
            MINUTE,
            ONCE_MORE,
            1,
        ),
        ("None is not an AsyncRetryStrategy", Doubled(), MINUTE, None, 1),
        ("capacity of Doubled is 0: give a whole number of at least 1", Doubled(), MINUTE, ONCE_MORE, 0),
        ("Doubled is tried again without a timeout", Doubled(), Time.milliseconds(0), ONCE_MORE, 1),
    ],
)
def test_what_cannot_run_is_refused_with_the_mend(said, function, timeout, strategy, capacity):
    with pytest.raises(InvalidJob, match=said):
        AsyncDataStream.ordered_wait_with_retry(numbers(1), function, timeout, strategy, capacity)


def test_time_out_needs_a_unit():
    with pytest.raises(TypeError, match="timeout is 5: give a Duration or a Time"):
        AsyncDataStream.ordered_wait(numbers(1), Doubled(), 5)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("max_attempts", lambda: AsyncRetryStrategy.fixed_delay(0, 1)),
        ("backoff_time_millis", lambda: AsyncRetryStrategy.fixed_delay(1, 0)),
        ("multiplier", lambda: AsyncRetryStrategy.exponential_backoff(1, 1, 1, 0)),
        ("result_predicate", lambda: AsyncRetryStrategy.fixed_delay(1, 1, result_predicate=3)),
    ],
)
def test_wrong_part_of_a_strategy_is_named(name, make):
    with pytest.raises(ValueError, match=f"^{name} is "):
        make()


def test_async_wait_begins_a_chain_and_has_the_usual_capacity():
    stream = AsyncDataStream.ordered_wait(numbers(1), Doubled(), MINUTE)
    stream.print()
    source, waiting = stream._environment.get_job_graph().vertices
    assert (source.name, waiting.name) == ("numbers", "Async Wait -> Print to Std. Out")
    assert DEFAULT_CAPACITY == 100


class FeedReader(SplitReader):
    """Forty numbers, and then nothing for now."""

    position = 0

    exhausted = False
    retry_ms = 10

    def __init__(self, position):
        self.position = position

    def read(self, limit):
        begin = self.position
        self.position = min(begin + limit, 40)
        return [(number, None) for number in range(begin, self.position)]


class Feed(Source):
    is_bounded = False

    def splits(self):
        return ["feed"]

    def open_split(self, split, position):
        return FeedReader(position or 0)


class Stuck(AsyncFunction):
    """Answers only where the file is there."""

    def __init__(self, path):
        self.path = path

    async def async_invoke(self, value):
        while not Path(self.path).exists():
            await asyncio.sleep(0.005)
        return [value]


def stop_when_running(client, *, drains):
    """Stop the job with a savepoint, once its tasks run and have had time for requests."""
    given_up = time.monotonic() + PATIENCE_SECONDS
    while True:
        time.sleep(0.3)
        try:
            client.stop_with_savepoint(drains).result(PATIENCE_SECONDS)
        except SavepointFailed:
            assert time.monotonic() < given_up, "the tasks do not run"
        else:
            break
    client.get_job_execution_result().result(PATIENCE_SECONDS)


@pytest.mark.parametrize("workers", [1, 2])
def test_values_in_flight_are_in_the_savepoint_and_asked_for_again(tmp_path, workers):
    def start():
        env = environment(
            2,
            execution__checkpointing__interval="20 ms",
            execution__checkpointing__dir=str(tmp_path / "checkpoints"),
            execution__checkpointing__savepoint_dir=str(tmp_path / "savepoints"),
            execution__local__workers=workers,
        )
        stream = env.from_source(Feed(), None, "feed").rebalance()
        waiting = AsyncDataStream.unordered_wait(stream, Stuck(str(tmp_path / "answers")), MINUTE)
        sink = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build()
        waiting.sink_to(sink)
        return env.execute_async("lookups")

    stop_when_running(start(), drains=False)
    (tmp_path / "answers").touch()
    stop_when_running(start(), drains=True)
    files = [path for path in (tmp_path / "out").glob("*") if not path.name.startswith(".")]
    rows = [int(line) for path in files for line in path.read_text().splitlines()]
    assert sorted(rows) == list(range(40))
