"""Environment and streams: how a program describes a job (PyFlink: pyflink.datastream.data_stream).

Rules:

- The classes here return each other: an environment makes streams, a keyed stream makes windowed ones, and
  these make streams again. So they stand in one module, and read each other's private members. What they
  share without naming each other (settings of operators, windows, joins, bundles) stands in modules below.
- A stream is a value: the nodes that its records come from, and how they spread over the next operator. It
  does nothing. A transformation adds a node to the environment and returns a new stream.
- `union`, `key_by`, `connect`, `rebalance`, `get_side_output` and the like add no node. They say what the
  next edge is.
- An operator with two inputs is keyed where both streams are. Keys on one side only say where its records
  go. Keys of both sides have one type: a key is placed by its type, so equal keys of different types would
  be in different subtasks.
- A runtime is picked inside `execute` and `execute_async`, the only upward imports of the API.
- Names, parameter order and defaults are PyFlink's. What PyFlink lacks has Flink's Java name in snake_case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, Self, TypeAlias, TypeVar, overload
from warnings import warn

from onceproof.engine.api.adapters import (
    OperatorFactory,
    aggregate_function_of,
    check_function,
    create_sink_operator,
    custom_partitioner,
    filter_function_of,
    flat_map_function_of,
    key_of,
    map_function_of,
    reduce_function_of,
)
from onceproof.engine.api.aggregations import (
    ExtremeElement,
    FieldAggregation,
    Projection,
    add,
    check_field,
    projection,
)
from onceproof.engine.api.closeable_iterator import CloseableIterator
from onceproof.engine.api.execution_config import ExecutionConfig
from onceproof.engine.api.job_description import JobDescription
from onceproof.engine.api.join_functions import (
    FIRST,
    SECOND,
    KeyOfTagged,
    TagWithSide,
    co_group_function,
    join_function,
    tagged_type,
)
from onceproof.engine.api.operator_settings import DataStreamSink, OperatorSettings, Upstreams
from onceproof.engine.api.stream_descriptions import BundleDescription, IntervalDescription, WindowDescription
from onceproof.engine.api.submission import current_program, executing
from onceproof.engine.api.time_characteristic import TimeCharacteristic
from onceproof.engine.broadcast_functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from onceproof.engine.configuration import (
    CHECKPOINT_DIRECTORY,
    EXECUTION_TARGET,
    LOCAL_TARGET,
    SPARK_TARGET,
    Configuration,
    job_settings,
)
from onceproof.engine.configuration.cluster_file import cluster_configuration
from onceproof.engine.configuration.options import SINK_COMMITTER_RETRIES
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
from onceproof.engine.connectors.bulk_files import InputFormat
from onceproof.engine.connectors.collect import CollectedRows, CollectSink
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.connectors.folder_source import FileSource
from onceproof.engine.connectors.kafka.flink_kafka import FlinkKafkaProducerBase
from onceproof.engine.connectors.print import PrintSinkFunction
from onceproof.engine.connectors.sink import Sink
from onceproof.engine.connectors.socket_source import SocketTextSource
from onceproof.engine.connectors.source import Source
from onceproof.engine.connectors.text_lines import DEFAULT_CHARSET, StreamFormat
from onceproof.engine.durations import milliseconds_of
from onceproof.engine.flink_names import missing_member
from onceproof.engine.functions import (
    AggregateFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    SinkFunction,
)
from onceproof.engine.graph import (
    BROADCAST,
    FORWARD,
    GLOBAL,
    REBALANCE,
    RESCALE,
    SHUFFLE,
    InvalidJob,
    JobGraph,
    Partitioner,
    PartitionerKind,
    Upstream,
)
from onceproof.engine.operators.broadcast import BroadcastOperator, TimedBroadcastOperator
from onceproof.engine.operators.co_process import (
    CoFlatMapOperator,
    CoMapOperator,
    CoProcessOperator,
    InputKeys,
    TimedCoProcessOperator,
    TwoInputOperator,
)
from onceproof.engine.operators.event_time import TimestampedSourceOperator, TimestampsAndWatermarksOperator
from onceproof.engine.operators.firing import overrides_on_timer
from onceproof.engine.operators.process import (
    KeyedProcessOperator,
    ProcessOperator,
    TimedProcessOperator,
    has_timers,
)
from onceproof.engine.operators.reduce import KeyedReduceOperator, RichReduceOperator
from onceproof.engine.operators.rich import (
    KeyedFilterOperator,
    KeyedFlatMapOperator,
    KeyedMapOperator,
    KeyedSinkOperator,
)
from onceproof.engine.operators.sink import SinkOperator
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.operators.stateless import FilterOperator, FlatMapOperator, MapOperator
from onceproof.engine.operators.window import WindowOperator
from onceproof.engine.operators.window_parts import WindowFunctions
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.partitioner import Partitioner as CustomPartitioner
from onceproof.engine.state.descriptors import MapStateDescriptor
from onceproof.engine.types import Types
from onceproof.engine.types.field_access import Position
from onceproof.engine.watermarks.strategy import WatermarkStrategy
from onceproof.engine.windows.assigners import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from onceproof.engine.windows.count_windows import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from onceproof.engine.windows.evictors import Evictor
from onceproof.engine.windows.triggers import Trigger
from onceproof.engine.windows.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)

if TYPE_CHECKING:
    from onceproof.engine.api.job_client import JobClient
    from onceproof.engine.durations import Duration, Time
    from onceproof.engine.operators.base import Operator
    from onceproof.engine.operators.bundle import Fold
    from onceproof.engine.types import TypeInformation

Selector: TypeAlias = Callable[[Any], Any]

_ONLY_KEY: Final = 0
_FIRST_FIELD: Final = itemgetter(0)


class StreamExecutionEnvironment(JobDescription):
    """Where a job is described and executed (PyFlink: StreamExecutionEnvironment)."""

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """Return a new environment with its own copy of ``configuration``, over that of the cluster.

        Raises ConfigurationError: the cluster's file is missing or wrong (`cluster_file.py`).
        """
        environment = StreamExecutionEnvironment(cluster_configuration())
        if configuration is not None:
            environment.configure(configuration)
        environment._configure_as_submitted()
        return environment

    # ---- sources

    def from_collection(
        self, collection: Iterable[Any], type_info: TypeInformation | None = None
    ) -> DataStream:
        """Return a stream of the values of a collection, read by one subtask; for tests and examples."""
        values = list(collection)
        create = partial(SourceOperator, CollectionSource.of_values(values))
        stream = self._add_source(create, "Collection Source", type_info)
        return stream.force_non_parallel()

    def from_elements(self, *elements: Any, type_info: TypeInformation | None = None) -> DataStream:
        """Return a stream of the given values, as ``from_collection`` (Flink: fromElements)."""
        if not elements:
            raise InvalidJob("from_elements has no value: give at least one, or from_collection([])")
        return self.from_collection(elements, type_info)

    def read_text_file(self, path: str, charset_name: str = DEFAULT_CHARSET) -> DataStream:
        """Return a stream of the lines of a file, or of all visible files in a folder (Flink: readTextFile).

        Raises UnreadableFile if the path does not exist, ValueError for a charset that is not known.
        """
        text = StreamFormat.text_line_format(charset_name)
        source = FileSource.for_record_stream_format(text, path).process_static_file_set().build()
        return self._add_source(partial(SourceOperator, source), "Text File Source", Types.STRING())

    def socket_text_stream(
        self, host: str, port: int, delimiter: str = "\n", max_retry: int = 0
    ) -> DataStream:
        """Return a stream of the texts that a server sends, read by one subtask (Flink: socketTextStream).

        It ends with the connection, after ``max_retry`` further connections; -1: never. A socket gives
        nothing twice, so a failure loses what was read since the last checkpoint. Raises ValueError.
        """
        source = SocketTextSource(host, port, delimiter, max_retry)
        stream = self._add_source(partial(SourceOperator, source), "Socket Stream", Types.STRING())
        return stream.force_non_parallel()

    def from_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy | None = None,
        source_name: str = "source",
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """Return a stream of the records that a source reads.

        Without a ``watermark_strategy`` (ours: PyFlink requires one) records keep the timestamps of the
        source, and event time advances only at the end of the data. Without a ``type_info`` the values have
        the type that the source produces, if it knows one. Raises InvalidJob for another class.
        """
        if not isinstance(source, Source):
            raise InvalidJob(f"from_source takes a Source, not {source!r}")
        type_info = type_info or source.get_produced_type()
        if watermark_strategy is None:
            return self._add_source(partial(SourceOperator, source), source_name, type_info)
        if not isinstance(watermark_strategy, WatermarkStrategy):
            raise InvalidJob(
                f"from_source takes a WatermarkStrategy, not {watermark_strategy!r}:"
                " such as WatermarkStrategy.for_monotonous_timestamps()"
            )
        create = partial(TimestampedSourceOperator, source, watermark_strategy)
        return self._add_source(create, source_name, type_info)

    def create_input(self, input_format: InputFormat, type_info: TypeInformation | None = None) -> DataStream:
        """Return a stream of the records of a format, of the type that it produces if none is given.

        Raises InvalidJob for another object, UnreadableFile where the path of a format does not exist.
        """
        if not isinstance(input_format, InputFormat):
            raise InvalidJob(
                f"create_input takes an InputFormat, not {input_format!r}: such as AvroInputFormat"
            )
        create = partial(SourceOperator, input_format.create_source())
        return self._add_source(create, "Custom Source", type_info or input_format.get_produced_type())

    def add_source(
        self,
        source_func: Source,
        source_name: str = "Custom Source",
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """Return a stream of the records of a source; for FlinkKafkaConsumer, use ``from_source``."""
        return self.from_source(source_func, None, source_name, type_info)

    def _add_source(
        self, create: Callable[[], Operator], name: str, type_info: TypeInformation | None
    ) -> DataStream:
        node = self._add_node(name, create, (), type_info)
        return DataStream(self, (Upstream(node),), type_info)

    # ---- execution

    def execute(self, job_name: str | None = None) -> Any:
        """Run the job to its end where ``execution.target`` says, and forget its description.

        Returns the runtime's result. Raises the error that failed the job.
        """
        if (taken := self._taken(job_name)) is not None:
            return taken.get_job_execution_result().result()
        graph = self._take_job_graph(job_name)
        with executing(graph) as result:
            result.set_result(self._run(graph))
        return result.result()

    def _run(self, graph: JobGraph) -> Any:
        if self._configuration.get(EXECUTION_TARGET) == SPARK_TARGET:
            from onceproof.engine.runtime.spark.target import execute_on_target

            return execute_on_target(graph, self._configuration)
        if graph.settings.monitor.is_on:
            from onceproof.engine.runtime.monitor.monitored_runs import execute as execute_monitored

            return execute_monitored(graph)
        if graph.settings.workers > 1:
            from onceproof.engine.runtime.workers.worker_coordinator import execute as execute_in_workers

            return execute_in_workers(graph)
        from onceproof.engine.runtime.local import execute

        return execute(graph)

    def execute_async(self, job_name: str | None = None) -> JobClient:
        """Start the job where ``execution.target`` says, and forget its description.

        Returns the client of the job. The job runs in a thread; the process does not end before it.
        """
        if (taken := self._taken(job_name)) is not None:
            return taken
        graph = self._take_job_graph(job_name)
        program = current_program()
        program.check_not_executed(graph)
        client = self._start(graph)
        program.executes(graph, client.get_job_execution_result())
        return client

    def _start(self, graph: JobGraph) -> JobClient:
        if self._configuration.get(EXECUTION_TARGET) == SPARK_TARGET:
            from onceproof.engine.runtime.spark.target import start_on_target

            return start_on_target(graph, self._configuration)
        if graph.settings.monitor.is_on:
            from onceproof.engine.runtime.monitor.monitored_runs import start as start_monitored

            return start_monitored(graph)
        if graph.settings.workers > 1:
            from onceproof.engine.runtime.workers.worker_coordinator import start as start_in_workers

            return start_in_workers(graph)
        from onceproof.engine.runtime.local import start

        return start(graph)

    def _execute_and_collect(self, stream: DataStream, job_name: str | None) -> CloseableIterator:
        if self._configuration.get(EXECUTION_TARGET) == SPARK_TARGET:
            raise InvalidJob(
                "execute_and_collect hands out rows in this process, and on Spark sinks run in others:"
                f" write to files, or set {EXECUTION_TARGET.key} to {LOCAL_TARGET}"
            )
        rows = CollectedRows()
        sink = CollectSink(rows, transactional=job_settings(self._configuration).enabled)
        stream.sink_to(sink).name("Data stream collect sink").set_parallelism(1)
        if (taken := self._taken(job_name)) is not None:
            return CloseableIterator(rows, taken)
        directory = self._configuration.get(CHECKPOINT_DIRECTORY)
        # The rows live only as long as this process, so no checkpoint that counts on them may outlive it.
        self._configuration.remove_config(CHECKPOINT_DIRECTORY.key)
        try:
            graph = self._take_job_graph(job_name)
        finally:
            if directory is not None:
                self._configuration.set(CHECKPOINT_DIRECTORY, directory)
        from onceproof.engine.runtime.collecting import start_collecting

        return CloseableIterator(rows, start_collecting(graph))


class DataStream(OperatorSettings):
    """A stream of values (PyFlink: DataStream)."""

    def __init__(
        self,
        environment: StreamExecutionEnvironment,
        upstreams: Upstreams,
        output_type: TypeInformation | None = None,
    ) -> None:
        self._environment = environment
        self._upstreams = upstreams
        self._type = output_type

    if not TYPE_CHECKING:  # a type checker would take every name for one of a stream

        def __getattr__(self, name: str) -> NoReturn:
            """Name the mend where a method is that of a keyed stream only, such as ``reduce``."""
            is_keyed_only = not name.startswith("_") and hasattr(KeyedStream, name)
            mend = ": call key_by first" if is_keyed_only else ""
            default = f"a {type(self).__name__} has no {name!r}{mend}"
            reason = default if mend or name.startswith("_") else missing_member(type(self), name, default)
            raise AttributeError(reason, name=name, obj=self)

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Return the environment that the stream belongs to."""
        return self._environment

    def get_execution_config(self) -> ExecutionConfig:
        """Return the settings of the execution, to read and to change."""
        return self._environment.get_config()

    def get_type(self) -> TypeInformation | None:
        """Return the declared type of the values, or None."""
        return self._type

    # ---- what the next edge is

    def _partitioned(self, partitioner: Partitioner) -> DataStream:
        return DataStream(self._environment, _over(self._upstreams, partitioner), self._type)

    def forward(self) -> DataStream:
        """Send the records of subtask i to subtask i; both operators must have the same parallelism."""
        return self._partitioned(FORWARD)

    def rebalance(self) -> DataStream:
        """Send the records to all subtasks in turn."""
        return self._partitioned(REBALANCE)

    def rescale(self) -> DataStream:
        """Send the records to a part of the subtasks in turn, which takes fewer channels than rebalance."""
        return self._partitioned(RESCALE)

    def shuffle(self) -> DataStream:
        """Send each record to a random subtask."""
        return self._partitioned(SHUFFLE)

    def partition_custom(
        self,
        partitioner: CustomPartitioner | Callable[[Any, int], int],
        key_selector: Selector | KeySelector,
    ) -> DataStream:
        """Send each record to the subtask that ``partitioner`` chooses by its key.

        The partitioner gets the key and the number of subtasks and returns an index; for one key always the
        same. The records have no keyed state. A job with unaligned checkpoints needs
        ``execution.checkpointing.unaligned.forced``, because a rescale chooses anew for records in flight.

        Raises:
            InvalidJob: one of the arguments is neither a function nor an object of its class.
        """
        return self._partitioned(custom_partitioner(partitioner, key_selector))

    @overload
    def broadcast(self) -> DataStream: ...

    @overload
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> BroadcastStream: ...

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> DataStream | BroadcastStream:
        """Send every record to every subtask.

        With descriptors of the broadcast state it returns a BroadcastStream, for another stream to connect.
        """
        if broadcast_state_descriptor is None:
            return self._partitioned(BROADCAST)
        return BroadcastStream(self, (broadcast_state_descriptor, *other_broadcast_state_descriptors))

    def global_(self) -> DataStream:
        """Send every record to the first subtask (Flink: global, a reserved word in Python)."""
        return self._partitioned(GLOBAL)

    def union(self, *streams: DataStream) -> DataStream:
        """Return one stream of the records of this stream and others, in no particular order."""
        upstreams = list(self._upstreams)
        for stream in streams:
            check_function("union", stream, DataStream, KeyedStream, "")
            _check_one_environment("union", self, stream)
            if self._type is not stream._type and None not in (self._type, stream._type):
                raise InvalidJob(
                    f"union takes streams of one type, and this one is {self._type}, the other"
                    f" {stream._type}: map one of them to the type of the other"
                )
            upstreams.extend(stream._upstreams)
        return DataStream(self._environment, tuple(upstreams), self._type)

    @overload
    def connect(self, ds: DataStream) -> ConnectedStreams: ...

    @overload
    def connect(self, ds: BroadcastStream) -> BroadcastConnectedStream: ...

    def connect(self, ds: DataStream | BroadcastStream) -> ConnectedStreams | BroadcastConnectedStream:
        """Connect this stream and another one as the two inputs of an operator."""
        if isinstance(ds, BroadcastStream):
            return BroadcastConnectedStream(self, ds)
        if not isinstance(ds, DataStream):
            raise InvalidJob(f"connect takes a DataStream or a BroadcastStream, not {ds!r}")
        return ConnectedStreams(self, ds)

    def join(self, other: DataStream) -> JoinedStreams:
        """Pair the values of two streams by key and window (Flink: DataStream.join)."""
        return JoinedStreams(self, other)

    def co_group(self, other: DataStream) -> CoGroupedStreams:
        """Evaluate the values of two streams together by key and window (Flink: DataStream.coGroup)."""
        return CoGroupedStreams(self, other)

    def key_by(
        self, key_selector: Selector | KeySelector | Position, key_type: TypeInformation | None = None
    ) -> KeyedStream:
        """Send records with equal keys to the same subtask; state and timers then belong to a key.

        The position or the name of a field as ``key_selector`` is deprecated.
        """
        return KeyedStream(self, key_of(key_selector), key_type)

    # ---- transformations

    def _transform(
        self,
        name: str,
        create: Callable[[], Operator],
        output_type: TypeInformation | None,
        upstreams: Upstreams | None = None,
    ) -> DataStream:
        node = self._environment._add_node(name, create, upstreams or self._upstreams, output_type)
        return DataStream(self._environment, (Upstream(node),), output_type)

    def _tagged(self, side: int, tagged: TypeInformation) -> DataStream:
        """Tag the values of a side of a join in the subtasks that make them, so that they stay in order."""
        stream = self.map(TagWithSide(side), tagged)
        first, *others = self._upstreams
        if not others and first.partitioner is None:
            stream._upstreams[0].node.take_parallelism_of(first.node)
        return stream

    def _passed_on(self, stream: DataStream) -> DataStream:
        """Return ``stream`` with the type of this one; its operator passes on values that have it already."""
        return DataStream(self._environment, stream._upstreams, self._type)

    def transform(
        self, operator_name: str, output_type: TypeInformation | None, create: Callable[[], Operator]
    ) -> DataStream:
        """Run an operator of the user's own on this stream (Flink: DataStream.transform).

        Args:
            operator_name: how graphs and messages call it.
            output_type: the type of what it emits.
            create: makes the operator, once for each subtask and attempt.

        Returns:
            The stream of what the operator emits.
        """
        return self._transform(operator_name, create, output_type)

    def map(self, func: Selector | MapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Emit one value for each value."""
        return self._transform("Map", OperatorFactory(MapOperator, map_function_of(func)), output_type)

    def flat_map(
        self, func: Selector | FlatMapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Emit any number of values for each value."""
        factory = OperatorFactory(FlatMapOperator, flat_map_function_of(func))
        return self._transform("Flat Map", factory, output_type)

    def filter(self, func: Selector | FilterFunction) -> DataStream:
        """Emit the values for which ``func`` is true."""
        factory = OperatorFactory(FilterOperator, filter_function_of(func))
        return self._passed_on(self._transform("Filter", factory, None))

    def project(self, *field_indexes: int) -> DataStream:
        """Keep these fields of tuples, in this order. Raises InvalidJob if the stream is none of tuples."""
        kept = projection(self._type, field_indexes)
        factory = OperatorFactory(MapOperator, Projection(field_indexes))
        return self._transform("Projection", factory, kept)

    def process(self, func: ProcessFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Emit any number of values for each value, with access to timestamps and side outputs."""
        check_function("process", func, ProcessFunction, KeyedProcessFunction, "key_by first")
        return self._transform("Process", OperatorFactory(ProcessOperator, func), output_type)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """Give the records timestamps and watermarks, in place of those that they have."""
        if not isinstance(watermark_strategy, WatermarkStrategy):
            raise InvalidJob(
                f"assign_timestamps_and_watermarks takes a WatermarkStrategy, not {watermark_strategy!r}"
            )
        create = partial(TimestampsAndWatermarksOperator, watermark_strategy)
        return self._passed_on(self._transform("Timestamps/Watermarks", create, None))

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """Return the stream of what the operator emits under a tag."""
        if not isinstance(output_tag, OutputTag):
            raise InvalidJob(f"get_side_output takes an OutputTag, not {output_tag!r}")
        upstream = Upstream(self._node("side output"), None, output_tag.tag_id)
        return DataStream(self._environment, (upstream,), output_tag.type_info)

    def window_all(self, window_assigner: WindowAssigner) -> AllWindowedStream:
        """Cut the stream into windows over all records; one subtask evaluates them."""
        return AllWindowedStream(self, window_assigner)

    # ---- sinks

    def add_sink(self, sink_func: SinkFunction | FlinkKafkaProducerBase) -> DataStreamSink:
        """End the stream in a sink function."""
        if isinstance(sink_func, FlinkKafkaProducerBase):
            return self.sink_to(sink_func.as_sink())
        check_function("add_sink", sink_func, SinkFunction, Sink, "sink_to")
        return DataStreamSink(self._transform("Sink", OperatorFactory(SinkOperator, sink_func), None))

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """End the stream in a sink."""
        check_function("sink_to", sink, Sink, SinkFunction, "add_sink")
        retries = self._environment.get_configuration().get(SINK_COMMITTER_RETRIES)
        create = partial(create_sink_operator, sink.for_type(self._type), retries)
        return DataStreamSink(self._transform("Sink", create, None))

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Write every value to stdout, each line prefixed with ``sink_identifier``."""
        return self.add_sink(PrintSinkFunction(sink_identifier, self._type)).name("Print to Std. Out")

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Start the job and return the values of this stream while they come.

        Returns an iterator, whose ``close`` cancels the job, or with a ``limit`` a list of the first so many
        values; then the job is cancelled. With checkpoints on, each value is returned exactly once. Raises
        InvalidJob on Spark.
        """
        if limit is not None and (type(limit) is not int or limit < 1):
            raise InvalidJob(f"limit of execute_and_collect is {limit!r}: give a whole number of at least 1")
        rows = self._environment._execute_and_collect(self, job_execution_name)
        if limit is None:
            return rows
        with rows:
            return list(islice(rows, limit))


class KeyedStream(DataStream):
    """A stream partitioned by key (PyFlink: KeyedStream)."""

    def __init__(self, origin: DataStream, key_selector: Selector, key_type: TypeInformation | None) -> None:
        if key_type is not None:
            key_type.check_key_type()
        partitioner = Partitioner(PartitionerKind.HASH, key_selector, key_type)
        super().__init__(origin._environment, _over(origin._upstreams, partitioner), origin._type)
        self._origin = origin
        self._key_selector = key_selector
        self._key_type = key_type

    # Function objects have keyed state here; plain callables cannot ask for any.

    def map(self, func: Selector | MapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Emit one value for each value; a MapFunction has the state of the value's key."""
        if not isinstance(func, MapFunction):
            return super().map(func, output_type)
        return self._keyed("Map", KeyedMapOperator, func, output_type)

    def flat_map(
        self, func: Selector | FlatMapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Emit any number of values for each value; a FlatMapFunction has the state of the value's key."""
        if not isinstance(func, FlatMapFunction):
            return super().flat_map(func, output_type)
        return self._keyed("Flat Map", KeyedFlatMapOperator, func, output_type)

    def filter(self, func: Selector | FilterFunction) -> DataStream:
        """Emit the values for which ``func`` is true; a FilterFunction has the state of the value's key."""
        if not isinstance(func, FilterFunction):
            return super().filter(func)
        return self._passed_on(self._keyed("Filter", KeyedFilterOperator, func, None))

    def process(
        self,
        func: KeyedProcessFunction | ProcessFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Emit any number of values for each value, with the state and the timers of the value's key.

        A plain ProcessFunction is taken too, as in Flink's Java API; PyFlink refuses it.
        """
        if not isinstance(func, KeyedProcessFunction | ProcessFunction):
            raise InvalidJob(
                f"process on a keyed stream takes a KeyedProcessFunction or a ProcessFunction, not {func!r}"
            )
        kind = TimedProcessOperator if has_timers(func) else KeyedProcessOperator
        return self._keyed("KeyedProcess", kind, func, output_type)

    def add_sink(self, sink_func: SinkFunction | FlinkKafkaProducerBase) -> DataStreamSink:
        """End the stream in a sink function, which has the state of the value's key."""
        if isinstance(sink_func, FlinkKafkaProducerBase):
            return self.sink_to(sink_func.as_sink())
        check_function("add_sink", sink_func, SinkFunction, Sink, "sink_to")
        return DataStreamSink(self._keyed("Sink", KeyedSinkOperator, sink_func, None))

    def _keyed(
        self,
        name: str,
        operator: Callable[..., Operator],
        function: Function,
        output_type: TypeInformation | None,
    ) -> DataStream:
        factory = OperatorFactory(operator, function, self._key_selector, self._key_type)
        return self._transform(name, factory, output_type)

    def window(self, window_assigner: WindowAssigner) -> WindowedStream:
        """Cut the records of each key into windows."""
        return WindowedStream(self, window_assigner)

    def time_window(self, size: Time, slide: Time | None = None) -> WindowedStream:
        """Cut the records of each key into windows of time (Flink up to 1.13: timeWindow; deprecated).

        The time is that of the clock, unless ``set_stream_time_characteristic`` named another one before.
        """
        by_clock = self._environment.get_stream_time_characteristic() is TimeCharacteristic.ProcessingTime
        time = "Processing" if by_clock else "Event"
        kind = "Tumbling" if slide is None else "Sliding"
        warn(
            f"time_window is deprecated: call window with {kind}{time}TimeWindows",
            DeprecationWarning,
            stacklevel=2,
        )
        if slide is None:
            tumbling = TumblingProcessingTimeWindows if by_clock else TumblingEventTimeWindows
            return self.window(tumbling.of(size))
        sliding = SlidingProcessingTimeWindows if by_clock else SlidingEventTimeWindows
        return self.window(sliding.of(size, slide))

    def count_window(self, size: int, slide: int = 0) -> WindowedStream:
        """Cut the records of each key into windows of ``size`` records, evaluated every ``slide`` records.

        Without a slide each record is in one window. As in PyFlink, a window is a CountWindow, and only full
        ones are evaluated: Flink's Java API evaluates shorter ones at the beginning of a key.
        """
        if not slide:
            return self.window(CountTumblingWindowAssigner.of(size))
        return self.window(CountSlidingWindowAssigner.of(size, slide))

    def bundle(self, size: int, latency: Duration | Time | None = None) -> BundledStream:
        """Fold the records in bundles of up to ``size``; a bundle emits at most one result for each key.

        A bundle also ends with a checkpoint, as in Flink's mini-batch aggregation of tables. ``latency``, in
        processing time, is the longest that bundles hold a record back; None: until the next checkpoint,
        watermark or end of data, where too few records come to fill a bundle.
        """
        return BundledStream(self, size, latency)

    def interval_join(self, other_stream: KeyedStream) -> IntervalJoin:
        """Pair the values of two keyed streams whose times are near (Flink: KeyedStream.intervalJoin)."""
        return IntervalJoin(self, other_stream)

    def broadcast(self, *args: Any) -> NoReturn:
        """Raise InvalidJob, as PyFlink does: the key decides where a record goes."""
        self._partitioned(BROADCAST)

    def reduce(self, func: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        """Reduce the values of a key to one, and emit it after each value.

        A ReduceFunction may keep state of its own beside the reduced value.
        """
        kind = RichReduceOperator if isinstance(func, ReduceFunction) else KeyedReduceOperator
        return self._reduced("Reduce", reduce_function_of(func), kind)

    def sum(self, position_to_sum: Position = 0) -> DataStream:
        """Emit the running sum of a field."""
        check_field(position_to_sum, self._type)
        return self._reduced("Sum", FieldAggregation(position_to_sum, add))

    def min(self, position_to_min: Position = 0) -> DataStream:
        """Emit the running minimum of a field; the other fields are those of the key's first value."""
        check_field(position_to_min, self._type)
        return self._reduced("Min", FieldAggregation(position_to_min, min))

    def max(self, position_to_max: Position = 0) -> DataStream:
        """Emit the running maximum of a field; the other fields are those of the key's first value."""
        check_field(position_to_max, self._type)
        return self._reduced("Max", FieldAggregation(position_to_max, max))

    def min_by(self, position_to_min_by: Position = 0) -> DataStream:
        """Emit the value with the least field so far; of equals the first."""
        check_field(position_to_min_by, self._type)
        return self._reduced("Min By", ExtremeElement(position_to_min_by, greatest=False))

    def max_by(self, position_to_max_by: Position = 0) -> DataStream:
        """Emit the value with the greatest field so far; of equals the first."""
        check_field(position_to_max_by, self._type)
        return self._reduced("Max By", ExtremeElement(position_to_max_by, greatest=True))

    def _reduced(
        self, name: str, function: Function, kind: type[KeyedReduceOperator] = KeyedReduceOperator
    ) -> DataStream:
        factory = OperatorFactory(kind, function, self._key_selector, self._key_type, self._type)
        return self._transform(name, factory, self._type)

    def _partitioned(self, partitioner: Partitioner) -> NoReturn:
        raise InvalidJob("the partitioning of a keyed stream cannot be changed: call it before key_by")


# ---- windows


class _Windowed(WindowDescription):
    def __init__(self, keyed_stream: KeyedStream, window_assigner: WindowAssigner) -> None:
        super().__init__(window_assigner)
        self._stream = keyed_stream

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Return the environment that the stream belongs to."""
        return self._stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation | None:
        """Return the declared type of the records, or None."""
        return self._stream.get_type()

    def reduce(
        self,
        reduce_function: Callable[[Any, Any], Any] | ReduceFunction,
        window_function: Function | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Reduce the records of a window as they come; ``window_function`` gets the one that is left."""
        fold = reduce_function_of(reduce_function)
        if window_function is None and output_type is None:
            output_type = self._stream.get_type()
        return self._evaluated("reduce", fold, window_function, output_type)

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: Function | None = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Aggregate the records of a window as they come; ``window_function`` gets the one result."""
        fold = aggregate_function_of(aggregate_function)
        return self._evaluated("aggregate", fold, window_function, output_type, accumulator_type)

    def sum(self, position_to_sum: Position = 0) -> DataStream:
        """Emit the sum of a field for each window (Flink: WindowedStream.sum)."""
        return self.reduce(FieldAggregation(position_to_sum, add))

    def min(self, position_to_min: Position = 0) -> DataStream:
        """Emit the minimum of a field; the other fields are those of the window's first value."""
        return self.reduce(FieldAggregation(position_to_min, min))

    def max(self, position_to_max: Position = 0) -> DataStream:
        """Emit the maximum of a field; the other fields are those of the window's first value."""
        return self.reduce(FieldAggregation(position_to_max, max))

    def min_by(self, position_to_min_by: Position = 0) -> DataStream:
        """Emit the value of the window with the least field; of equals the first."""
        return self.reduce(ExtremeElement(position_to_min_by, greatest=False))

    def max_by(self, position_to_max_by: Position = 0) -> DataStream:
        """Emit the value of the window with the greatest field; of equals the first."""
        return self.reduce(ExtremeElement(position_to_max_by, greatest=True))

    def apply(self, window_function: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Call a window function with all records of a window."""
        self._check("apply", window_function, self._apply_function)
        return self._evaluated("apply", None, window_function, output_type)

    def process(self, process_window_function: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Call a process window function with all records of a window, and with access to state."""
        self._check("process", process_window_function, self._process_function)
        return self._evaluated("process", None, process_window_function, output_type)

    def _evaluated(
        self,
        method: str,
        fold: Fold | None,
        function: Function | None,
        output_type: TypeInformation | None,
        accumulator_type: TypeInformation | None = None,
    ) -> DataStream:
        self._check_window_function(method, function)
        stream = self._stream
        types = (stream._key_type, stream.get_type(), accumulator_type)
        settings = self._settings(stream.get_execution_environment(), stream._key_selector, types)
        factory = OperatorFactory(WindowOperator, WindowFunctions(fold, function), settings)
        return stream._transform(type(self._assigner).__name__, factory, output_type)


class WindowedStream(_Windowed):
    """Windows over the records of each key (PyFlink: WindowedStream)."""

    _apply_function = WindowFunction
    _process_function = ProcessWindowFunction


class AllWindowedStream(_Windowed):
    """Windows over all records, evaluated in one subtask (PyFlink: AllWindowedStream)."""

    _apply_function = AllWindowFunction
    _process_function = ProcessAllWindowFunction

    def __init__(self, data_stream: DataStream, window_assigner: WindowAssigner) -> None:
        super().__init__(data_stream.key_by(_the_only_key, Types.BYTE()), window_assigner)

    def _evaluated(self, *arguments: Any) -> DataStream:
        return super()._evaluated(*arguments).force_non_parallel()


def _the_only_key(value: Any) -> int:
    return _ONLY_KEY


# ---- bundles


class BundledStream(BundleDescription):
    """The records of each key, folded in bundles.

    Fewer results and much less work where only the latest result of a key matters::

        bundles = words.key_by(lambda word: word).bundle(10_000, Duration.of_seconds(2))
        bundles.aggregate(Count(), Types.LONG()).sink_to(table)

    Name, uid and parallelism set on the result are those of the operator with the state.
    """

    def __init__(self, keyed_stream: KeyedStream, size: int, latency: Duration | Time | None) -> None:
        super().__init__(keyed_stream._key_selector, keyed_stream._key_type, size, latency)
        self._stream = keyed_stream._origin

    def reduce(self, func: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        """Reduce the values of a key to one, and emit it at the end of each bundle that has the key.

        ``func`` must be associative: parts of a bundle are reduced before they meet.
        """
        values = self._stream.get_type()
        return self._folded("Reduce", reduce_function_of(func), values, values)

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Aggregate the values of a key, and emit (key, result) at the end of each bundle that has the key.

        Accumulators of parts of a bundle meet in the function's `merge`.
        """
        fold = aggregate_function_of(aggregate_function)
        return self._folded("Aggregate", fold, accumulator_type, output_type)

    def _folded(
        self,
        verb: str,
        fold: Fold,
        folded_type: TypeInformation | None,
        output_type: TypeInformation | None,
    ) -> DataStream:
        # The accumulators are the engine's own values, and what is folded has been checked already.
        local = self._stream._transform(f"Local {verb}", self._local_operator(fold), None)
        first, *others = self._stream._upstreams
        if not others and first.partitioner is None:
            # The local operator chains to the one before it only with as many subtasks.
            local._upstreams[0].node.take_parallelism_of(first.node)
        by_key = local.key_by(_FIRST_FIELD, self._key_type)
        return by_key._transform(f"Bundled {verb}", self._bundled_operator(fold, folded_type), output_type)


# ---- two inputs


class ConnectedStreams:
    """Two streams, each with its type, side by side (PyFlink: ConnectedStreams)."""

    def __init__(self, data_stream1: DataStream, data_stream2: DataStream) -> None:
        _check_one_environment("connect", data_stream1, data_stream2)
        self._first = data_stream1
        self._second = data_stream2

    def key_by(
        self,
        key_selector1: Selector | KeySelector,
        key_selector2: Selector | KeySelector,
        key_type: TypeInformation | None = None,
    ) -> ConnectedStreams:
        """Send records with equal keys of both streams to the same subtask."""
        return ConnectedStreams(
            self._first.key_by(key_selector1, key_type), self._second.key_by(key_selector2, key_type)
        )

    def map(self, func: CoMapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Emit at most one value for each value of either stream."""
        _check("map", func, CoMapFunction)
        return self._transform("Co-Map", CoMapOperator, func, output_type)

    def flat_map(self, func: CoFlatMapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Emit any number of values for each value of either stream."""
        _check("flat_map", func, CoFlatMapFunction)
        return self._transform("Co-Flat Map", CoFlatMapOperator, func, output_type)

    def process(
        self, func: CoProcessFunction | KeyedCoProcessFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Emit any number of values for each value of either stream, with access to time and state.

        A KeyedCoProcessFunction needs both streams keyed. Raises InvalidJob.
        """
        operator: type[TwoInputOperator] = CoProcessOperator
        if isinstance(func, KeyedCoProcessFunction):
            if _shared_keys(self._first, self._second) is None:
                raise InvalidJob(
                    f"process takes {type(func).__name__}, a KeyedCoProcessFunction, on keyed streams only:"
                    " call key_by on both first"
                )
            if overrides_on_timer(func, KeyedCoProcessFunction):
                operator = TimedCoProcessOperator
        else:
            _check("process", func, CoProcessFunction)
        return self._transform("Co-Process", operator, func, output_type)

    def _transform(
        self,
        name: str,
        operator: type[TwoInputOperator],
        function: Function,
        output_type: TypeInformation | None,
    ) -> DataStream:
        factory = OperatorFactory(operator, function, _shared_keys(self._first, self._second))
        return _transform_two(self._first, self._second, name, factory, output_type)


class BroadcastStream:
    """A stream that goes to every subtask, with its broadcast state (PyFlink: BroadcastStream)."""

    def __init__(self, input_stream: DataStream, descriptors: tuple[MapStateDescriptor, ...]) -> None:
        names: set[str] = set()
        for descriptor in descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise InvalidJob(f"broadcast takes MapStateDescriptors, not {descriptor!r}")
            if descriptor.name in names:
                raise InvalidJob(
                    f"broadcast has two descriptors of the name {descriptor.name!r}: a name is one state"
                )
            names.add(descriptor.name)
        self._stream = input_stream._partitioned(BROADCAST)
        self._descriptors = descriptors


class BroadcastConnectedStream:
    """A stream, keyed or not, beside a broadcast one (PyFlink: BroadcastConnectedStream)."""

    def __init__(self, non_broadcast_stream: DataStream, broadcast_stream: BroadcastStream) -> None:
        _check_one_environment("connect", non_broadcast_stream, broadcast_stream._stream)
        self._first = non_broadcast_stream
        self._broadcast = broadcast_stream

    def process(
        self,
        func: BroadcastProcessFunction | KeyedBroadcastProcessFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Emit any number of values for each value of either stream, with access to the broadcast state.

        A keyed stream takes a KeyedBroadcastProcessFunction, another one a BroadcastProcessFunction.
        """
        operator = BroadcastOperator
        keys: InputKeys | None = None
        name = "Co-Process-Broadcast"
        if isinstance(self._first, KeyedStream):
            _check("process on a keyed stream beside a broadcast one", func, KeyedBroadcastProcessFunction)
            keys = InputKeys((self._first._key_selector, None), self._first._key_type)
            name = "Co-Process-Broadcast-Keyed"
            if overrides_on_timer(func, KeyedBroadcastProcessFunction):
                operator = TimedBroadcastOperator
        else:
            _check("process beside a broadcast stream", func, BroadcastProcessFunction)
        factory = OperatorFactory(operator, func, self._broadcast._descriptors, keys)
        return _transform_two(self._first, self._broadcast._stream, name, factory, output_type)


class IntervalJoin:
    """Two keyed streams to be joined (Flink: KeyedStream.IntervalJoin).

    For example::

        joined = clicks.key_by(user).interval_join(orders.key_by(buyer))
        joined.between(Time.minutes(-5), Time.minutes(0)).process(PairUp())
    """

    def __init__(self, stream_one: KeyedStream, stream_two: KeyedStream) -> None:
        if not isinstance(stream_two, KeyedStream):
            raise InvalidJob(f"interval_join takes a KeyedStream, not {stream_two!r}: call key_by first")
        self._left = stream_one
        self._right = stream_two

    def between(self, lower_bound: Time | Duration, upper_bound: Time | Duration) -> IntervalJoined:
        """Pair a left value at t with right ones from ``t + lower_bound`` to ``t + upper_bound``."""
        lower_ms = milliseconds_of(lower_bound, "the lower bound of an interval join")
        upper_ms = milliseconds_of(upper_bound, "the upper bound of an interval join")
        return IntervalJoined(self._left, self._right, lower_ms, upper_ms)


class IntervalJoined(IntervalDescription):
    """Two keyed streams and the interval between their times (Flink: KeyedStream.IntervalJoined)."""

    def __init__(self, left: KeyedStream, right: KeyedStream, lower_ms: int, upper_ms: int) -> None:
        super().__init__(lower_ms, upper_ms)
        self._left = left
        self._right = right

    def process(
        self, process_join_function: ProcessJoinFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Emit any number of values for each pair."""
        self._check(process_join_function)
        keys = _shared_keys(self._left, self._right)
        types = (self._left.get_type(), self._right.get_type())
        factory = self._operator(process_join_function, keys, types)
        return _transform_two(self._left, self._right, "Interval Join", factory, output_type)


# ---- joins in windows


class _WithWindow:
    """Two streams by key and window; the window settings are those of a windowed stream."""

    def __init__(self, windowed: WindowedStream) -> None:
        self._windowed = windowed

    def trigger(self, trigger: Trigger) -> Self:
        """Let a trigger decide when a window is evaluated, in place of the assigner's default trigger."""
        self._windowed.trigger(trigger)
        return self

    def evictor(self, evictor: Evictor) -> Self:
        """Let an evictor remove values of either stream, which it gets in the order of arrival."""
        self._windowed.evictor(evictor)
        return self

    def allowed_lateness(self, time_ms: int) -> Self:
        """Keep a window for ``time_ms`` milliseconds of event time after its end, for late values."""
        self._windowed.allowed_lateness(time_ms)
        return self


class CoGroupedWindows(_WithWindow):
    """Two streams by key and window (Flink: CoGroupedStreams.WithWindow)."""

    def apply(self, function: CoGroupFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Call a function with the values of both streams in a window."""
        return self._windowed.apply(co_group_function(function), output_type)


class JoinedWindows(_WithWindow):
    """Two streams by key and window (Flink: JoinedStreams.WithWindow)."""

    def apply(
        self, function: JoinFunction | FlatJoinFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Call a function with each pair of values in a window."""
        return self._windowed.apply(join_function(function), output_type)


Windows = TypeVar("Windows", bound=_WithWindow)
MakeWindows: TypeAlias = Callable[[WindowedStream], Windows]


class _BothStreams(Generic[Windows]):
    def __init__(
        self, method: str, windows: MakeWindows[Windows], first: DataStream, second: DataStream
    ) -> None:
        if not isinstance(second, DataStream):
            raise InvalidJob(f"{method} takes a DataStream, not {second!r}")
        _check_one_environment(method, first, second)
        self._windows = windows
        self._streams = (first, second)

    def where(
        self, key_selector: Selector | KeySelector, key_type: TypeInformation | None = None
    ) -> Where[Windows]:
        """Key the first stream; ``key_type`` is the type of the keys of both."""
        return Where(self._windows, self._streams, key_of(key_selector, "where"), key_type)


class CoGroupedStreams(_BothStreams[CoGroupedWindows]):
    """Two streams to be grouped together (Flink: CoGroupedStreams)."""

    def __init__(self, first: DataStream, second: DataStream) -> None:
        super().__init__("co_group", CoGroupedWindows, first, second)


class JoinedStreams(_BothStreams[JoinedWindows]):
    """Two streams to be joined (Flink: JoinedStreams).

    For example::

        orders.join(payments).where(order_id).equal_to(paid_order).window(an_assigner).apply(Pair())
    """

    def __init__(self, first: DataStream, second: DataStream) -> None:
        super().__init__("join", JoinedWindows, first, second)


class Where(Generic[Windows]):
    """Two streams, the first of them keyed (Flink: JoinedStreams.Where)."""

    def __init__(
        self,
        windows: MakeWindows[Windows],
        streams: tuple[DataStream, DataStream],
        selector: Selector,
        key_type: TypeInformation | None,
    ) -> None:
        self._windows = windows
        self._streams = streams
        self._selector = selector
        self._key_type = key_type

    def equal_to(self, key_selector: Selector | KeySelector) -> EqualTo[Windows]:
        """Key the second stream."""
        selectors = (self._selector, key_of(key_selector, "equal_to"))
        return EqualTo(self._windows, self._streams, selectors, self._key_type)


class EqualTo(Generic[Windows]):
    """Two keyed streams (Flink: JoinedStreams.Where.EqualTo)."""

    def __init__(
        self,
        windows: MakeWindows[Windows],
        streams: tuple[DataStream, DataStream],
        selectors: tuple[Selector, Selector],
        key_type: TypeInformation | None,
    ) -> None:
        self._windows = windows
        self._streams = streams
        self._selectors = selectors
        self._key_type = key_type

    def window(self, assigner: WindowAssigner) -> Windows:
        """Cut both streams into windows."""
        first, second = self._streams
        tagged = tagged_type(first.get_type(), second.get_type())
        both = first._tagged(FIRST, tagged).union(second._tagged(SECOND, tagged))
        return self._windows(both.key_by(KeyOfTagged(self._selectors), self._key_type).window(assigner))


# ---- shared by the classes above


def upstreams_of(stream: DataStream) -> Upstreams:
    """Return where the records of a stream come from, for packages that add operators of their own."""
    return stream._upstreams


def add_operator(
    stream: DataStream, name: str, create: Callable[[], Operator], upstreams: Upstreams
) -> DataStream:
    """Add an operator with these inputs to the job of a stream."""
    return stream._transform(name, create, None, upstreams)


def _over(upstreams: Upstreams, partitioner: Partitioner) -> Upstreams:
    return tuple(
        [Upstream(node, partitioner, side_output, number) for node, _, side_output, number in upstreams]
    )


def _shared_keys(first: DataStream, second: DataStream) -> InputKeys | None:
    """Return how two streams are keyed, or None unless both are.

    Raises InvalidJob where equal keys would not meet.
    """
    if not isinstance(first, KeyedStream) or not isinstance(second, KeyedStream):
        return None
    if first._key_type is not second._key_type:
        raise InvalidJob(
            f"the keys of connected streams are {_type_name(first._key_type)} and"
            f" {_type_name(second._key_type)}: equal keys would be in different subtasks,"
            " so give both key_by the same key_type"
        )
    return InputKeys((first._key_selector, second._key_selector), first._key_type)


def _transform_two(
    first: DataStream,
    second: DataStream,
    name: str,
    factory: OperatorFactory,
    output_type: TypeInformation | None,
) -> DataStream:
    from_second = [upstream._replace(input_number=1) for upstream in second._upstreams]
    return first._transform(name, factory, output_type, (*first._upstreams, *from_second))


def _check_one_environment(method: str, first: DataStream, second: DataStream) -> None:
    if first._environment is not second._environment:
        raise InvalidJob(f"{method} of streams of two environments: build both in the same one")


def _type_name(key_type: TypeInformation | None) -> str:
    return "of no declared type" if key_type is None else key_type.name


def _check(method: str, function: object, expected: type) -> None:
    if not isinstance(function, expected):
        raise InvalidJob(f"{method} takes a {expected.__name__}, not {function!r}")
