"""Why PyFlink's names are missing, and what to use instead: the tables behind engine/flink_names.json."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

INTERNAL: Final = (
    *("fn_execution", "find_flink_home", "gen_protos", "java_gateway", "proto", "pyflink_callback_server"),
    *("pyflink_gateway_server", "serializers", "shell", "testing", "util", "version"),
)
"""Packages and modules of PyFlink that serve itself."""


@dataclass(frozen=True)
class Group:
    """Why names are missing, and what to use instead where the table ``INSTEAD`` has nothing better."""

    reason: str
    instead: str


SERVICE: Final = Group(
    "the engine has no connector for this system",
    "write a Source or a Sink, or let the records pass through Kafka",
)
TABLES: Final = Group(
    "it belongs to the Table API",
    "import it from pyflink.table, where `onceproof run` and `onceproof job run` have it if the engine does",
)
JAVA: Final = Group("it hands objects to Java, and here there is none", "remove it from the program")
PRIVATE: Final = Group("PyFlink has it for its own work", "remove it: no program needs it")
REMOVED: Final = Group(
    "Flink itself has given it up", "remove it, or see Flink's release notes for what took its place"
)
MEANINGLESS: Final = Group("it sets or reads what the engine does not have", "remove it from the program")
PLANNED: Final = Group("it is not built yet", "see engine/docs/pyflink.md for what is planned")
LEARNING: Final = Group(
    "Flink ML left PyFlink after 1.12", "call a Python library for machine learning in a function"
)
DATA_SETS: Final = Group(
    "the DataSet API left PyFlink after 1.13",
    "call StreamExecutionEnvironment.set_runtime_mode(RuntimeExecutionMode.BATCH)",
)

OF_TABLES: Final = "pyflink.table"

GROUPS: Final = {
    "Needs a broker, a database or a service": SERVICE,
    "Needs the Table API": TABLES,
    "Java and Py4J only": JAVA,
    "Internal to PyFlink": PRIVATE,
    "Removed from Flink or deprecated there": REMOVED,
    "Without meaning here": MEANINGLESS,
    "Planned": PLANNED,
}
"""The groups of the page by their titles."""

PACKAGES: Final = {
    OF_TABLES: TABLES,
    "pyflink.ml": LEARNING,
    "pyflink.dataset": DATA_SETS,
    "pyflink.datastream.connectors": SERVICE,
    **{f"pyflink.{name}": PRIVATE for name in INTERNAL},
}
"""The group of a name that the page does not have, by the longest package that it is in."""

KRYO: Final = re.compile("kryo|pojo|type_registration|register_type|registered_types", re.IGNORECASE)

STREAMS: Final = "keep the DataStream and call its methods"
TYPES: Final = "use the types of Types, such as Types.STRING()"
FUNCTION: Final = "call map, flat_map or process with a function"
TWO_SOURCES: Final = "read the bounded source in one job and the other in the next, or union both streams"
READ_OPTION: Final = "read the option from get_configuration()"
INSTEAD: Final = {
    "EnvironmentSettings": "use StreamExecutionEnvironment.get_execution_environment(configuration), and"
    " set_runtime_mode for bounded input",
    "TableEnvironment": "use StreamExecutionEnvironment.get_execution_environment(configuration)",
    "BatchTableEnvironment": "call StreamExecutionEnvironment.set_runtime_mode(RuntimeExecutionMode.BATCH)",
    "TableConfig": "use StreamExecutionEnvironment.get_configuration()",
    "StreamTableEnvironment.execute_sql": "read with from_source, write with sink_to, and call the methods of"
    " DataStream in between",
    "StreamTableEnvironment.sql_query": "call map, filter, key_by and window of DataStream",
    "StreamTableEnvironment.sql_update": "write with sink_to of DataStream",
    "StreamTableEnvironment.create_temporary_view": STREAMS,
    "StreamTableEnvironment.from_data_stream": STREAMS,
    "StreamTableEnvironment.from_changelog_stream": STREAMS,
    "StreamTableEnvironment.to_append_stream": "call to_data_stream",
    "StreamTableEnvironment.to_retract_stream": "call key_by and reduce, which emit each new result",
    "StreamTableEnvironment.to_changelog_stream": "call key_by and reduce, which emit each new result",
    "StreamTableEnvironment.from_elements": "call StreamExecutionEnvironment.from_collection",
    "StreamTableEnvironment.from_pandas": "call StreamExecutionEnvironment.from_collection with the rows",
    "StreamTableEnvironment.get_config": "call StreamExecutionEnvironment.get_configuration()",
    "StreamTableEnvironment.execute": "call StreamExecutionEnvironment.execute",
    "StreamTableEnvironment.create_java_temporary_function": FUNCTION,
    "StreamTableEnvironment.create_temporary_function": FUNCTION,
    "StreamTableEnvironment.create_temporary_system_function": FUNCTION,
    "StreamTableEnvironment.register_function": FUNCTION,
    "Table.execute": "call to_data_stream, then execute_and_collect or sink_to",
    "Table.execute_insert": "call to_data_stream, then sink_to",
    "Table.to_pandas": "call to_data_stream, then execute_and_collect",
    "col": "read a field in a function, as in stream.filter(lambda row: row.amount > 3)",
    "lit": "write the value itself in a function",
    "udf": "call map with a function",
    "udtf": "call flat_map with a function",
    "udaf": "give aggregate an AggregateFunction",
    "udtaf": "give window(...).process a ProcessWindowFunction",
    "ScalarFunction": "use MapFunction",
    "TableFunction": "use FlatMapFunction",
    "TableAggregateFunction": "use ProcessWindowFunction",
    "Tumble": "use TumblingEventTimeWindows",
    "Slide": "use SlidingEventTimeWindows",
    "Session": "use EventTimeSessionWindows",
    "Over": "use KeyedProcessFunction with state",
    "CsvTableSource": "use FileSource with CsvReaderFormat",
    "CsvTableSink": "use FileSink with CsvBulkWriters",
    "TableSchema": "use Types.ROW_NAMED",
    "StreamingFileSink": "use FileSink",
    "SourceFunction": "use Source",
    "SimpleStringEncoder": "call Encoder.simple_string_encoder()",
    "ExecutionEnvironment": DATA_SETS.instead,
    "PickledBytesTypeInfo": "call Types.PICKLED_BYTE_ARRAY()",
    "BasicTypeInfo": TYPES,
    "WrapperTypeInfo": TYPES,
    "RowTypeInfo": "call Types.ROW or Types.ROW_NAMED",
    "TupleTypeInfo": "call Types.TUPLE",
    "ListTypeInfo": "call Types.LIST",
    "MapTypeInfo": "call Types.MAP",
    "ObjectArrayTypeInfo": "call Types.OBJECT_ARRAY",
    "BasicArrayTypeInfo": "call Types.BASIC_ARRAY",
    "PrimitiveArrayTypeInfo": "call Types.PRIMITIVE_ARRAY",
    "ExternalTypeInfo": TYPES,
    "Instant": "use milliseconds or datetime",
    "Types.INSTANT": "call Types.SQL_TIMESTAMP() or Types.LONG()",
    "JobID": "use the text that JobClient.get_job_id returns",
    "HybridSource": TWO_SOURCES,
    "HybridSourceBuilder": TWO_SOURCES,
    "FlinkKinesisConsumer": SERVICE.instead,
    "ExecutionMode": "remove it: records are pipelined, and exchanged in blocks in BATCH mode",
    "CustomStateBackend": "name the class of a StateBackendFactory in the option state.backend.type",
    "ConfigOption": "set options by their keys, as in Configuration.set_string",
    "ConfigOptions": "set options by their keys, as in Configuration.set_string",
    "DefaultRollingPolicy.builder": "call RollingPolicy.default_rolling_policy",
    "Encoder.get_java_encoder": JAVA.instead,
    "ExecutionConfig.get_restart_strategy": READ_OPTION,
    "StreamExecutionEnvironment.get_restart_strategy": READ_OPTION,
    "StreamExecutionEnvironment.get_state_backend": READ_OPTION,
    "StreamExecutionEnvironment.add_python_archive": "open the files of the archive by their own path",
    "StreamExecutionEnvironment.get_default_local_parallelism": "call get_parallelism",
    "StreamExecutionEnvironment.set_default_local_parallelism": "call set_parallelism",
    "StreamExecutionEnvironment.register_cached_file": "open the file by its path in `open` of a function",
    "StreamExecutionEnvironment.get_execution_plan": "see the page of the running job (engine/docs/rest.md)",
    "CheckpointConfig.get_checkpoint_storage": READ_OPTION,
    "JobClient.get_accumulators": "use metrics (RuntimeContext.get_metrics_group)",
    "JobExecutionResult.get_accumulator_result": "use metrics (RuntimeContext.get_metrics_group)",
    "JobExecutionResult.get_all_accumulator_results": "use metrics (RuntimeContext.get_metrics_group)",
}
"""What to use instead of a name or a member."""
