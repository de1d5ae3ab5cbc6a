"""The third set of bugs from trackers: each changes a small run, made without, with and without it again."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from onceproof.engine import (
    AsyncDataStream,
    AsyncFunction,
    NumberSequenceSource,
    StreamExecutionEnvironment,
    Time,
    WatermarkStrategy,
)
from onceproof.engine.checkpoint.events import CheckpointTriggered
from onceproof.engine.checkpoint.in_flight_redistribution import Edge, redistribute_in_flight
from onceproof.engine.checkpoint.metadata import CheckpointMetadata, OperatorMetadata, SubtaskState, handle_of
from onceproof.engine.configuration.alignment import UNALIGNED
from onceproof.engine.connected_functions import ProcessJoinFunction
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.connectors.kafka.kafka_errors import KafkaUnavailable, TransactionLost
from onceproof.engine.connectors.kafka.row_producer import RowProducer
from onceproof.engine.connectors.kafka.transaction_function import KafkaTransactionFunction
from onceproof.engine.connectors.kafka.transactions import CommitAnswer, ProducerRecord
from onceproof.engine.connectors.write_ahead import CheckpointCommitter, GenericWriteAheadSink
from onceproof.engine.elements import CheckpointBarrier
from onceproof.engine.functions import KeyedProcessFunction, MapFunction
from onceproof.engine.graph import BROADCAST, JobVertex, OperatorNode
from onceproof.engine.job.channel_names import channel_names, vertex_ends
from onceproof.engine.messages import SYNC_SAVEPOINT, TriggerCheckpoint
from onceproof.engine.operators.base import Operator
from onceproof.engine.operators.co_process import InputKeys
from onceproof.engine.operators.interval_join import IntervalJoinOperator, IntervalJoinSettings
from onceproof.engine.operators.process import TimedProcessOperator
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.operators.window import WindowOperator
from onceproof.engine.operators.window_parts import WindowFunctions, WindowSettings
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.state.hashmap import HashMapStateBackend
from onceproof.engine.state.in_flight import INPUT, OUTPUT, ChannelId
from onceproof.engine.state.snapshot import TaskSnapshot, encode_task_snapshot
from onceproof.engine.state.ttl import StateTtlConfig
from onceproof.engine.task.events import Deliver, Restore, SnapshotStored, StoreSnapshot
from onceproof.engine.task.outputs import HashOutput, ahead_of_all
from onceproof.engine.task.task import TaskSettings
from onceproof.engine.task.unaligned_task import UnalignedTask
from onceproof.engine.types import Types
from onceproof.engine.windows.assigners import EventTimeSessionWindows
from onceproof.engine.windows.window_functions import ProcessWindowFunction
from tests.engine.checkpoint.conftest import CoordinatorBench
from tests.engine.connectors.conftest import SinkJob
from tests.engine.operators.conftest import Bench as OperatorBench
from tests.engine.task.conftest import ATTEMPT, TASK
from tests.engine.task.conftest import Bench as TaskBench
from tests.planted.bugs import pending_and_restored, times_and_targets
from tests.planted.small_runs import first, not_shown, shown, values

# Coordinator and tasks.


def test_checkpoint_that_was_not_stored_lets_no_other_one_begin() -> None:
    def triggered() -> list[int]:
        bench = CoordinatorBench()
        effects = [*bench.start(), *bench.elapse(100), *bench.acknowledge_all(1), *bench.not_stored(1)]
        for now in (200, 300, 1100, 1200):
            effects += bench.expire(1) if now == 1100 else []
            effects += bench.elapse(now)
        return bench.triggered(effects)

    assert shown("checkpoint-that-was-not-stored-stays-pending", triggered) == ([1, 2], [1])


def test_checkpoint_of_the_attempt_before_holds_the_next_one_up() -> None:
    def begun() -> list[tuple[int, int]]:
        bench = CoordinatorBench()
        found = []
        bench.start()
        bench.elapse(100)
        bench.end()
        bench.start("1.2")
        for now in (200, 300, 1100, 1200):
            effects = bench.elapse(now)
            effects += bench.expire(1, "1.1") if now == 1100 else []
            found += [(now, each.checkpoint_id) for each in effects if isinstance(each, CheckpointTriggered)]
        return found

    right, wrong = shown("failover-leaves-pending-checkpoints-to-their-time-out", begun)
    assert right == [(200, 2)]
    assert wrong == [(1100, 2)]


def test_stop_without_drain_emits_what_belongs_to_the_end() -> None:
    def sent() -> list[Any]:
        bench = TaskBench()
        head, tail = bench.recorder("head", at_end=["rest"]), bench.recorder("tail", at_end=["sum"])
        task = bench.task(bench.source("abc"), head, tail)
        bench.poll(task)
        task.handle(TriggerCheckpoint(ATTEMPT, TASK, 5, 1005, SYNC_SAVEPOINT), 0)
        task.handle(SnapshotStored(5, "file"), 0)
        task.handle(bench.complete(5), 0)
        return [value for element in bench.sent[0] if isinstance(element, list) for value in values(element)]

    right, wrong = shown("stop-without-drain-ends-the-input", sent)
    assert right == ["a"]
    assert wrong == ["a", "rest", "sum"]


def test_records_in_flight_are_stored_in_another_order() -> None:
    def stored() -> list[Any]:
        bench = TaskBench()
        inputs = tuple([ChannelId(INPUT, "up", "work", 0, sender, 1) for sender in range(2)])
        outputs = (ChannelId(OUTPUT, "work", "down", 0, 1, 0),)
        node = OperatorNode("0" * 32, None, "op", Operator)
        vertex = JobVertex(0, "work", (node,), 2, 8, True, (), ())
        settings = TaskSettings(ATTEMPT, 1, bench.probe, True, options=UNALIGNED)
        task = UnalignedTask(TASK, vertex, settings, (0, 0), [bench.recorder("op")])
        task.connect([HashOutput([deque()], lambda value: value, None, 1)])
        task.name_channels(inputs, (outputs,))
        task.handle(Restore(None, {}), 0)
        barrier = CheckpointBarrier(3, 0, options=UNALIGNED)
        task.queues[1].append([("waited", None)])
        ahead_of_all(task.queues[0], barrier)
        task.handle(Deliver(0), 0)
        task.queues[1].append([("came later", None)])
        for _ in range(2):
            task.handle(Deliver(1), 0)
        ahead_of_all(task.queues[1], barrier)
        effects = task.handle(Deliver(1), 0)
        (snapshot,) = [each.snapshot for each in effects if isinstance(each, StoreSnapshot)]
        return [value for buffer in snapshot.channels[inputs[1]] for value in values(buffer)]

    right, wrong = shown("records-that-arrive-during-a-snapshot-are-stored-first", stored)
    assert right == ["waited", "came later"]
    assert wrong == ["came later", "waited"]


# What a restore deals out.


class Same(MapFunction):
    def map(self, value: Any) -> Any:
        return value


def test_broadcast_record_in_flight_does_not_reach_a_new_subtask() -> None:
    def rules_after_a_rescale() -> list[bool]:
        """Return for each of three subtasks whether it knows a rule that one of two had read before."""
        env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
        source = env.from_source(NumberSequenceSource(0, 1), WatermarkStrategy.no_watermarks(), "rules")
        source.broadcast().map(Same()).print()
        inputs, outputs = vertex_ends(env.get_job_graph())[0]
        (names,) = channel_names(inputs, outputs, (), 0).outputs
        if names is None:
            # The barrier stays behind the rule: both had read it.
            return [True, True, True]
        channel = ChannelId(OUTPUT, "source", "target", 0, 0, 0)
        encoded = encode_task_snapshot(TaskSnapshot({}, {channel: [[("rule", None)]]}))
        sender = SubtaskState(handle_of("chk-1/source-0", encoded), False)
        metadata = CheckpointMetadata(
            1,
            "job",
            "job",
            0,
            "checkpoint",
            "1.1",
            (
                OperatorMetadata("source", "s", "source", 1, 8, (sender,)),
                OperatorMetadata("target", "t", "target", 2, 8, (SubtaskState(None, False),) * 2),
            ),
        )
        dealt = redistribute_in_flight(metadata, [Edge("source", "target", 0, BROADCAST, 1, 3, 8)])
        had_read = (False, True)
        return [had_read[subtask % 2] or (0, subtask) in dealt for subtask in range(3)]

    right, wrong = shown("barriers-overtake-on-broadcast-edges", rules_after_a_rescale)
    assert right == [True, True, True]
    assert wrong == [True, True, False]


class Alarm(KeyedProcessFunction):
    """A timer for each value, which is (key, timestamp): in event time, below 0 in processing time."""

    def process_element(self, value: Any, ctx: Any) -> None:
        if value[1] < 0:
            ctx.timer_service().register_processing_time_timer(-value[1])
        else:
            ctx.timer_service().register_event_time_timer(value[1])

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key()


def alarm() -> TimedProcessOperator:
    return TimedProcessOperator(Alarm(), first, Types.STRING())


def test_timers_fire_in_two_subtasks_after_a_rescale() -> None:
    keys = [f"key {number}" for number in range(20)]

    def fired() -> list[str]:
        bench = OperatorBench()
        operator = bench.open(alarm())
        bench.process(operator, *[(key, 10) for key in keys])
        restored = bench.restore_all([operator], alarm, 2)
        return sorted(key for each in restored for key in values(each.process_watermark(10)))

    right, wrong = shown("files-are-restored-with-the-key-groups-of-others", fired)
    assert right == sorted(keys)
    assert wrong == sorted(keys * 2)


class Listed(CollectionSource):
    """Splits of which one may be missing in the list."""

    def __init__(self, missing: str = "") -> None:
        super().__init__({name: [(f"{name}{place}", None) for place in range(3)] for name in "ab"})
        self.missing = missing

    def splits(self) -> list[str]:
        return [split for split in super().splits() if split != self.missing]


def read_on(missing: str = "") -> list[str]:
    """Read a record of split a, restore that, and return all values that are read."""
    bench = OperatorBench()
    operator = bench.open(SourceOperator(Listed()))
    read = values(operator.poll(1))
    (restored,) = bench.restore_all([operator], lambda: SourceOperator(Listed(missing)), 1)
    while records := restored.poll(1):
        read += values(records)
    return sorted(read)


def test_restored_split_is_read_from_its_beginning_as_well() -> None:
    right, wrong = shown("restored-splits-are-assigned-again", read_on)
    assert right == ["a0", "a1", "a2", "b0", "b1", "b2"]
    assert wrong == sorted([*right, *right])


def test_split_that_is_not_listed_at_the_restore_is_not_read_on() -> None:
    right, wrong = shown("splits-that-are-not-listed-lose-their-position", lambda: read_on("b"))
    assert right == ["a0", "a1", "a2", "b0", "b1", "b2"]
    assert wrong == ["a0", "a1", "a2"]


# State, time and windows.


def test_value_is_there_behind_its_time_to_live() -> None:
    def seen() -> list[int | None]:
        now = [0]
        backend = HashMapStateBackend(8, (0, 7), Types.STRING(), lambda: now[0])
        backend.current_key = "a"
        descriptor = ValueStateDescriptor("count", Types.LONG())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(100)).build())
        state = backend.state(descriptor)
        state.update(1)
        found = []
        for now[0] in (99, 100, 250):
            found.append(state.value())
        return found

    assert shown("expired-values-live-on-in-a-cache", seen) == ([1, None, None], [1, 1, 1])


def test_result_of_a_processing_timer_gets_an_event_time() -> None:
    def fired() -> list[tuple[str, int | None]]:
        bench = OperatorBench()
        operator = bench.open(alarm())
        bench.process(operator, ("a", -20), ("b", -30))
        fired_then: list[tuple[str, int | None]] = operator.process_time(40)
        return fired_then

    right, wrong = shown("results-of-processing-timers-carry-processing-time", fired)
    assert right == [("a", None), ("b", None)]
    assert wrong == [("a", 20), ("b", 30)]


class Session(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        window = context.window()
        yield window.start, window.end, [number for _, number in elements]


def test_session_begins_with_a_late_record_that_was_dropped() -> None:
    def sessions() -> list[tuple[int, int, list[int]]]:
        assigner = EventTimeSessionWindows.with_gap(Time.milliseconds(10))
        settings = WindowSettings(
            assigner=assigner,
            trigger=assigner.get_default_trigger(None),
            key_selector=first,
            key_type=Types.STRING(),
            value_type=Types.TUPLE([Types.STRING(), Types.LONG()]),
            accumulator_type=Types.LONG(),
        )
        operator = OperatorBench().open(WindowOperator(WindowFunctions(None, Session()), settings))
        operator.process_watermark(20)
        for number, timestamp in [(1, 10), (2, 9), (3, 18)]:
            operator.process_batch([(("a", number), timestamp)], 0)
        return values(operator.process_watermark(40))

    right, wrong = shown("late-session-stays-among-the-windows", sessions)
    assert right == [(18, 28, [3])]
    assert wrong == [(9, 28, [3])]


class Pair(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        yield left[1], right[1]


def test_pair_that_an_earlier_record_completes_has_the_earlier_time() -> None:
    def joined() -> list[Any]:
        keys = InputKeys((first, first), Types.STRING())
        settings = IntervalJoinSettings(lower_ms=-5, upper_ms=5, types=(None, None), late_tags=(None, None))
        operator = OperatorBench().open(IntervalJoinOperator(Pair(), keys, settings))
        operator.process_batch([(("a", 1), 12)], 0)
        results: list[Any] = operator.process_batch([(("a", 2), 9), (("a", 3), 14)], 1)
        return results

    right, wrong = shown("pair-carries-the-time-of-the-record-that-completes-it", joined)
    assert right == [((1, 2), 12), ((1, 3), 14)]
    assert wrong == [((1, 2), 9), ((1, 3), 14)]


class Later(AsyncFunction):
    async def async_invoke(self, value: Any) -> list[Any]:
        await asyncio.sleep(0.05)
        return [value]


def test_job_ends_without_the_results_of_its_last_requests() -> None:
    def results() -> list[int]:
        env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        stream = env.from_source(NumberSequenceSource(0, 3), WatermarkStrategy.no_watermarks(), "numbers")
        waiting = AsyncDataStream.unordered_wait(stream, Later(), Time.minutes(1))
        return sorted(waiting.execute_and_collect())

    assert shown("input-ends-ahead-of-its-requests", results) == ([0, 1, 2, 3], [])


# Targets.


class Broker:
    """Knows no transaction, as a broker at which none has begun."""

    def check(self, topics: Any, timeout_ms: int) -> None:
        """Let the sink begin."""

    def commit(self, handle: Any) -> CommitAnswer:
        return CommitAnswer.FORGOTTEN

    def open_transactions(self, prefix: str) -> list[Any]:
        return []


class Rows:
    topics = ("rows",)


def test_restore_fails_where_a_subtask_had_no_rows() -> None:
    def restored() -> str:
        job = SinkJob(lambda: KafkaTransactionFunction(Broker, Rows(), "sink", 1000))  # type: ignore[arg-type]
        job.start()
        job.snapshot(1)
        try:
            job.start(restored=1)
        except TransactionLost as error:
            return str(error)
        return "restored"

    right, wrong = shown("restored-transaction-without-rows-is-committed", restored)
    assert right == "restored"
    assert wrong.startswith("0 rows for  of subtask 0 after checkpoint 0 are lost")


class Batches(GenericWriteAheadSink, CheckpointCommitter):
    """A sink and its target, which takes nothing until it is ``ready``."""

    def __init__(self) -> None:
        super().__init__(self)
        self.is_ready = False
        self.rows: list[Any] = []

    def open(self, runtime_context: Any = None) -> None:
        """Connect to nothing."""

    def close(self) -> None:
        """Keep the rows."""

    def commit_checkpoint(self, subtask_idx: int, checkpoint_id: int) -> None:
        """Rely on the batch not coming again."""

    def is_checkpoint_committed(self, subtask_idx: int, checkpoint_id: int) -> bool:
        return False

    def send_batch(self, batch: Any) -> bool:
        if self.is_ready:
            self.rows += batch.values
        return self.is_ready


def test_batches_that_the_target_refused_come_in_reverse() -> None:
    def rows() -> list[str]:
        job = SinkJob(Batches)
        sink = job.start()
        for checkpoint_id, value in enumerate("ab", start=1):
            sink.invoke(value, None)
            job.snapshot(checkpoint_id)
        job.notify(2)
        sink.is_ready = True
        sink.invoke("c", None)
        job.snapshot(3)
        job.notify(3)
        found: list[str] = sink.rows
        return found

    assert shown("refused-batches-wait-in-reverse", rows) == (["a", "b", "c"], ["b", "a", "c"])


class LosingClient:
    """A client of Kafka that reports its first row as lost when it is polled."""

    def __init__(self, report: Callable[[Any, Any], None]) -> None:
        self.report = report
        self.has_row = False

    def produce(self, *row: Any) -> None:
        self.has_row = True

    def poll(self, timeout_s: float) -> int:
        from confluent_kafka import KafkaError

        if self.has_row:
            self.has_row = False
            self.report(KafkaError(KafkaError._MSG_TIMED_OUT), Message())
        return 0

    def flush(self, timeout_s: float) -> int:
        return 0


class Message:
    def topic(self) -> str:
        return "rows"

    def value(self) -> bytes:
        return b"row"


def test_row_that_kafka_lost_does_not_fail_the_checkpoint() -> None:
    pytest.importorskip("confluent_kafka", reason="needs the extra kafka")

    def outcome() -> str:
        producer = RowProducer({"bootstrap.servers": "127.0.0.1:1"})
        producer._producer = LosingClient(producer._report)  # type: ignore[assignment]
        try:
            producer.produce([ProducerRecord("rows", b"row")])
            producer.flush(1)
        except KafkaUnavailable:
            return "failed"
        return "stored"

    assert shown("row-that-was-not-stored-is-forgotten", outcome) == ("failed", "stored")


def test_each_bug_of_the_set_is_shown_here() -> None:
    assert not_shown(__file__, pending_and_restored, times_and_targets) == []
