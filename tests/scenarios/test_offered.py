"""What the engine offers is on trial: each name and method that a job can use is used by a family.

The test reads the syntax trees of the families and of the sinks that their jobs get. A name of
``onceproof.engine`` is used where it is imported from the engine. A method is used where an attribute of its
name is read or a class defines it; syntax does not say of which class an object is, so one use counts for all
classes with a method of that name. What is not used is in ``EXCEPTIONS`` with a reason, and must leave it
when a family uses it.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any, Final

from onceproof import engine
from onceproof.engine.api import datastream
from onceproof.engine.state.raw import KeyedStateOutput, OperatorStateOutput, StatePartition
from onceproof.engine.windows.triggers import TriggerScope
from onceproof.engine.windows.window_functions import WindowContext
from onceproof.scenarios import SEVERAL

ROOT: Final = Path(__file__).parents[2]
SINKS: Final = (
    ROOT / "harness/systems/simulation/simulated_sinks.py",
    ROOT / "harness/systems/process/database_io.py",
    ROOT / "harness/systems/sinks.py",
)

HANDLES: Final[tuple[type, ...]] = (
    datastream.BundledStream,
    datastream.CoGroupedStreams,
    datastream.JoinedStreams,
    engine.AllWindowedStream,
    engine.BroadcastConnectedStream,
    engine.BroadcastStream,
    engine.ConnectedStreams,
    engine.DataStream,
    engine.DataStreamSink,
    engine.KeyedStream,
    engine.WindowedStream,
    engine.AggregatingState,
    engine.BroadcastState,
    engine.ListState,
    engine.MapState,
    engine.ReadOnlyBroadcastState,
    engine.ReducingState,
    engine.ValueState,
    engine.StateTtlConfig.Builder,
    engine.FunctionInitializationContext,
    engine.FunctionSnapshotContext,
    engine.KeyedProcessFunction.OnTimerContext,
    engine.RuntimeContext,
    engine.TimerService,
    engine.TimeWindow,
    engine.WatermarkOutput,
    engine.WatermarkStrategy,
    KeyedStateOutput,
    OperatorStateOutput,
    StatePartition,
    TriggerScope,
    WindowContext,
)
"""The classes whose objects a job is given or builds by calls: their methods are asked, not their names."""

HARNESS: Final = "the harness does it around the job: it runs, configures and restores it"
ENDS: Final = "the harness gives a family its sources and sinks; the tests of the connectors try these"
BASE: Final = "a base class: jobs use what is derived from it"
ENGINE: Final = "the engine calls it, not a job"
READS: Final = "it reads a setting or a name, and no state"
COUNTS: Final = "it counts for a reader of the job, and nothing depends on it"
PACE: Final = "it changes when buffers travel, not what is in them; the tests of the local runtime try it"
CHAINS: Final = "it changes where operators run, not what they do; the tests of the graph try it"
SAME: Final = "another spelling of what a family uses"
NO_FAMILY: Final = "no family uses it yet"

EXCEPTIONS: Final[dict[str, tuple[str, ...]]] = {
    HARNESS: (
        "CheckpointConfig",
        "CheckpointStorage",
        "CheckpointingMode",
        "CompletableFuture",
        "Configuration",
        "ConfigurationError",
        "EmbeddedRocksDBStateBackend",
        "ExecutionConfig",
        "ExternalizedCheckpointRetention",
        "FileSystemCheckpointStorage",
        "FsStateBackend",
        "HashMapStateBackend",
        "InvalidJob",
        "JobClient",
        "JobExecutionResult",
        "JobManagerCheckpointStorage",
        "JobStatus",
        "MemorySize",
        "MemoryStateBackend",
        "PredefinedOptions",
        "RestartStrategies",
        "RestartStrategyConfiguration",
        "RocksDBStateBackend",
        "SavepointFailed",
        "SlotSharingGroup",
        "StateBackend",
        "StateBackendFactory",
    ),
    ENDS: (
        "CloseableIterator",
        "ByteArraySchema",
        "RowFieldExtractorSchema",
        "CollectionSource",
        "DataGeneratorSource",
        "AvroBulkWriters",
        "AvroInputFormat",
        "AvroParquetReaders",
        "AvroParquetWriters",
        "AvroRowDeserializationSchema",
        "AvroRowSerializationSchema",
        "AvroSchema",
        "BasePathBucketAssigner",
        "BulkFile",
        "BulkFormat",
        "BulkWriter",
        "BulkWriterFactory",
        "CsvBulkWriters",
        "CsvReaderFormat",
        "CsvRowDeserializationSchema",
        "CsvRowSerializationSchema",
        "CsvSchema",
        "CsvSchemaBuilder",
        "DateTimeBucketAssigner",
        "DefaultRollingPolicy",
        "DataStream.execute_and_collect",
        "DataTypes",
        "DataStream.print",
        "FileSink",
        "FileSource",
        "FileSourceBuilder",
        "JdbcConnectionOptions",
        "JdbcExecutionOptions",
        "JdbcSink",
        "JsonLinesSource",
        "ConsumerRecord",
        "DeliveryGuarantee",
        "FlinkKafkaConsumer",
        "FlinkKafkaConsumerBase",
        "FlinkKafkaProducer",
        "FlinkKafkaProducerBase",
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
        "ProducerRecord",
        "Semantic",
        "TransactionLost",
        "JsonRowDeserializationSchema",
        "JsonRowSerializationSchema",
        "GenericRecordAvroTypeInfo",
        "InputFormat",
        "MalformedFile",
        "MalformedMessage",
        "NumberSequenceSource",
        "OnCheckpointRollingPolicy",
        "ParquetBulkWriters",
        "PostgresGrowingSource",
        "PostgresSink",
        "PostgresSource",
        "PostgresUpsertSink",
        "PostgresWriteAheadSink",
        "ParquetColumnarRowInputFormat",
        "PrintSinkFunction",
        "RateLimiterStrategy",
        "Schema",
        "SimpleStringSchema",
        "SqliteUpsertSink",
        "StreamFormat",
        "StreamTableEnvironment",
        "Table",
        "TableDescriptor",
    ),
    BASE: (
        "AppendingState",
        "AsyncRetryPredicate",
        "BaseBroadcastProcessFunction",
        "DeserializationSchema",
        "Function",
        "MergingState",
        "MergingWindowAssigner",
        "SerializationSchema",
        "Sink",
        "SinkWriter",
        "State",
        "SupportsWriterState",
        "WindowSerializer",
    ),
    ENGINE: (
        "NoRetryStrategy",
        "RetryPredicate",
        "FunctionInitializationContext.is_settled",
        "FunctionSnapshotContext.written_raw_state",
        "CountWindowSerializer",
        "GlobalWindowSerializer",
        "OperatorStateOutput.partitions",
        "TimeWindow.cover",
        "TimeWindow.get_window_start_with_offset",
        "TimeWindow.intersects",
        "TimeWindow.merge_windows",
        "TimeWindowSerializer",
        "WatermarkStrategy.create_timestamp_assigner",
        "WatermarkStrategy.create_watermark_generator",
        "WatermarkStrategy.without_progress",
    ),
    COUNTS: (
        "Counter",
        "Distribution",
        "Meter",
        "Metric",
        "MetricGroup",
        "TriggerScope.get_metric_group",
    ),
    READS: (
        "DataStream.get_execution_config",
        "DataStream.get_execution_environment",
        "DataStream.get_type",
        "DataStreamSink.set_description",
        "OperatorSettings.set_description",
        "KeyedStateOutput.get_key_group_list",
        "KeyedStateOutput.is_key_group_already_started",
        "OperatorSettings.get_name",
        "OperatorStateOutput.get_number_of_partitions",
        "RuntimeContext.get_place_id",
        "_Windowed.get_execution_environment",
        "_Windowed.get_input_type",
    ),
    PACE: ("OperatorSettings.set_buffer_timeout",),
    CHAINS: (
        "DataStreamSink.slot_sharing_group",
        "OperatorSettings.slot_sharing_group",
        "OperatorSettings.start_new_chain",
    ),
    SAME: (
        "DataStreamSink.set_uid_hash",
        "OperatorSettings.set_uid_hash",
        "ExponentialBackoffDelayRetryStrategy",
        "FixedDelayRetryStrategy",
        "async_retry_predicates",
        "has_exception_predicate",
        "CountWindow",
        "DataStream.project",
        "KeyedStream.time_window",
        "FunctionInitializationContext.get_keyed_state_store",
        "KeySelector",
        "RuntimeContext.get_current_processing_time",
        "TimeCharacteristic",
        "StateTtlConfig.Builder.set_ttl",
        "StateTtlConfig.Builder.set_ttl_time_characteristic",
        "StateTtlConfig.Builder.update_ttl_on_create_and_write",
        "StateTtlConfig.Builder.use_processing_time",
        "TriggerScope.get_current_processing_time",
    ),
    NO_FAMILY: (
        "RowKind",
        "StateTtlConfig.Builder.return_expired_if_not_cleaned_up",
        "TriggerScope.get_current_watermark",
    ),
}


def _trees() -> Iterator[ast.AST]:
    # Programs on trial belong to other engines.
    others = {"regressions", "programs"}
    families = [path for path in (ROOT / "scenarios").rglob("*.py") if others.isdisjoint(path.parts)]
    for path in (*families, *SINKS):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if path.parent.name == "textbook":
            if SEVERAL.get(f"textbook_{path.stem}") == () or path.stem == "_kafka_topics":
                continue  # a program without a family of its own, or what such programs share
            tree.body = [node for node in tree.body if not _runs_a_program(node)]
        yield tree


def _runs_a_program(node: ast.stmt) -> bool:
    """Return whether a statement only runs a program of the textbook on its example input."""
    return isinstance(node, ast.FunctionDef) and node.name in ("main", "run")


def _used() -> tuple[set[str], set[str]]:
    """Return the names that are imported from the engine, and the names of all attributes and functions."""
    imported, members = set(), set()
    for tree in _trees():
        for node in ast.walk(tree):
            match node:
                case ast.ImportFrom(module=str(module), names=names) if module.startswith("onceproof.engine"):
                    imported.update(each.name for each in names)
                case ast.Attribute(attr=name) | ast.FunctionDef(name=name):
                    members.add(name)
    return imported, members


def _methods() -> dict[str, str]:
    """Return by ``Class.method`` the names of the methods that a job can call on what it is given."""
    found = {}
    for handle in HANDLES:
        for name, member in inspect.getmembers(handle):
            method: Any = inspect.unwrap(member) if callable(member) else None
            if isinstance(method, FunctionType) and not name.startswith("_"):
                found[method.__qualname__] = name
    return found


def _unused() -> set[str]:
    """Return what is offered and used by no family."""
    imported, members = _used()
    handles = {handle.__name__ for handle in HANDLES}
    names = {name for name in engine.__all__ if name not in imported | handles}
    return names | {place for place, name in _methods().items() if name not in members}


def test_what_no_family_uses_is_an_exception_with_a_reason() -> None:
    excepted = {name for names in EXCEPTIONS.values() for name in names}
    assert sorted(_unused() - excepted) == [], "offered, and on trial in no family"
    assert sorted(excepted - _unused()) == [], "an exception that a family uses, or that is not offered"


def test_an_exception_stands_under_one_reason() -> None:
    names = [name for names in EXCEPTIONS.values() for name in names]
    assert len(names) == len(set(names))
