"""The environment and the ends of a family's job in PyFlink: its source, its sink, what a scenario asks for.

The rules this module lives by:

- Records reach Python as pickled values, as between any two operators of PyFlink without a declared type.
- A row leaves as a line of JSON in a part file, which FileSink renames when a checkpoint that has it is
  complete.
- The few calls that PyFlink answers differently from the engine are bridged here, each with its reason.
"""

import json
import struct

from engine_names import NoCounterpart
from kafka_ends import InputTopic, TopicSink, java_source, sink_of
from lazy_strategies import WatermarkStrategy, real_strategy
from plain_sources import RecordsOfScenario, read_all
from pyflink.common import Types
from pyflink.common.serialization import Encoder
from pyflink.common.typeinfo import TypeInformation
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from pyflink.datastream.connectors import Source as ConnectorSource
from pyflink.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    OutputFileConfig,
    RollingPolicy,
)
from pyflink.datastream.data_stream import DataStream, KeyedStream
from pyflink.java_gateway import get_gateway
from pyflink.serializers import PickleSerializer

OTHER_SINKS = (
    "write_ahead_sink",
    "committing_sink",
    "file_sink",
    "object_sink",
    "parquet_sink",
    "upsert_sink",
    "postgres_sink",
    "postgres_upsert_sink",
    "postgres_lookup",
)


class RowSink:
    """Stands for the sink of rows until the job attaches it to a stream."""

    def __init__(self, folder):
        self.folder = folder


class JobEnds:
    """What the harness calls JobIO: the ends of the job and the scenario's numbers."""

    def __init__(self, order):
        self.source_parallelism = order["source_parallelism"]
        self.parallelism = order["parallelism"]
        self.sink_parallelism = order["sink_parallelism"]
        self.parameters = order["parameters"]
        self._order = order

    def source(self, name):
        splits = {
            split: [(as_tuple(value), timestamp) for timestamp, value in records]
            for split, records in self._order["records"].items()
        }
        return RecordsOfScenario(splits)

    def sink(self, name):
        return RowSink(self._order["output"])

    def kafka_source(self, name):
        return InputTopic(self._order["kafka"])

    def kafka_sink(self, name):
        return TopicSink(self._order["kafka"])

    def __getattr__(self, name):
        if name in OTHER_SINKS:
            raise NoCounterpart(
                f"on Flink a family's rows leave by io.sink or io.kafka_sink, and it calls io.{name}"
            )
        raise AttributeError(name)


class FlinkEnvironment(StreamExecutionEnvironment):
    """PyFlink's environment, whose sources give the records of the scenario."""

    def __init__(self, java_environment, order):
        super().__init__(java_environment)
        self._order = order
        self._streams = []
        self.reads_topic = False

    def from_source(self, source, watermark_strategy, source_name, type_info=None):
        """Read a source of the family to its end, and give its records by a source in Java."""
        order = self._order
        log = get_gateway().jvm.onceproof.SourceLog(
            source_name, order["log"], order["checkpoints"], order["kept"]
        )
        if isinstance(source, InputTopic):
            reading = java_source(source.kafka, log)
            self.reads_topic = True
        else:
            reading = self._source_of_records(source, log)
        # PyFlink asks for a strategy; the engine takes none as no watermarks.
        strategy = real_strategy(watermark_strategy or WatermarkStrategy.no_watermarks())
        pickled = Types.PICKLED_BYTE_ARRAY()
        stream = super().from_source(ConnectorSource(reading), strategy, source_name, pickled)
        self._streams.append(stream)
        return stream

    def _source_of_records(self, source, log):
        """Return a source in Java that gives the records of a source of the family."""
        order = self._order
        path = f"{order['folder']}/records-{order['start']}-{len(self._streams)}"
        splits = read_all(source)
        _write(path, splits)
        readers = min(order["source_parallelism"], len(splits)) or 1
        records = sum(len(each) for each in splits.values())
        return get_gateway().jvm.onceproof.ScenarioSource(
            path,
            log,
            max(1, -(-records // readers // order["rounds"])),
            order["pause_ms"],
            order["endless"],
        )

    def set_runtime_mode(self, execution_mode):
        """Refuse BATCH: its jobs have no checkpoints, and go on from nothing after a kill."""
        if execution_mode == RuntimeExecutionMode.BATCH:
            raise NoCounterpart("a job in BATCH mode has no checkpoints on Flink")
        return super().set_runtime_mode(execution_mode)

    def readers(self):
        """Return how many subtasks of sources the job has."""
        return sum(stream._j_data_stream.getTransformation().getParallelism() for stream in self._streams)


class AttachedSink:
    """The sink of a job with the operator before it that makes lines of rows; they share what is set."""

    def __init__(self, lines, sink):
        self._parts = [(lines, "-lines"), (sink, "")]

    def name(self, name):
        return self._each("name", name, True)

    def uid(self, uid):
        return self._each("uid", uid, True)

    def set_parallelism(self, parallelism):
        return self._each("set_parallelism", parallelism, False)

    def _each(self, setter, value, is_name):
        for part, suffix in self._parts:
            getattr(part, setter)(value + suffix if is_name else value)
        return self


def bridge_streams():
    """Make streams take the sink of rows, by ``add_sink`` and by ``sink_to``, and strategies of families.

    A declared type travels without its object of Java, which workers make anew: a family holds types in its
    module, beside its functions.
    """
    TypeInformation.__getstate__ = lambda kind: {**kind.__dict__, "_j_typeinfo": None}
    assign = DataStream.assign_timestamps_and_watermarks
    DataStream.assign_timestamps_and_watermarks = lambda stream, strategy: assign(
        stream, real_strategy(strategy)
    )
    for stream_class in (DataStream, KeyedStream):
        for method in ("add_sink", "sink_to"):
            setattr(stream_class, method, _taking_rows(getattr(stream_class, method)))


def _taking_rows(attach):
    def attach_sink(stream, sink):
        if isinstance(sink, TopicSink):
            connected = sink_of(sink.kafka)
        elif isinstance(sink, RowSink):
            connected = files_in(sink.folder)
        else:
            return attach(stream, sink)
        lines = stream.map(line_of, Types.STRING())
        return AttachedSink(lines, lines.sink_to(connected))

    return attach_sink


def files_in(folder):
    """Return the sink of a job's rows."""
    return (
        FileSink.for_row_format(folder, Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .with_output_file_config(OutputFileConfig.builder().with_part_prefix("part").build())
        .build()
    )


def line_of(row):
    """Return a row as a line of JSON."""
    return json.dumps(list(row))


def as_tuple(value):
    """Return a value that JSON has made a list of."""
    return tuple(value) if isinstance(value, list) else value


def _write(path, splits):
    """Write splits as ScenarioSource.readRecords reads them."""
    pickles = PickleSerializer()
    with open(path, "wb") as file:
        file.write(struct.pack(">i", len(splits)))
        for split, records in splits.items():
            name = split.encode()
            file.write(struct.pack(">i", len(name)) + name + struct.pack(">i", len(records)))
            for value, timestamp in records:
                pickled = pickles.dumps(value)
                file.write(struct.pack(">qi", timestamp, len(pickled)) + pickled)
