"""What we offer under PyFlink's names has PyFlink's parameters, in PyFlink's order.

Each public class of `pyflink.datastream` and `pyflink.common` is compared, as the wheel has it. Ours may take
fewer parameters, from the first on; a method that PyFlink does not have must be named here, with the reason.
"""

from __future__ import annotations

import inspect
from operator import attrgetter

import pytest

from onceproof import engine
from tests.engine.pyflink_wheel import members, public_classes

JAVA = "Flink's Java API has it, PyFlink lacks it"
OURS = "has no counterpart in Flink"
TABLES = "Flink has it for tables, and not for streams"
FLINK_1 = "Flink 1 has it; here it is deprecated, over the options of today"
PYTHON = "Python's class of futures has it"
NESTED = "PyFlink gives it to the object at run time, and not to the class"

EXTRA = {
    ("StreamExecutionEnvironment", "adopt"): OURS,
    ("StreamExecutionEnvironment", "get_configuration"): JAVA,
    ("StreamExecutionEnvironment", "get_job_graph"): JAVA,
    ("StreamExecutionEnvironment", "from_elements"): JAVA,
    ("StreamExecutionEnvironment", "read_text_file"): JAVA,
    ("StreamExecutionEnvironment", "socket_text_stream"): JAVA,
    ("DataStream", "co_group"): JAVA,
    ("DataStream", "global_"): JAVA,
    ("DataStream", "join"): JAVA,
    ("KeyedStream", "bundle"): TABLES,
    ("KeyedStream", "co_group"): JAVA,
    ("KeyedStream", "global_"): JAVA,
    ("KeyedStream", "interval_join"): JAVA,
    ("KeyedStream", "join"): JAVA,
    ("ProcessFunction", "on_timer"): JAVA,
    ("DataStreamSink", "set_max_parallelism"): JAVA,
    ("RuntimeContext", "get_job_id"): JAVA,
    ("RuntimeContext", "get_operator_unique_id"): JAVA,
    ("RuntimeContext", "get_owner_id"): OURS,
    ("RuntimeContext", "get_place_id"): OURS,
    ("FileSink.BaseBuilder", "with_consumed_objects"): OURS,
    ("FileSink.RowFormatBuilder", "with_consumed_objects"): OURS,
    ("FileSink.BulkFormatBuilder", "with_consumed_objects"): OURS,
    ("Types", "VOID"): JAVA,
    ("BucketAssigner", "get_bucket_id"): JAVA,
    ("BulkWriterFactory", "create"): JAVA,
    ("RollingPolicy", "should_roll"): JAVA,
    ("DefaultRollingPolicy", "should_roll"): JAVA,
    ("OnCheckpointRollingPolicy", "should_roll"): JAVA,
    ("KeyedStream", "time_window"): JAVA,
    ("WindowedStream", "sum"): JAVA,
    ("WindowedStream", "min"): JAVA,
    ("WindowedStream", "max"): JAVA,
    ("WindowedStream", "min_by"): JAVA,
    ("WindowedStream", "max_by"): JAVA,
    ("AllWindowedStream", "sum"): JAVA,
    ("AllWindowedStream", "min"): JAVA,
    ("AllWindowedStream", "max"): JAVA,
    ("AllWindowedStream", "min_by"): JAVA,
    ("AllWindowedStream", "max_by"): JAVA,
    ("JdbcSink", "exactly_once_sink"): JAVA,
    ("Configuration", "get"): JAVA,
    ("Configuration", "set"): JAVA,
    ("Configuration", "from_mapping"): OURS,
    ("Configuration", "from_flat_file"): OURS,
    ("Configuration", "from_yaml_file"): OURS,
    ("Configuration", "contradiction"): OURS,
    ("Configuration", "is_set"): OURS,
    ("Configuration", "without_effect"): OURS,
    ("Configuration", "origins"): OURS,
    ("Configuration", "reporter_settings"): OURS,
    ("FileSink", "create_function"): OURS,
    ("Sink", "create_function"): OURS,
    ("Encoder", "for_type"): OURS,
    ("Sink", "for_type"): OURS,
    ("FileSink", "for_type"): OURS,
    ("Sink", "abort_unknown"): OURS,
    ("FileSink", "abort_unknown"): OURS,
    ("Sink", "create_writer"): JAVA,
    ("Sink", "restore_writer"): JAVA,
    ("Sink", "create_committer"): JAVA,
    ("FileSink", "create_writer"): JAVA,
    ("FileSink", "restore_writer"): JAVA,
    ("FileSink", "create_committer"): JAVA,
    ("AvroInputFormat", "create_source"): OURS,
    ("BulkFormat", "open_file"): OURS,
    ("InputFormat", "create_source"): OURS,
    ("InputFormat", "get_produced_type"): JAVA,
    ("ParquetColumnarRowInputFormat", "columns"): OURS,
    ("ParquetColumnarRowInputFormat", "converter"): OURS,
    ("ParquetColumnarRowInputFormat", "open_file"): OURS,
    ("FileSource", "identity"): OURS,
    ("FileSource", "open_file"): OURS,
    ("FileSource", "open_split"): OURS,
    ("FileSource", "splits"): OURS,
    ("FileSource", "splits_for"): OURS,
    ("FileSource", "check_ranges"): OURS,
    ("Source", "splits"): OURS,
    ("Source", "splits_for"): OURS,
    ("Source", "open_split"): OURS,
    ("Source", "identity"): OURS,
    ("Source", "start_discovery"): OURS,
    ("Source", "open_discovered_split"): OURS,
    ("Source", "owner_of"): OURS,
    ("FileSource", "start_discovery"): OURS,
    ("FileSource", "open_discovered_split"): OURS,
    ("FileSource", "owner_of"): OURS,
    ("NumberSequenceSource", "start_discovery"): OURS,
    ("NumberSequenceSource", "open_discovered_split"): OURS,
    ("NumberSequenceSource", "owner_of"): OURS,
    ("KafkaSource", "get_produced_type"): JAVA,
    ("KafkaSource", "identity"): OURS,
    ("KafkaSource", "start_discovery"): OURS,
    ("KafkaSource", "open_discovered_split"): OURS,
    ("KafkaSource", "open_split"): OURS,
    ("KafkaSource", "owner_of"): OURS,
    ("KafkaSource", "splits"): OURS,
    ("KafkaSource", "splits_for"): OURS,
    ("FlinkKafkaConsumerBase", "builder"): OURS,
    ("FlinkKafkaConsumerBase", "identity"): OURS,
    ("FlinkKafkaConsumerBase", "start_discovery"): OURS,
    ("FlinkKafkaConsumerBase", "open_discovered_split"): OURS,
    ("FlinkKafkaConsumerBase", "open_split"): OURS,
    ("FlinkKafkaConsumerBase", "owner_of"): OURS,
    ("FlinkKafkaConsumerBase", "splits"): OURS,
    ("FlinkKafkaConsumerBase", "splits_for"): OURS,
    ("FlinkKafkaConsumer", "builder"): OURS,
    ("FlinkKafkaConsumer", "identity"): OURS,
    ("FlinkKafkaConsumer", "start_discovery"): OURS,
    ("FlinkKafkaConsumer", "open_discovered_split"): OURS,
    ("FlinkKafkaConsumer", "open_split"): OURS,
    ("FlinkKafkaConsumer", "owner_of"): OURS,
    ("FlinkKafkaConsumer", "splits"): OURS,
    ("FlinkKafkaConsumer", "splits_for"): OURS,
    ("FlinkKafkaProducerBase", "as_sink"): OURS,
    ("FlinkKafkaProducer", "as_sink"): OURS,
    ("KafkaSourceBuilder", "set_deserializer"): JAVA,
    ("KafkaTopicPartition", "count"): PYTHON,
    ("KafkaTopicPartition", "index"): PYTHON,
    ("KafkaOffsetsInitializer", "offset_of"): OURS,
    ("KafkaOffsetsInitializer", "stop_of"): OURS,
    ("JdbcConnectionOptions.JdbcConnectionOptionsBuilder", "with_request_timeout_ms"): OURS,
    ("KafkaSink", "for_type"): OURS,
    ("KafkaSink", "abort_unknown"): OURS,
    ("KafkaSink", "create_function"): OURS,
    ("KafkaSink", "create_committer"): JAVA,
    ("KafkaSink", "create_writer"): JAVA,
    ("KafkaSink", "restore_writer"): JAVA,
    ("KafkaSinkBuilder", "ignore_failures_after_transaction_timeout"): OURS,
    ("KafkaSinkBuilder", "set_write_ahead"): OURS,
    ("KafkaRecordSerializationSchema", "serialize"): JAVA,
    ("KafkaRecordSerializationSchemaBuilder", "set_header_provider"): JAVA,
    ("KafkaRecordDeserializationSchema", "deserialize"): JAVA,
    ("KafkaRecordDeserializationSchema", "get_produced_type"): JAVA,
    ("RuntimeContext", "get_attempt_id"): OURS,
    ("RuntimeContext", "get_current_processing_time"): OURS,
    ("RuntimeContext", "probe"): OURS,
    ("SinkFunction", "invoke"): JAVA,
    ("SinkFunction", "finish"): JAVA,
    ("SinkFunction", "invoke_batch"): OURS,
    ("SinkFunction", "invoke_records"): OURS,
    ("SinkFunction", "open"): JAVA,
    ("SinkFunction", "close"): JAVA,
    ("DataStream", "transform"): JAVA,
    ("KeyedStream", "transform"): JAVA,
    ("Types", "DATACLASS"): OURS,
    ("Types", "DYNAMIC"): OURS,
    ("AllWindowedStream", "evictor"): JAVA,
    ("WindowedStream", "evictor"): JAVA,
    ("WatermarkStrategy", "for_generator"): JAVA,
    ("WatermarkStrategy", "without_progress"): OURS,
    ("WatermarkStrategy", "create_watermark_generator"): JAVA,
    ("WatermarkStrategy", "create_timestamp_assigner"): JAVA,
    ("CheckpointConfig", "enable_externalized_checkpoints"): FLINK_1,
    ("CheckpointConfig", "get_externalized_checkpoint_cleanup"): FLINK_1,
    ("CheckpointConfig", "is_prefer_checkpoint_for_recovery"): FLINK_1,
    ("CheckpointConfig", "set_externalized_checkpoint_cleanup"): FLINK_1,
    ("CheckpointConfig", "set_prefer_checkpoint_for_recovery"): FLINK_1,
    ("CheckpointConfig", "set_checkpoint_storage"): FLINK_1,
    ("CheckpointConfig", "set_checkpoint_storage_dir"): FLINK_1,
    ("StreamExecutionEnvironment", "get_stream_time_characteristic"): FLINK_1,
    ("ExecutionConfig", "set_restart_strategy"): FLINK_1,
    ("StreamExecutionEnvironment", "set_restart_strategy"): FLINK_1,
    ("StreamExecutionEnvironment", "set_state_backend"): FLINK_1,
    ("StreamExecutionEnvironment", "set_stream_time_characteristic"): FLINK_1,
    ("RestartStrategies", "exponential_delay_restart"): JAVA,
    ("JobExecutionResult", "troubles"): OURS,
    ("CompletableFuture", "add_done_callback"): PYTHON,
    ("CompletableFuture", "running"): PYTHON,
    ("CompletableFuture", "set_exception"): PYTHON,
    ("CompletableFuture", "set_result"): PYTHON,
    ("CompletableFuture", "set_running_or_notify_cancel"): PYTHON,
    ("JobClient", "cancel_with_savepoint"): JAVA,
    ("Encoder", "csv_encoder"): OURS,
    ("Encoder", "encode_batch"): OURS,
    ("Encoder", "json_lines_encoder"): OURS,
    ("SerializationSchema", "serialize"): JAVA,
    ("DeserializationSchema", "deserialize"): JAVA,
    ("DeserializationSchema", "deserialize_all"): JAVA,
    ("DeserializationSchema", "get_produced_type"): JAVA,
    ("DeserializationSchema", "is_end_of_stream"): JAVA,
    ("SimpleStringSchema", "serialize"): JAVA,
    ("SimpleStringSchema", "deserialize"): JAVA,
    ("SimpleStringSchema", "deserialize_all"): JAVA,
    ("SimpleStringSchema", "get_produced_type"): JAVA,
    ("SimpleStringSchema", "is_end_of_stream"): JAVA,
    ("ByteArraySchema", "serialize"): JAVA,
    ("RowFieldExtractorSchema", "serialize"): JAVA,
    ("Source", "get_produced_type"): JAVA,
    ("FileSource", "get_produced_type"): JAVA,
    ("NumberSequenceSource", "get_produced_type"): JAVA,
    ("ByteArraySchema", "deserialize"): JAVA,
    ("ByteArraySchema", "deserialize_all"): JAVA,
    ("ByteArraySchema", "get_produced_type"): JAVA,
    ("ByteArraySchema", "is_end_of_stream"): JAVA,
    ("CsvRowDeserializationSchema", "deserialize"): JAVA,
    ("CsvRowDeserializationSchema", "deserialize_all"): JAVA,
    ("CsvRowDeserializationSchema", "get_produced_type"): JAVA,
    ("CsvRowDeserializationSchema", "is_end_of_stream"): JAVA,
    ("CsvRowSerializationSchema", "serialize"): JAVA,
    ("AvroRowDeserializationSchema", "deserialize"): JAVA,
    ("AvroRowDeserializationSchema", "deserialize_all"): JAVA,
    ("AvroRowDeserializationSchema", "get_produced_type"): JAVA,
    ("AvroRowDeserializationSchema", "is_end_of_stream"): JAVA,
    ("AvroRowSerializationSchema", "serialize"): JAVA,
    ("JsonRowDeserializationSchema", "deserialize"): JAVA,
    ("JsonRowDeserializationSchema", "deserialize_all"): JAVA,
    ("JsonRowDeserializationSchema", "get_produced_type"): JAVA,
    ("JsonRowDeserializationSchema", "is_end_of_stream"): JAVA,
    ("JsonRowSerializationSchema", "serialize"): JAVA,
    ("AggregatingStateDescriptor", "check_is_never_opened"): OURS,
    ("ReducingStateDescriptor", "check_is_never_opened"): OURS,
    ("TypeInformation", "check_key_type"): OURS,
    ("TypeInformation", "converter"): OURS,
    ("TypeInformation", "copy"): OURS,
    ("TypeInformation", "copy_column"): OURS,
    ("TypeInformation", "copy_elements"): OURS,
    ("TypeInformation", "copy_table"): OURS,
    ("TypeInformation", "decode"): OURS,
    ("TypeInformation", "decoder"): OURS,
    ("TypeInformation", "encode"): OURS,
    ("TypeInformation", "encoder"): OURS,
    ("TypeInformation", "block_decoder"): OURS,
    ("TypeInformation", "identify"): OURS,
    ("TypeInformation", "java_hash"): OURS,
    ("TypeInformation", "key_rule"): OURS,
    ("TypeInformation", "limits_keys"): OURS,
    ("TypeInformation", "plain_keys"): OURS,
    ("TypeInformation", "prepare"): OURS,
    ("TypeInformation", "to_descriptor"): OURS,
    ("TypeInformation", "unpacker"): OURS,
    ("TypeInformation", "wrong_key"): OURS,
    ("NumberSequenceSource", "identity"): OURS,
    ("NumberSequenceSource", "open_split"): OURS,
    ("NumberSequenceSource", "splits"): OURS,
    ("NumberSequenceSource", "splits_for"): OURS,
    ("NumberSequenceSource", "value_of"): OURS,
    ("ProcessFunction.Context", "current_processing_time"): OURS,
    ("KeyedProcessFunction.Context", "current_processing_time"): OURS,
    ("KeyedProcessFunction.OnTimerContext", "current_processing_time"): OURS,
    ("CoProcessFunction.Context", "current_processing_time"): OURS,
    ("KeyedCoProcessFunction.Context", "current_processing_time"): OURS,
    ("KeyedCoProcessFunction.OnTimerContext", "current_processing_time"): OURS,
    ("ProcessAllWindowFunction.Context", "current_processing_time"): OURS,
    ("ProcessAllWindowFunction.Context", "current_watermark"): OURS,
    ("KeyedBroadcastProcessFunction.Context", "apply_to_keyed_state"): NESTED,
    ("TimeWindowSerializer", "from_data"): OURS,
    ("TimeWindowSerializer", "to_data"): OURS,
    ("CountWindowSerializer", "from_data"): OURS,
    ("CountWindowSerializer", "to_data"): OURS,
    ("GlobalWindowSerializer", "from_data"): OURS,
    ("GlobalWindowSerializer", "to_data"): OURS,
}
EVERYWHERE = ("get_runtime_context", "set_runtime_context", "set_in")
"""Of Java's RichFunction, on every function; ours, on each object that stands for options."""
ROWS = "part files that are complete with a number of rows, which Flink's own policies do not offer"
LONGER = {
    ("CompletableFuture", "exception"): PYTHON,
    ("CompletableFuture", "result"): PYTHON,
    **{
        (name, method): ROWS
        for name in ("RollingPolicy", "DefaultRollingPolicy", "OnCheckpointRollingPolicy")
        for method in ("default_rolling_policy", "on_checkpoint_rolling_policy")
    },
}
"""Methods with parameters that PyFlink's do not have."""


def offered():
    """Yield each public class of PyFlink that the engine has: its name and ours."""
    for name in public_classes():
        if name.split(".")[0] in engine.__all__:
            try:
                yield name, attrgetter(name)(engine)
            except AttributeError:
                # The page of what is absent lists it; `test_api_lacks.py` compares.
                continue


def methods(cls):
    for name, member in inspect.getmembers(cls):
        if not name.startswith("_") and callable(member) and not inspect.isclass(member):
            yield name, member


def parameters(method):
    return [name for name in inspect.signature(method).parameters if name != "self"]


def test_the_public_api_is_compared():
    assert len(list(offered())) > 100


def test_methods_have_the_parameters_of_pyflink_in_its_order():
    wrong = []
    for name, ours in offered():
        known = members(name)
        for method, member in methods(ours):
            if method not in known:
                if (name, method) not in EXTRA and method not in EVERYWHERE:
                    wrong.append(f"{name}.{method} is not in PyFlink: rename it, or name it in EXTRA")
                continue
            taken, theirs = parameters(member), known[method] or []
            if taken != theirs[: len(taken)] and (name, method) not in LONGER:
                wrong.append(f"{name}.{method} takes {taken}, PyFlink's takes {theirs}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("name", "method"), sorted(EXTRA))
def test_names_listed_as_extra_are_really_extra(name, method):
    assert hasattr(attrgetter(name)(engine), method), (
        f"{name}.{method} no longer exists: remove it from EXTRA"
    )
    assert method not in members(name), f"{name}.{method} is in PyFlink: remove it from EXTRA"


@pytest.mark.parametrize(("name", "method"), sorted(LONGER))
def test_methods_listed_as_longer_take_more_than_those_of_pyflink(name, method):
    assert len(parameters(getattr(attrgetter(name)(engine), method))) > len(members(name)[method])
