"""Streams: how a job is described (PyFlink: DataStream, KeyedStream, DataStreamSink).

The rules this module lives by:

- A stream is a value: the nodes it comes from and how its records will be spread over the next operator. It
  does nothing; every method that transforms adds a node to the environment and returns a new stream.
- ``union``, ``key_by``, ``rebalance``, ``get_side_output`` and the like add no node, they change what the
  next edge will be. So they have no name, uid or parallelism of their own, and setting one there is an error,
  not a silent change of the operator before.
- Names, parameter order and defaults are PyFlink's, so that a job moves between the two by its imports.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Self, overload

from onceproof.engine.api.adapters import (
    CallableFilter,
    CallableFlatMap,
    CallableMap,
    OperatorFactory,
    key_of,
    reduce_function_of,
)
from onceproof.engine.api.aggregations import ExtremeElement, FieldAggregation, Position, add
from onceproof.engine.api.bundled_stream import BundledStream
from onceproof.engine.api.connected_streams import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
from onceproof.engine.api.interval_join import IntervalJoin
from onceproof.engine.api.joined_streams import CoGroupedStreams, JoinedStreams
from onceproof.engine.api.windowed_stream import AllWindowedStream, WindowedStream
from onceproof.engine.configuration.options import SINK_COMMITTER_RETRIES
from onceproof.engine.connectors.collect import CloseableIterator
from onceproof.engine.connectors.committing import WriterSinkFunction
from onceproof.engine.connectors.print import PrintSinkFunction
from onceproof.engine.connectors.sink import Sink
from onceproof.engine.functions import (
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
    ChainingStrategy,
    InvalidJob,
    Partitioner,
    PartitionerKind,
    StreamNode,
    Upstream,
    check_max_parallelism,
    check_parallelism,
)
from onceproof.engine.operators.event_time import TimestampsAndWatermarksOperator
from onceproof.engine.operators.process import (
    KeyedProcessOperator,
    ProcessOperator,
    TimedProcessOperator,
    has_timers,
)
from onceproof.engine.operators.reduce import KeyedReduceOperator
from onceproof.engine.operators.sink import SinkOperator
from onceproof.engine.operators.stateless import FilterOperator, FlatMapOperator, MapOperator
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.state.descriptors import MapStateDescriptor
from onceproof.engine.watermarks.strategy import WatermarkStrategy
from onceproof.engine.windows.assigners import GlobalWindows, WindowAssigner
from onceproof.engine.windows.evictors import CountEvictor
from onceproof.engine.windows.triggers import CountTrigger, PurgingTrigger

if TYPE_CHECKING:
    from onceproof.engine.api.environment import StreamExecutionEnvironment
    from onceproof.engine.durations import Duration, Time
    from onceproof.engine.operators.base import Operator
    from onceproof.engine.types import TypeInformation

Upstreams = tuple[Upstream, ...]


class DataStream:
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

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment this stream belongs to."""
        return self._environment

    def get_type(self) -> TypeInformation | None:
        """The declared type of the values, or None."""
        return self._type

    # ---- settings of the operator that this stream comes out of

    def _node(self, setting: str) -> StreamNode:
        only = self._upstreams[0]
        if len(self._upstreams) == 1 and only.partitioner is None and only.side_output is None:
            return only.node
        names = ", ".join(repr(upstream.node.name) for upstream in self._upstreams)
        raise InvalidJob(
            f"{setting} cannot be set after key_by, union, get_side_output or a change of partitioning of"
            f" {names}: set it on an operator, before or after"
        )

    def get_name(self) -> str:
        """Name of the operator."""
        return self._node("name").name

    def name(self, name: str) -> Self:
        """Name the operator; reports, metrics and error messages use it."""
        self._node("name").name = name
        return self

    def uid(self, uid: str) -> Self:
        """Give the operator the id under which its state is found again. Unique in the job."""
        node = self._node("uid")
        if not uid:
            raise InvalidJob(f"uid {uid!r} of {node.name!r} must not be empty")
        node.uid = uid
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the number of subtasks of the operator."""
        node = self._node("parallelism")
        check_parallelism(parallelism, repr(node.name))
        if node.parallelism_is_fixed and parallelism != 1:
            raise InvalidJob(
                f"{node.name!r} runs in one subtask only: parallelism {parallelism} is not possible"
            )
        node.parallelism = parallelism
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the number of key groups of the operator: the bound on any later parallelism."""
        node = self._node("max parallelism")
        node.max_parallelism = check_max_parallelism(max_parallelism, repr(node.name))
        return self

    def force_non_parallel(self) -> Self:
        """Run the operator in one subtask, whatever the environment says."""
        node = self._node("parallelism")
        node.parallelism = 1
        node.parallelism_is_fixed = True
        return self

    def disable_chaining(self) -> Self:
        """Give the operator a task of its own."""
        self._node("chaining").chaining = ChainingStrategy.NEVER
        return self

    def start_new_chain(self) -> Self:
        """Do not chain the operator to the one before it."""
        self._node("chaining").chaining = ChainingStrategy.HEAD
        return self

    # ---- what the next edge will be

    def _partitioned(self, partitioner: Partitioner) -> DataStream:
        return DataStream(self._environment, _over(self._upstreams, partitioner), self._type)

    def forward(self) -> DataStream:
        """Subtask i to subtask i; both operators must have the same parallelism."""
        return self._partitioned(FORWARD)

    def rebalance(self) -> DataStream:
        """In turn to every subtask."""
        return self._partitioned(REBALANCE)

    def rescale(self) -> DataStream:
        """In turn to a part of the subtasks, so that few channels are needed."""
        return self._partitioned(RESCALE)

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
        """Every record to every subtask; with descriptors of the state that another stream is to read."""
        if broadcast_state_descriptor is None:
            return self._partitioned(BROADCAST)
        return BroadcastStream(self, (broadcast_state_descriptor, *other_broadcast_state_descriptors))

    def global_(self) -> DataStream:
        """Everything to the first subtask (Flink: global, a reserved word in Python)."""
        return self._partitioned(GLOBAL)

    def union(self, *streams: DataStream) -> DataStream:
        """Take this stream and others as one, in no particular order."""
        upstreams = list(self._upstreams)
        for stream in streams:
            _check("union", stream, DataStream, KeyedStream, "")
            if stream._environment is not self._environment:
                raise InvalidJob("union of streams of two environments: build both in the same one")
            upstreams.extend(stream._upstreams)
        return DataStream(self._environment, tuple(upstreams), self._type)

    @overload
    def connect(self, ds: DataStream) -> ConnectedStreams: ...

    @overload
    def connect(self, ds: BroadcastStream) -> BroadcastConnectedStream: ...

    def connect(self, ds: DataStream | BroadcastStream) -> ConnectedStreams | BroadcastConnectedStream:
        """Take this stream and another one as the two inputs of an operator."""
        if isinstance(ds, BroadcastStream):
            return BroadcastConnectedStream(self, ds)
        if not isinstance(ds, DataStream):
            raise InvalidJob(f"connect takes a DataStream or a BroadcastStream, not {ds!r}")
        return ConnectedStreams(self, ds)

    def join(self, other: DataStream) -> JoinedStreams:
        """Pair the values of two streams by key and window (Flink: DataStream.join)."""
        return JoinedStreams(self, other)

    def co_group(self, other: DataStream) -> CoGroupedStreams:
        """Work out what two streams have for each key and window (Flink: DataStream.coGroup)."""
        return CoGroupedStreams(self, other)

    def key_by(
        self, key_selector: Callable[[Any], Any] | KeySelector, key_type: TypeInformation | None = None
    ) -> KeyedStream:
        """Equal keys to the same subtask; state and timers then belong to a key."""
        return KeyedStream(self, key_of(key_selector), key_type)

    # ---- transformations

    def _transform(
        self,
        name: str,
        create: Callable[[], Operator],
        output_type: TypeInformation | None,
        upstreams: Upstreams | None = None,
    ) -> DataStream:
        node = self._environment._add_node(name, create, upstreams or self._upstreams)
        return DataStream(self._environment, (Upstream(node),), output_type)

    def map(
        self, func: Callable[[Any], Any] | MapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """One value out for each value in."""
        function = (
            func if isinstance(func, MapFunction) else CallableMap(_callable(func, "map", "MapFunction"))
        )
        return self._transform("Map", OperatorFactory(MapOperator, function), output_type)

    def flat_map(
        self, func: Callable[[Any], Any] | FlatMapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Any number of values out for each value in."""
        function = (
            func
            if isinstance(func, FlatMapFunction)
            else CallableFlatMap(_callable(func, "flat_map", "FlatMapFunction"))
        )
        return self._transform("Flat Map", OperatorFactory(FlatMapOperator, function), output_type)

    def filter(self, func: Callable[[Any], Any] | FilterFunction) -> DataStream:
        """Keep the values for which ``func`` is true."""
        function = (
            func
            if isinstance(func, FilterFunction)
            else CallableFilter(_callable(func, "filter", "FilterFunction"))
        )
        return self._transform("Filter", OperatorFactory(FilterOperator, function), self._type)

    def process(self, func: ProcessFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Any number of values out for each value in, with access to timestamps."""
        _check("process", func, ProcessFunction, KeyedProcessFunction, "key_by first")
        return self._transform("Process", OperatorFactory(ProcessOperator, func), output_type)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """Give the records timestamps and watermarks, in place of those that they have."""
        if not isinstance(watermark_strategy, WatermarkStrategy):
            raise InvalidJob(
                f"assign_timestamps_and_watermarks takes a WatermarkStrategy, not {watermark_strategy!r}"
            )
        create = partial(TimestampsAndWatermarksOperator, watermark_strategy)
        return self._transform("Timestamps/Watermarks", create, self._type)

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """What the operator gives under a tag."""
        if not isinstance(output_tag, OutputTag):
            raise InvalidJob(f"get_side_output takes an OutputTag, not {output_tag!r}")
        upstream = Upstream(self._node("side output"), None, output_tag.tag_id)
        return DataStream(self._environment, (upstream,), output_tag.type_info)

    def window_all(self, window_assigner: WindowAssigner) -> AllWindowedStream:
        """Cut the stream into windows over all records, which are worked out in one subtask."""
        return AllWindowedStream(self, window_assigner)

    # ---- sinks

    def add_sink(self, sink_func: SinkFunction) -> DataStreamSink:
        """End the stream in a sink function."""
        _check("add_sink", sink_func, SinkFunction, Sink, "sink_to")
        return DataStreamSink(self._transform("Sink", OperatorFactory(SinkOperator, sink_func), None))

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """End the stream in a sink."""
        _check("sink_to", sink, Sink, SinkFunction, "add_sink")
        retries = self._environment.get_configuration().get(SINK_COMMITTER_RETRIES)
        return DataStreamSink(self._transform("Sink", partial(_create_sink_operator, sink, retries), None))

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Write every value to stdout, each line prefixed with ``sink_identifier``."""
        return self.add_sink(PrintSinkFunction(sink_identifier)).name("Print to Std. Out")

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Run the job and hand out what this stream carried: ``limit`` values as a list, or an iterator.

        The job runs to its end first. With checkpoints on, values are handed out exactly once.
        """
        if limit is not None and (type(limit) is not int or limit < 1):
            raise InvalidJob(f"limit of execute_and_collect is {limit!r}: give a whole number of at least 1")
        rows = self._environment._execute_and_collect(self, job_execution_name)
        return CloseableIterator(iter(rows)) if limit is None else rows[:limit]


class KeyedStream(DataStream):
    """A stream partitioned by key (PyFlink: KeyedStream)."""

    def __init__(
        self, origin: DataStream, key_selector: Callable[[Any], Any], key_type: TypeInformation | None
    ) -> None:
        partitioner = Partitioner(PartitionerKind.HASH, key_selector, key_type)
        super().__init__(origin._environment, _over(origin._upstreams, partitioner), origin._type)
        self._origin = origin
        self._key_selector = key_selector
        self._key_type = key_type

    def process(  # type: ignore[override]
        self, func: KeyedProcessFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Any number of values out for each value in, with the state and the timers of the value's key."""
        _check("process on a keyed stream", func, KeyedProcessFunction, ProcessFunction, "it before key_by")
        kind = TimedProcessOperator if has_timers(func) else KeyedProcessOperator
        factory = OperatorFactory(kind, func, self._key_selector, self._key_type)
        return self._transform("KeyedProcess", factory, output_type)

    def window(self, window_assigner: WindowAssigner) -> WindowedStream:
        """Cut the records of each key into windows."""
        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream:
        """Windows of the last ``size`` records of a key, worked out every ``slide`` records.

        Without a slide each record is in one window, which is worked out when it is full. As in Flink, the
        first windows with a slide are shorter, and what is left at the end is not worked out.
        """
        windowed = self.window(GlobalWindows.create())
        if not slide:
            return windowed.trigger(PurgingTrigger.of(CountTrigger.of(size)))
        return windowed.evictor(CountEvictor.of(size)).trigger(CountTrigger.of(slide))

    def bundle(self, size: int, latency: Duration | Time | None = None) -> BundledStream:
        """Fold the records in bundles of up to ``size``, each of which gives a key at most one result.

        A bundle ends with its checkpoint, too (Flink: mini-batch aggregation of tables). ``latency``, in
        processing time, is the longest that bundles hold a record back; None: until the next checkpoint,
        watermark or end, where too few records come to fill one.
        """
        return BundledStream(self._origin, self._key_selector, self._key_type, size, latency)

    def interval_join(self, other_stream: KeyedStream) -> IntervalJoin:
        """Pair the values of two keyed streams whose times are near (Flink: KeyedStream.intervalJoin)."""
        return IntervalJoin(self, other_stream)

    def broadcast(self, *args: Any) -> NoReturn:
        """Refused, as in PyFlink: a keyed stream goes where its keys are."""
        self._partitioned(BROADCAST)

    def reduce(self, func: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        """The values of a key reduced to one, given out after each value."""
        return self._reduced("Reduce", reduce_function_of(func))

    def sum(self, position_to_sum: Position = 0) -> DataStream:
        """Running sum of a field."""
        return self._reduced("Sum", FieldAggregation(position_to_sum, add))

    def min(self, position_to_min: Position = 0) -> DataStream:
        """Running minimum of a field; the other fields are those of the key's first value."""
        return self._reduced("Min", FieldAggregation(position_to_min, min))

    def max(self, position_to_max: Position = 0) -> DataStream:
        """Running maximum of a field; the other fields are those of the key's first value."""
        return self._reduced("Max", FieldAggregation(position_to_max, max))

    def min_by(self, position_to_min_by: Position = 0) -> DataStream:
        """The value with the least field so far."""
        return self._reduced("Min By", ExtremeElement(position_to_min_by, greatest=False))

    def max_by(self, position_to_max_by: Position = 0) -> DataStream:
        """The value with the greatest field so far."""
        return self._reduced("Max By", ExtremeElement(position_to_max_by, greatest=True))

    def _reduced(self, name: str, function: Function) -> DataStream:
        factory = OperatorFactory(
            KeyedReduceOperator, function, self._key_selector, self._key_type, self._type
        )
        return self._transform(name, factory, self._type)

    def _partitioned(self, partitioner: Partitioner) -> NoReturn:
        raise InvalidJob("the partitioning of a keyed stream cannot be changed: call it before key_by")


class DataStreamSink:
    """A stream's end (PyFlink: DataStreamSink)."""

    def __init__(self, stream: DataStream) -> None:
        self._stream = stream

    def name(self, name: str) -> DataStreamSink:
        """Name the sink."""
        self._stream.name(name)
        return self

    def uid(self, uid: str) -> DataStreamSink:
        """Give the sink the id under which its state is found again. Unique in the job."""
        self._stream.uid(uid)
        return self

    def set_parallelism(self, parallelism: int) -> DataStreamSink:
        """Set the number of subtasks of the sink."""
        self._stream.set_parallelism(parallelism)
        return self

    def set_max_parallelism(self, max_parallelism: int) -> DataStreamSink:
        """Set the bound on any later parallelism of the sink."""
        self._stream.set_max_parallelism(max_parallelism)
        return self

    def disable_chaining(self) -> DataStreamSink:
        """Give the sink a task of its own."""
        self._stream.disable_chaining()
        return self


def _over(upstreams: Upstreams, partitioner: Partitioner) -> Upstreams:
    """The same upstreams behind another partitioner."""
    return tuple(
        [Upstream(node, partitioner, side_output, number) for node, _, side_output, number in upstreams]
    )


def _create_sink_operator(sink: Sink, committer_retries: int) -> SinkOperator:
    function = sink.create_function()
    if isinstance(function, WriterSinkFunction):
        function.max_retries = committer_retries
    return SinkOperator(function)


def _check(method: str, value: object, expected: type, other: type, mend: str) -> None:
    if not isinstance(value, expected):
        use = f": call {mend}" if isinstance(value, other) else ""
        raise InvalidJob(f"{method} takes a {expected.__name__}, not {value!r}{use}")


def _callable(func: object, method: str, interface: str) -> Callable[..., Any]:
    if callable(func):
        return func
    raise InvalidJob(f"{method} takes a function or a {interface}, not {func!r}")
