"""Stateful stream processing on Flink's model: the public API of onceproof, names as in PyFlink.

A job is described in a StreamExecutionEnvironment and executed by it::

    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(1000)
    words = env.from_collection(["a", "b", "a"], Types.STRING())
    words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1).print()
    env.execute("word count")
"""

from engine.broadcast_functions import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedStateFunction,
)
from engine.checkpoint_config import CheckpointConfig, CheckpointingMode, ExternalizedCheckpointRetention
from engine.configuration import Configuration, ConfigurationError
from engine.connected_functions import (
    CoFlatMapFunction,
    CoGroupFunction,
    CoMapFunction,
    CoProcessFunction,
    FlatJoinFunction,
    JoinFunction,
    KeyedCoProcessFunction,
    ProcessJoinFunction,
)
from engine.connected_streams import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
from engine.connectors.collect import CloseableIterator
from engine.connectors.collection import CollectionSource
from engine.connectors.encoders import Encoder
from engine.connectors.file_sink import FileSink, OutputFileConfig
from engine.connectors.files import CsvSource, JsonLinesSource, MalformedRow
from engine.connectors.idempotent import UpsertSinkFunction
from engine.connectors.print import PrintSinkFunction
from engine.connectors.sink import Sink, SupportsCommitter, SupportsWriterState
from engine.connectors.sink_writer import (
    CommitRequest,
    Committer,
    CommitterInitContext,
    CommittingSinkWriter,
    SinkWriter,
    StatefulSinkWriter,
    WriterInitContext,
)
from engine.connectors.source import Source, SplitReader
from engine.connectors.sqlite import SqliteUpsertSink
from engine.connectors.two_phase import Recovery, TwoPhaseCommitSinkFunction
from engine.connectors.write_ahead import CheckpointCommitter, GenericWriteAheadSink
from engine.datastream import DataStream, DataStreamSink, KeyedStream
from engine.durations import Duration, Time
from engine.elements import Watermark
from engine.environment import StreamExecutionEnvironment
from engine.execution_config import ExecutionConfig
from engine.functions import (
    AggregateFunction,
    CheckpointedFunction,
    CheckpointListener,
    FilterFunction,
    FlatMapFunction,
    Function,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    RuntimeContext,
    SinkFunction,
)
from engine.graph import InvalidJob
from engine.job_client import CompletableFuture, JobClient, JobStatus, SavepointFailed
from engine.output_tag import OutputTag
from engine.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from engine.state.interfaces import (
    AggregatingState,
    AppendingState,
    BroadcastState,
    ListState,
    MapState,
    MergingState,
    ReadOnlyBroadcastState,
    ReducingState,
    State,
    ValueState,
)
from engine.state.ttl import StateTtlConfig
from engine.timer_service import TimeDomain, TimerService
from engine.types import Row, TypeInformation, Types
from engine.watermarks.generators import WatermarkGenerator, WatermarkOutput
from engine.watermarks.strategy import TimestampAssigner, WatermarkStrategy
from engine.windowed_stream import AllWindowedStream, WindowedStream
from engine.windows.assigners import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    MergingWindowAssigner,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from engine.windows.evictors import CountEvictor, DeltaEvictor, Evictor, TimeEvictor, TimestampedValue
from engine.windows.functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from engine.windows.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerResult,
)
from engine.windows.windows import (
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    Window,
    WindowSerializer,
)

__all__ = [
    "AggregateFunction",
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AllWindowFunction",
    "AllWindowedStream",
    "AppendingState",
    "BaseBroadcastProcessFunction",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastState",
    "BroadcastStream",
    "CheckpointCommitter",
    "CheckpointConfig",
    "CheckpointListener",
    "CheckpointedFunction",
    "CheckpointingMode",
    "CloseableIterator",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "CollectionSource",
    "CommitRequest",
    "Committer",
    "CommitterInitContext",
    "CommittingSinkWriter",
    "CompletableFuture",
    "Configuration",
    "ConfigurationError",
    "ConnectedStreams",
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountEvictor",
    "CountTrigger",
    "CsvSource",
    "DataStream",
    "DataStreamSink",
    "DeltaEvictor",
    "Duration",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "Encoder",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "Evictor",
    "ExecutionConfig",
    "ExternalizedCheckpointRetention",
    "FileSink",
    "FilterFunction",
    "FlatJoinFunction",
    "FlatMapFunction",
    "Function",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "GenericWriteAheadSink",
    "GlobalWindow",
    "GlobalWindowSerializer",
    "GlobalWindows",
    "InvalidJob",
    "JobClient",
    "JobStatus",
    "JoinFunction",
    "JsonLinesSource",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStateFunction",
    "KeyedStream",
    "ListState",
    "ListStateDescriptor",
    "MalformedRow",
    "MapFunction",
    "MapState",
    "MapStateDescriptor",
    "MergingState",
    "MergingWindowAssigner",
    "NeverTrigger",
    "OutputFileConfig",
    "OutputTag",
    "PrintSinkFunction",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "ReadOnlyBroadcastState",
    "Recovery",
    "ReduceFunction",
    "ReducingState",
    "ReducingStateDescriptor",
    "Row",
    "RuntimeContext",
    "SavepointFailed",
    "SessionWindowTimeGapExtractor",
    "Sink",
    "SinkFunction",
    "SinkWriter",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "Source",
    "SplitReader",
    "SqliteUpsertSink",
    "State",
    "StateDescriptor",
    "StateTtlConfig",
    "StatefulSinkWriter",
    "StreamExecutionEnvironment",
    "SupportsCommitter",
    "SupportsWriterState",
    "Time",
    "TimeDomain",
    "TimeEvictor",
    "TimeWindow",
    "TimeWindowSerializer",
    "TimerService",
    "TimestampAssigner",
    "TimestampedValue",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "TwoPhaseCommitSinkFunction",
    "TypeInformation",
    "Types",
    "UpsertSinkFunction",
    "ValueState",
    "ValueStateDescriptor",
    "Watermark",
    "WatermarkGenerator",
    "WatermarkOutput",
    "WatermarkStrategy",
    "Window",
    "WindowAssigner",
    "WindowFunction",
    "WindowSerializer",
    "WindowedStream",
    "WriterInitContext",
]
