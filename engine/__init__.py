"""Stateful stream processing on Flink's model: the public API of onceproof, names as in PyFlink.

Describe a job in a StreamExecutionEnvironment, then call its ``execute``::

    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(1000)
    words = env.from_collection(["a", "b", "a"], Types.STRING())
    words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1).print()
    env.execute("word count")
"""

import sys
from typing import TYPE_CHECKING, Any
from warnings import warn

from onceproof.engine import async_retry_predicates
from onceproof.engine.api.async_data_stream import AsyncDataStream
from onceproof.engine.api.batch_execution import RuntimeExecutionMode
from onceproof.engine.api.checkpoint_config import (
    CheckpointConfig,
    CheckpointingMode,
    ExternalizedCheckpointRetention,
)
from onceproof.engine.api.checkpoint_storages import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from onceproof.engine.api.closeable_iterator import CloseableIterator
from onceproof.engine.api.data_types import DataTypes
from onceproof.engine.api.datastream import (
    AllWindowedStream,
    BroadcastConnectedStream,
    BroadcastStream,
    ConnectedStreams,
    DataStream,
    KeyedStream,
    StreamExecutionEnvironment,
    WindowedStream,
)
from onceproof.engine.api.execution_config import ExecutionConfig
from onceproof.engine.api.job_client import CompletableFuture, JobClient, JobStatus, SavepointFailed
from onceproof.engine.api.operator_settings import DataStreamSink
from onceproof.engine.api.restart_strategy_options import RestartStrategies, RestartStrategyConfiguration
from onceproof.engine.api.slot_sharing import MemorySize, SlotSharingGroup
from onceproof.engine.api.state_backends import (
    EmbeddedRocksDBStateBackend,
    FsStateBackend,
    HashMapStateBackend,
    MemoryStateBackend,
    PredefinedOptions,
    RocksDBStateBackend,
    StateBackend,
)
from onceproof.engine.api.table_sources import (
    Schema,
    StreamTableEnvironment,
    Table,
    TableDescriptor,
)
from onceproof.engine.api.time_characteristic import TimeCharacteristic
from onceproof.engine.async_functions import (
    AsyncFunction,
    AsyncRetryPredicate,
    AsyncRetryStrategy,
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
    NoRetryStrategy,
    RetryPredicate,
)
from onceproof.engine.async_retry_predicates import (
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)
from onceproof.engine.broadcast_functions import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedStateFunction,
)
from onceproof.engine.configuration import Configuration, ConfigurationError
from onceproof.engine.connected_functions import (
    CoFlatMapFunction,
    CoGroupFunction,
    CoMapFunction,
    CoProcessFunction,
    FlatJoinFunction,
    JoinFunction,
    KeyedCoProcessFunction,
    ProcessJoinFunction,
)
from onceproof.engine.connectors.avro_input import AvroInputFormat
from onceproof.engine.connectors.buckets import (
    BasePathBucketAssigner,
    BucketAssigner,
    DateTimeBucketAssigner,
)
from onceproof.engine.connectors.bulk_files import BulkFile, BulkFormat, InputFormat, MalformedFile
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.connectors.csv_input import CsvReaderFormat
from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.file_sink import FileSink
from onceproof.engine.connectors.file_source import CsvSource, JsonLinesSource, MalformedRow
from onceproof.engine.connectors.folder_source import FileSource, FileSourceBuilder
from onceproof.engine.connectors.idempotent import UpsertSinkFunction
from onceproof.engine.connectors.jdbc.jdbc_options import JdbcConnectionOptions, JdbcExecutionOptions
from onceproof.engine.connectors.jdbc.jdbc_sink import JdbcSink
from onceproof.engine.connectors.kafka.flink_kafka import (
    FlinkKafkaConsumer,
    FlinkKafkaConsumerBase,
    FlinkKafkaProducer,
    FlinkKafkaProducerBase,
    Semantic,
)
from onceproof.engine.connectors.kafka.kafka_errors import TransactionLost
from onceproof.engine.connectors.kafka.kafka_sink import KafkaSink, KafkaSinkBuilder
from onceproof.engine.connectors.kafka.kafka_source import KafkaSource, KafkaSourceBuilder
from onceproof.engine.connectors.kafka.offsets import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
)
from onceproof.engine.connectors.kafka.record_schemas import (
    ConsumerRecord,
    KafkaRecordDeserializationSchema,
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaTopicSelector,
)
from onceproof.engine.connectors.kafka.transactions import ProducerRecord
from onceproof.engine.connectors.parquet_input import AvroParquetReaders, ParquetColumnarRowInputFormat
from onceproof.engine.connectors.part_files import OutputFileConfig
from onceproof.engine.connectors.postgres.postgres_sinks import (
    PostgresSink,
    PostgresUpsertSink,
    PostgresWriteAheadSink,
)
from onceproof.engine.connectors.postgres.postgres_sources import PostgresGrowingSource, PostgresSource
from onceproof.engine.connectors.print import PrintSinkFunction
from onceproof.engine.connectors.rolling import (
    DefaultRollingPolicy,
    OnCheckpointRollingPolicy,
    RollingPolicy,
)
from onceproof.engine.connectors.sequence_source import (
    DataGeneratorSource,
    NumberSequenceSource,
    RateLimiterStrategy,
)
from onceproof.engine.connectors.sink import DeliveryGuarantee, Sink, SupportsCommitter, SupportsWriterState
from onceproof.engine.connectors.sink_writer import (
    CommitRequest,
    Committer,
    CommitterInitContext,
    CommittingSinkWriter,
    SinkWriter,
    StatefulSinkWriter,
    WriterInitContext,
)
from onceproof.engine.connectors.source import Source, SourceIdentity, SplitReader
from onceproof.engine.connectors.sqlite import SqliteUpsertSink
from onceproof.engine.connectors.text_lines import StreamFormat
from onceproof.engine.connectors.two_phase import Recovery, TwoPhaseCommitSinkFunction
from onceproof.engine.connectors.write_ahead import CheckpointCommitter, GenericWriteAheadSink
from onceproof.engine.durations import Duration, Time
from onceproof.engine.elements import Watermark
from onceproof.engine.flink_names import answers_for_flink
from onceproof.engine.formats.avro_files import AvroBulkWriters
from onceproof.engine.formats.avro_rows import AvroRowDeserializationSchema, AvroRowSerializationSchema
from onceproof.engine.formats.avro_schema import AvroSchema, GenericRecordAvroTypeInfo
from onceproof.engine.formats.bulk_writers import BulkWriter, BulkWriterFactory
from onceproof.engine.formats.csv_row_schemas import (
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
)
from onceproof.engine.formats.csv_rows import CsvBulkWriters
from onceproof.engine.formats.csv_schema import CsvSchema, CsvSchemaBuilder
from onceproof.engine.formats.json_rows import JsonRowDeserializationSchema, JsonRowSerializationSchema
from onceproof.engine.formats.message_schemas import (
    ByteArraySchema,
    DeserializationSchema,
    MalformedMessage,
    RowFieldExtractorSchema,
    SerializationSchema,
    SimpleStringSchema,
)
from onceproof.engine.formats.parquet_files import AvroParquetWriters, ParquetBulkWriters
from onceproof.engine.functions import (
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
from onceproof.engine.graph import InvalidJob
from onceproof.engine.metrics import Counter, Distribution, Meter, Metric, MetricGroup
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.partitioner import Partitioner
from onceproof.engine.runtime.job_result import JobExecutionResult
from onceproof.engine.state.backend_factory import StateBackendFactory
from onceproof.engine.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from onceproof.engine.state.interfaces import (
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
from onceproof.engine.state.ttl import StateTtlConfig
from onceproof.engine.timer_service import TimeDomain, TimerService
from onceproof.engine.types import Row, TypeInformation, Types
from onceproof.engine.types.row_kind import RowKind
from onceproof.engine.watermarks.generators import WatermarkGenerator, WatermarkOutput
from onceproof.engine.watermarks.strategy import TimestampAssigner, WatermarkStrategy
from onceproof.engine.windows.assigners import (
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
from onceproof.engine.windows.count_windows import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from onceproof.engine.windows.evictors import (
    CountEvictor,
    DeltaEvictor,
    Evictor,
    TimeEvictor,
    TimestampedValue,
)
from onceproof.engine.windows.triggers import (
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
from onceproof.engine.windows.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from onceproof.engine.windows.windows import (
    CountWindow,
    CountWindowSerializer,
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
    "AsyncDataStream",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "AvroBulkWriters",
    "AvroInputFormat",
    "AvroParquetReaders",
    "AvroParquetWriters",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "BaseBroadcastProcessFunction",
    "BasePathBucketAssigner",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastState",
    "BroadcastStream",
    "BucketAssigner",
    "BulkFile",
    "BulkFormat",
    "BulkWriter",
    "BulkWriterFactory",
    "ByteArraySchema",
    "CheckpointCommitter",
    "CheckpointConfig",
    "CheckpointListener",
    "CheckpointStorage",
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
    "ConsumerRecord",
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountEvictor",
    "CountSlidingWindowAssigner",
    "CountTrigger",
    "CountTumblingWindowAssigner",
    "CountWindow",
    "CountWindowSerializer",
    "Counter",
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
    "CsvSource",
    "DataGeneratorSource",
    "DataStream",
    "DataStreamSink",
    "DataTypes",
    "DateTimeBucketAssigner",
    "DefaultRollingPolicy",
    "DeliveryGuarantee",
    "DeltaEvictor",
    "DeserializationSchema",
    "Distribution",
    "Duration",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EmbeddedRocksDBStateBackend",
    "Encoder",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "Evictor",
    "ExecutionConfig",
    "ExponentialBackoffDelayRetryStrategy",
    "ExternalizedCheckpointRetention",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSystemCheckpointStorage",
    "FilterFunction",
    "FixedDelayRetryStrategy",
    "FlatJoinFunction",
    "FlatMapFunction",
    "FlinkKafkaConsumer",
    "FlinkKafkaConsumerBase",
    "FlinkKafkaProducer",
    "FlinkKafkaProducerBase",
    "FsStateBackend",
    "Function",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "GenericRecordAvroTypeInfo",
    "GenericWriteAheadSink",
    "GlobalWindow",
    "GlobalWindowSerializer",
    "GlobalWindows",
    "HashMapStateBackend",
    "InputFormat",
    "InvalidJob",
    "JdbcConnectionOptions",
    "JdbcExecutionOptions",
    "JdbcSink",
    "JobClient",
    "JobExecutionResult",
    "JobManagerCheckpointStorage",
    "JobStatus",
    "JoinFunction",
    "JsonLinesSource",
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecordDeserializationSchema",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStateFunction",
    "KeyedStream",
    "ListState",
    "ListStateDescriptor",
    "MalformedFile",
    "MalformedMessage",
    "MalformedRow",
    "MapFunction",
    "MapState",
    "MapStateDescriptor",
    "MemorySize",
    "MemoryStateBackend",
    "MergingState",
    "MergingWindowAssigner",
    "Meter",
    "Metric",
    "MetricGroup",
    "NeverTrigger",
    "NoRetryStrategy",
    "NumberSequenceSource",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "OutputTag",
    "ParquetBulkWriters",
    "ParquetColumnarRowInputFormat",
    "Partitioner",
    "PostgresGrowingSource",
    "PostgresSink",
    "PostgresSource",
    "PostgresUpsertSink",
    "PostgresWriteAheadSink",
    "PredefinedOptions",
    "PrintSinkFunction",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "ProducerRecord",
    "PurgingTrigger",
    "RateLimiterStrategy",
    "ReadOnlyBroadcastState",
    "Recovery",
    "ReduceFunction",
    "ReducingState",
    "ReducingStateDescriptor",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "RetryPredicate",
    "RocksDBStateBackend",
    "RollingPolicy",
    "Row",
    "RowFieldExtractorSchema",
    "RowKind",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "SavepointFailed",
    "Schema",
    "Semantic",
    "SerializationSchema",
    "SessionWindowTimeGapExtractor",
    "SimpleStringSchema",
    "Sink",
    "SinkFunction",
    "SinkWriter",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "SlotSharingGroup",
    "Source",
    "SourceIdentity",
    "SplitReader",
    "SqliteUpsertSink",
    "State",
    "StateBackend",
    "StateBackendFactory",
    "StateDescriptor",
    "StateTtlConfig",
    "StatefulSinkWriter",
    "StreamExecutionEnvironment",
    "StreamFormat",
    "StreamTableEnvironment",
    "SupportsCommitter",
    "SupportsWriterState",
    "Table",
    "TableDescriptor",
    "Time",
    "TimeCharacteristic",
    "TimeDomain",
    "TimeEvictor",
    "TimeWindow",
    "TimeWindowSerializer",
    "TimerService",
    "TimestampAssigner",
    "TimestampedValue",
    "TransactionLost",
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
    "async_retry_predicates",
    "empty_result_predicate",
    "exception_type_predicate",
    "has_exception_predicate",
]

# Their objects say why they lack what PyFlink's have; Types, DataTypes, Row and streams do so themselves.
_LACK_MEMBERS: tuple[type, ...] = (
    BucketAssigner,
    BulkWriterFactory,
    CheckpointConfig,
    CloseableIterator,
    Configuration,
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountWindowSerializer,
    CsvSchemaBuilder,
    DefaultRollingPolicy,
    EmbeddedRocksDBStateBackend,
    Encoder,
    ExecutionConfig,
    FileSink,
    FileSink.BaseBuilder,
    FileSourceBuilder,
    FlinkKafkaProducerBase,
    FsStateBackend,
    GenericRecordAvroTypeInfo,
    GlobalWindowSerializer,
    InputFormat,
    JdbcSink,
    JobClient,
    JobExecutionResult,
    KafkaSink,
    MemorySize,
    MemoryStateBackend,
    OutputFileConfig,
    OutputTag,
    RocksDBStateBackend,
    RollingPolicy,
    Schema,
    Schema.Builder,
    Sink,
    SinkFunction,
    SlotSharingGroup,
    Source,
    StateTtlConfig,
    StreamExecutionEnvironment,
    StreamTableEnvironment,
    Table,
    TableDescriptor,
    TableDescriptor.Builder,
    TimeWindowSerializer,
    TypeInformation,
    WatermarkStrategy,
)
for _each in _LACK_MEMBERS:
    answers_for_flink(_each)

DEPRECATED = {"ExternalizedCheckpointCleanup": ExternalizedCheckpointRetention}
"""Names of Flink 1 with what stands for them today."""

if not TYPE_CHECKING:  # a type checker would take every name for one of the engine

    def __getattr__(name: str) -> Any:
        """Give a name of Flink 1 with a warning, or say why a name of PyFlink is missing."""
        if name in DEPRECATED:
            found = DEPRECATED[name]
            warn(f"{name} is deprecated: use {found.__name__}", DeprecationWarning, stacklevel=2)
            return found
        if name == "window":
            import onceproof.engine.window

            return onceproof.engine.window
        reason = None
        if not name.startswith("_"):
            from onceproof.engine.flink_names import why_missing

            reason = why_missing(name)
        # `from onceproof.engine import NAME` asks here, and would drop the message of an AttributeError.
        if reason and sys._getframe(1).f_globals.get("__name__") == "importlib._bootstrap":
            raise ImportError(reason, name=__name__)
        raise AttributeError(reason or f"module {__name__!r} has no attribute {name!r}", name=name)
