"""A function that takes long for each record: time goes on for it, and nothing waits for its whole buffer.

The clocks of these tests stand still but while the function works, so the tests take the same steps on
every machine.
"""

from collections import Counter

import pytest

from onceproof.engine import (
    Configuration,
    KeyedProcessFunction,
    SinkFunction,
    StateTtlConfig,
    StreamExecutionEnvironment,
    Time,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.protocol_points import ELEMENT
from onceproof.engine.runtime.clocks import Clocks
from onceproof.engine.runtime.job_requests import JobRequest
from onceproof.engine.runtime.job_startup import open_job_storage
from onceproof.engine.runtime.local import LocalExecution
from onceproof.engine.runtime.recovery import recover

EPOCH_MS = 1_000_000_000_000
RECORD_MS = 10
TIMEOUT_MS = 100
KEYS = 5


class WorkingClocks(Clocks):
    """Time passes only where a function works, or the driver waits."""

    def __init__(self):
        self.now_ns = 0

    def work(self, milliseconds):
        self.now_ns += int(milliseconds * 1_000_000)

    def steady_ns(self):
        return self.now_ns

    def wall_ms(self):
        return EPOCH_MS + self.steady_ms()


class InlineWriter:
    """Does all work at once."""

    def __init__(self, writer):
        self.writer = writer

    def submit(self, work):
        self.writer.report(work.run())

    def withdraw(self, is_void):
        return []

    def close(self):
        pass


class Run(LocalExecution):
    """A run by the clocks of the test, which pass when the driver would wait."""

    def __init__(self, graph, clocks, probe=lambda *point: None):
        storage = open_job_storage(graph)
        self.completed_ms = []
        super().__init__(graph, storage, recover(storage, 1), probe, clocks=clocks)

    def make_writer(self, report):
        return InlineWriter(super().make_writer(report))

    def _wait(self):
        if not self._request_final_checkpoint():
            self._clocks.work(1)

    def checkpoint_completed(self, effect):
        super().checkpoint_completed(effect)
        self.completed_ms.append(self._clocks.steady_ms())


def slow(clocks, seen, record_ms=RECORD_MS, after=lambda: None):
    """Return a function that takes 10 ms for each record, and notes what it sees of time.

    ``seen`` and ``clocks`` are not its attributes, because each subtask has a copy of the function.
    """
    duration_ms = record_ms if callable(record_ms) else lambda value: record_ms

    class Slow(KeyedProcessFunction):
        def process_element(self, value, ctx):
            timers = ctx.timer_service()
            now = timers.current_processing_time()
            seen.setdefault("stale_ms", []).append(clocks.wall_ms() - now)
            seen.setdefault("watermarks", set()).add(timers.current_watermark())
            timers.register_processing_time_timer(now + 35)
            clocks.work(duration_ms(value))
            seen["processed"] = seen.get("processed", 0) + 1
            after()
            yield value

        def on_timer(self, timestamp, ctx):
            seen.setdefault("late_ms", []).append(clocks.wall_ms() - timestamp)

    return Slow()


class Ignore(SinkFunction):
    """Takes the rows and forgets them."""

    def invoke(self, value, context):
        pass


def described(function, records=300, strategy=None, parallelism=1, own_timeout_ms=None, **options):
    """Return the graph of a keyed job over records with timestamps.

    ``own_timeout_ms`` is the buffer timeout of the function, in place of the job's.
    """
    settings = {
        "execution.checkpointing.interval": "50 ms",
        "pipeline.auto-watermark-interval": "20 ms",
        "pipeline.max-parallelism": 16,
        **{key.replace("__", ".").replace("_", "-"): value for key, value in options.items()},
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(settings))
    env.set_parallelism(parallelism)
    source = CollectionSource({"0": [(number, number) for number in range(records)]})
    stream = env.from_source(source, strategy, "numbers")
    processed = stream.key_by(lambda number: number % KEYS, Types.LONG()).process(function)
    if own_timeout_ms is not None:
        processed.set_buffer_timeout(own_timeout_ms)
    processed.add_sink(Ignore())
    return env.get_job_graph("slow")


@pytest.fixture
def clocks():
    return WorkingClocks()


@pytest.mark.parametrize("parallelism", [1, 4])
def test_processing_time_is_that_of_each_record(clocks, parallelism):
    seen = {}
    Run(described(slow(clocks, seen), parallelism=parallelism), clocks).run()
    assert set(seen["stale_ms"]) == {0}
    assert seen["processed"] == 300


@pytest.mark.parametrize("parallelism", [1, 4])
def test_timers_fire_within_the_buffer_timeout(clocks, parallelism):
    seen = {}
    Run(described(slow(clocks, seen), parallelism=parallelism), clocks).run()
    assert len(seen["late_ms"]) > 100
    assert max(seen["late_ms"]) <= TIMEOUT_MS + RECORD_MS


def test_without_a_buffer_timeout_timers_wait_for_whole_buffers(clocks):
    seen = {}
    Run(described(slow(clocks, seen), execution__buffer_timeout__enabled=False), clocks).run()
    assert max(seen["late_ms"], default=0) > 10 * TIMEOUT_MS or "late_ms" not in seen
    assert set(seen["stale_ms"]) == {0}


def test_watermarks_pass_while_a_function_is_slow(clocks):
    seen = {}
    Run(described(slow(clocks, seen), strategy=WatermarkStrategy.for_monotonous_timestamps()), clocks).run()
    assert len(seen["watermarks"]) > 50


@pytest.mark.parametrize("parallelism", [1, 4])
def test_checkpoints_complete_while_a_function_is_slow(clocks, parallelism):
    seen = {}
    run = Run(described(slow(clocks, seen), parallelism=parallelism), clocks)
    run.run()
    pauses = [later - earlier for earlier, later in zip(run.completed_ms, run.completed_ms[1:], strict=False)]
    assert len(pauses) > 10
    assert max(pauses) <= 50 + TIMEOUT_MS + 2 * RECORD_MS


def test_stop_is_answered_within_the_buffer_timeout(clocks, tmp_path):
    seen, answers = {}, []

    def ask():
        if seen["processed"] == 100:
            seen["asked_ms"] = clocks.steady_ms()
            run.submit(JobRequest("stop", str(tmp_path / "savepoints")), answers.append)

    run = Run(described(slow(clocks, seen, after=ask)), clocks)
    run.run()
    [answer] = answers
    assert answer.error == ""
    assert clocks.steady_ms() - seen["asked_ms"] <= TIMEOUT_MS + 2 * RECORD_MS
    assert seen["processed"] < 120


def test_timeout_of_zero_sends_each_record_by_itself(clocks):
    buffers = []

    def probe(point, task, checkpoint_id):
        if point == ELEMENT:
            buffers.append(task)

    graph = described(slow(clocks, {}, 0), execution__buffer_timeout__interval="0 ms")
    Run(graph, clocks, probe).run()
    assert len(buffers) >= 600


@pytest.mark.parametrize(("own_timeout_ms", "is_each_alone"), [(None, False), (0, True)])
def test_timeout_of_zero_of_one_function_gives_it_each_record_alone(clocks, own_timeout_ms, is_each_alone):
    tasks = Counter()

    def probe(point, task, checkpoint_id):
        if point == ELEMENT:
            tasks[task] += 1

    Run(described(slow(clocks, {}, 0), own_timeout_ms=own_timeout_ms), clocks, probe).run()
    assert len(tasks) == 2
    assert (min(tasks.values()) >= 300) == is_each_alone


def test_function_whose_own_timeout_is_none_gets_whole_buffers(clocks):
    seen = {}
    Run(described(slow(clocks, seen), own_timeout_ms=-1), clocks).run()
    assert max(seen["late_ms"], default=0) > 10 * TIMEOUT_MS or "late_ms" not in seen


def test_fast_functions_get_whole_buffers(clocks):
    buffers = []

    def probe(point, task, checkpoint_id):
        if point == ELEMENT:
            buffers.append(task)

    Run(described(slow(clocks, {}, 0.001), 20_000), clocks, probe).run()
    assert len(buffers) < 3 * 2 * (20 + 12)


def test_function_that_turns_slow_is_late_once(clocks):
    seen = {}

    turning = slow(clocks, seen, lambda value: 0.001 if value < 5000 else RECORD_MS)
    Run(described(turning, 5600), clocks).run()
    assert seen["processed"] == 5600
    assert [late for late in seen["late_ms"][-50:] if late > TIMEOUT_MS + RECORD_MS] == []


def test_time_to_live_goes_on_within_a_buffer(clocks):
    expired = []

    class Remembering(KeyedProcessFunction):
        def open(self, runtime_context):
            descriptor = ValueStateDescriptor("last", Types.LONG())
            descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(30)).build())
            self.last = runtime_context.get_state(descriptor)

        def process_element(self, value, ctx):
            expired.append(self.last.value() is None)
            self.last.update(value)
            clocks.work(RECORD_MS)
            yield value

    # Each key returns after 5 records, which take 50 ms; its state lives for 30.
    graph = described(Remembering(), execution__buffer_timeout__enabled=False)
    Run(graph, clocks).run()
    assert all(expired)
