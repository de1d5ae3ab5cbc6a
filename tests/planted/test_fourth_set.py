"""The fourth set of bugs from trackers: each changes a small run, made without, with and without it again."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from onceproof.engine import (
    ContinuousEventTimeTrigger,
    Duration,
    PurgingTrigger,
    SimpleStringSchema,
    SlidingEventTimeWindows,
    Time,
    TumblingEventTimeWindows,
    Types,
    WatermarkStrategy,
)
from onceproof.engine.configuration.alignment import UNALIGNED
from onceproof.engine.connected_functions import ProcessJoinFunction
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.connectors.kafka.kafka_errors import KafkaUnavailable
from onceproof.engine.connectors.kafka.offsets import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
)
from onceproof.engine.connectors.kafka.partition_reader import ClusterOffsets, PartitionReader, ReaderPosition
from onceproof.engine.elements import IDLE, CheckpointBarrier, Watermark
from onceproof.engine.graph import JobVertex, OperatorNode
from onceproof.engine.job.events import Deploy, DeploymentFailed, RestartDue, StartJob, StartRestartTimer
from onceproof.engine.operators.async_requests import Answer
from onceproof.engine.operators.base import Operator, OperatorContext
from onceproof.engine.operators.co_process import InputKeys
from onceproof.engine.operators.interval_join import IntervalJoinOperator, IntervalJoinSettings
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.operators.window import WindowOperator
from onceproof.engine.operators.window_parts import WindowFunctions, WindowSettings
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.state.in_flight import INPUT, OUTPUT, ChannelId
from onceproof.engine.task.events import Deliver, Restore
from onceproof.engine.task.outputs import HashOutput, ahead_of_all
from onceproof.engine.task.task import TaskSettings
from onceproof.engine.task.unaligned_task import UnalignedTask
from onceproof.engine.watermarks.combined import CombinedInputs
from onceproof.engine.watermarks.stamping import TimestampsAndWatermarks
from onceproof.engine.windows.window_functions import ProcessWindowFunction
from tests.engine.connectors.conftest import SinkJob
from tests.engine.connectors.test_two_phase import Outside, SweepingSink
from tests.engine.job.test_master import Job as MasterJob
from tests.engine.operators.conftest import Behind
from tests.engine.operators.conftest import Bench as OperatorBench
from tests.engine.operators.test_async_wait import Job as RequestJob
from tests.engine.task.conftest import ATTEMPT, TASK
from tests.engine.task.conftest import Bench as TaskBench
from tests.planted.bugs import restarts_and_sweeps, splits_and_windows
from tests.planted.small_runs import first, not_shown, shown, values

PLACE = KafkaTopicPartition("rows", 0)


# Restarts.


def test_second_failure_of_an_attempt_deploys_beside_the_next_one() -> None:
    def deployed() -> list[str]:
        job = MasterJob().start()
        effects = [*job.fail(), *job.fail()]
        found = []
        for timer in [each for each in effects if isinstance(each, StartRestartTimer)]:
            assert isinstance(timer.event, RestartDue)
            found += [each.attempt for each in job.handle(timer.event) if isinstance(each, Deploy)]
        return found

    right, wrong = shown("failure-during-a-restart-begins-another", deployed)
    assert right == ["1.2"]
    assert wrong == ["1.2", "1.3"]


def test_deployment_that_failed_for_now_is_not_tried_again() -> None:
    def restarts() -> int:
        job = MasterJob()
        job.handle(StartJob())
        effects = job.handle(DeploymentFailed("no answer", True))
        return sum(isinstance(each, StartRestartTimer) for each in effects)

    assert shown("deployment-that-may-be-tried-again-is-forgotten", restarts) == (1, 0)


def test_older_checkpoint_takes_the_place_of_the_newer_one() -> None:
    def error() -> str:
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
        for channel, checkpoint_id in ((1, 4), (0, 3)):
            ahead_of_all(task.queues[channel], CheckpointBarrier(checkpoint_id, 0, options=UNALIGNED))
            task.handle(Deliver(channel), 0)
        try:
            task.validate()
        except AssertionError as found:
            return str(found)
        return ""

    right, wrong = shown("older-checkpoint-begins-behind-a-newer-one", error)
    assert right == ""
    assert wrong.endswith("holds a snapshot of checkpoint 3 though barriers of 4 are awaited")


def test_next_attempt_finds_the_state_of_the_one_before() -> None:
    def found() -> list[Any]:
        counts = []
        for attempt in ("1.1", "1.2"):
            context = OperatorContext(
                task_name="work",
                subtask=0,
                parallelism=1,
                max_parallelism=8,
                key_groups=(0, 7),
                attempt=attempt,
                clock=lambda: 0,
                steady_clock=lambda: 0,
                probe=lambda point, checkpoint_id: None,
            )
            backend = context.keyed_backend(Types.STRING())
            backend.current_key = "a"
            state = backend.state(ValueStateDescriptor("count", Types.LONG()))
            counts.append(state.value())
            state.update(3)
        return counts

    assert shown("state-of-a-dead-attempt-is-found-again", found) == ([None, None], [None, 3])


# Sinks that clean up.


def test_second_subtask_aborts_what_the_first_has_begun() -> None:
    def status() -> list[str]:
        outside = Outside()
        SinkJob(lambda: SweepingSink(outside)).start(parallelism=2)
        return list(outside.status.values())

    right, wrong = shown("restart-aborts-what-its-own-attempt-has-begun", status)
    assert right == ["open", "open"]
    assert wrong == ["aborted", "open"]


def test_subtask_without_restored_state_leaves_a_transaction_open() -> None:
    def status_of_the_dead_attempt() -> list[str]:
        outside = Outside()
        job = SinkJob(lambda: SweepingSink(outside))
        job.start()
        job.snapshot(1)
        for _ in range(2):
            job.start(parallelism=2, restored=1)
        return [outside.status[f"{subtask}/1/1.2"] for subtask in range(2)]

    right, wrong = shown("restore-without-state-is-not-finished", status_of_the_dead_attempt)
    assert right == ["aborted", "aborted"]
    assert wrong == ["aborted", "open"]


# Splits.


def read_on(records_before: int) -> list[str]:
    """Read some records of two splits by turns, restore, and return all values that are read."""
    source = CollectionSource({name: [(f"{name}{place}", None) for place in range(2)] for name in "ab"})
    bench = OperatorBench()
    operator = bench.open(SourceOperator(source))
    read = [value for _ in range(records_before) for value in values(operator.poll(1))]
    (restored,) = bench.restore_all([operator], lambda: SourceOperator(source), 1)
    while records := restored.poll(1):
        read += values(records)
    return sorted(read)


def test_split_that_was_not_read_before_is_not_read_at_all() -> None:
    right, wrong = shown("split-that-was-not-read-yet-is-in-no-checkpoint", lambda: read_on(1))
    assert right == ["a0", "a1", "b0", "b1"]
    assert wrong == ["a0", "a1"]


def test_split_that_was_not_read_last_is_read_again() -> None:
    right, wrong = shown("only-the-split-that-was-read-last-is-stored", lambda: read_on(2))
    assert right == ["a0", "a1", "b0", "b1"]
    assert wrong == ["a0", "a0", "a1", "b0", "b1"]


class Row:
    """A row of Kafka, or the notice that its partition has no more up to an offset."""

    def __init__(self, offset: int, error: Any = None) -> None:
        self._offset = offset
        self._error = error

    def error(self) -> Any:
        return self._error

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 100

    def value(self) -> bytes:
        return b"row"


class Partition:
    """A consumer of one row with the mark of its transaction behind it, whose group is not to be asked."""

    def __init__(self) -> None:
        from confluent_kafka import KafkaError

        self.messages = [Row(0), Row(2, KafkaError(KafkaError._PARTITION_EOF))]

    def assign(self, places: Any) -> None:
        """Read the one partition."""

    def poll(self, timeout_s: float) -> Row | None:
        return self.messages.pop(0) if self.messages else None

    def consume(self, count: int, timeout_s: float) -> list[Row]:
        found, self.messages = self.messages[:count], self.messages[count:]
        return found

    def get_watermark_offsets(self, place: Any, timeout: float) -> tuple[int, int]:
        return 0, 2

    def committed(self, places: Any, timeout: float) -> Any:
        from confluent_kafka import KafkaError, KafkaException

        raise KafkaException(KafkaError(KafkaError._TRANSPORT))


def test_reader_does_not_end_behind_the_mark_of_a_transaction() -> None:
    pytest.importorskip("confluent_kafka", reason="needs the extra kafka")

    def ends() -> tuple[list[str], bool]:
        partition: Any = Partition()
        reader = PartitionReader(
            partition, PLACE, ReaderPosition(0, 2), SimpleStringSchema(), "servers", commits=False
        )
        read = [value for _ in range(3) for value in values(reader.read(10))]
        return read, reader.exhausted

    assert shown("marks-at-the-end-are-waited-for", ends) == ((["row"], True), (["row"], False))


def test_reader_begins_anew_where_the_group_could_not_be_asked() -> None:
    pytest.importorskip("confluent_kafka", reason="needs the extra kafka")

    def begins_at() -> int | str:
        partition: Any = Partition()
        offsets = ClusterOffsets(partition, PLACE, "servers")
        begin = KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST)
        try:
            return begin.offset_of(PLACE, offsets)
        except KafkaUnavailable:
            return "tries again"

    assert shown("group-that-cannot-be-asked-has-no-offset", begins_at) == ("tries again", 0)


# Idleness.


def test_source_reads_on_while_it_counts_as_idle() -> None:
    def sent() -> list[Any]:
        now = [0]
        behind = Behind()
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_millis(10))
        stamping = TimestampsAndWatermarks(strategy, [0], lambda: now[0], behind)
        stamping.stamp(0, [("a", 100)])
        for now[0] in (0, 10, 20, 30):
            stamping.on_periodic_emit()
        stamping.stamp(0, [("b", 90)])
        stamping.on_periodic_emit()
        return behind.elements

    right, wrong = shown("source-that-reads-on-stays-idle", sent)
    assert right == [99, "idle", "active"]
    assert wrong == [99, "idle"]


def test_event_time_waits_for_an_input_that_is_idle() -> None:
    def elements() -> list[Any]:
        inputs = CombinedInputs(2)
        return [*inputs.take(0, [Watermark(10)]), *inputs.take(1, [IDLE]), *inputs.take(0, [Watermark(20)])]

    right, wrong = shown("idle-input-holds-the-other-one-back", elements)
    assert right == [Watermark(10), Watermark(20)]
    assert wrong == []


# Windows, joins and requests.


class Numbers(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield [number for _, number in elements]


def test_early_firings_stop_at_the_first_empty_window() -> None:
    def fired() -> list[tuple[int, list[int]]]:
        settings = WindowSettings(
            assigner=TumblingEventTimeWindows.of(Time.milliseconds(100)),
            trigger=PurgingTrigger.of(ContinuousEventTimeTrigger.of(Time.milliseconds(10))),
            key_selector=first,
            key_type=Types.STRING(),
            value_type=Types.TUPLE([Types.STRING(), Types.LONG()]),
            accumulator_type=Types.LONG(),
        )
        operator = OperatorBench().open(WindowOperator(WindowFunctions(None, Numbers()), settings))
        found = []
        for number, timestamp in ((1, 1), (0, 25), (2, 35)):
            if number:
                operator.process_batch([(("a", number), timestamp)], 0)
            time = timestamp + 9
            found += [(time, numbers) for numbers in values(operator.process_watermark(time))]
        return found + [(99, numbers) for numbers in values(operator.process_watermark(99))]

    right, wrong = shown("timer-of-an-empty-window-is-ignored", fired)
    assert right == [(10, [1]), (44, [2])]
    assert wrong == [(10, [1]), (99, [2])]


def test_record_is_in_a_window_too_many_or_too_few() -> None:
    def windows() -> list[list[tuple[int, int]]]:
        context: Any = None
        found = []
        for size in (11, 19):
            assigner = SlidingEventTimeWindows.of(Time.milliseconds(size), Time.milliseconds(10))
            assigned = assigner.assign_windows("a", 6, context)
            found.append([(each.start, each.end) for each in assigned])
        return found

    right, wrong = shown("overlapping-windows-are-miscounted", windows)
    assert right == [[(0, 11)], [(0, 19), (-10, 9)]]
    assert wrong == [[(10, 21), (0, 11)], [(-10, 9)]]


class Pair(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        yield left[1], right[1]


def test_all_pairs_of_a_record_have_its_last_partner() -> None:
    def joined() -> list[Any]:
        keys = InputKeys((first, first), Types.STRING())
        settings = IntervalJoinSettings(lower_ms=-5, upper_ms=5, types=(None, None), late_tags=(None, None))
        operator = OperatorBench().open(IntervalJoinOperator(Pair(), keys, settings))
        operator.process_batch([(("a", 2), 11), (("a", 3), 12)], 1)
        return values(operator.process_batch([(("a", 1), 12)], 0))

    assert shown("joined-rows-share-one-object", joined) == ([(1, 2), (1, 3)], [(1, 3), (1, 3)])


def test_result_that_is_emitted_during_the_snapshot_is_in_none() -> None:
    def emitted_and_stored() -> tuple[list[Any], list[Any]]:
        job: Any = RequestJob()
        job.give("a", "b")
        job.runs.answers.append(Answer(1, ["answer 1"], None))
        stored = job.waiting()
        return job.values, stored

    right, wrong = shown("results-of-requests-leave-behind-the-snapshots-of-others", emitted_and_stored)
    assert right == ([], ["a", "b"])
    assert wrong == (["answer 1"], ["b"])


def test_each_bug_of_the_set_is_shown_here() -> None:
    assert not_shown(__file__, restarts_and_sweeps, splits_and_windows) == []
