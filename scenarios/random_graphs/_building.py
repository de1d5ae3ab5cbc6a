"""Builds the job of a random graph from the public API of the engine.

The rules this module lives by:

- ``FUNCTIONS`` says for each kind and form which function runs and by which method it is given to the stream;
  the printed program says the same words.
- A number is the parallelism of a vertex whatever the scenario is rescaled to. It never exceeds the number of
  key groups of the vertex.
- Every operator has a uid, so a job that is chained otherwise after a rescale finds its state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from onceproof.engine.api.async_data_stream import AsyncDataStream
from onceproof.engine.api.batch_execution import RuntimeExecutionMode
from onceproof.engine.durations import Duration, Time
from onceproof.engine.types import TypeInformation, Types
from onceproof.engine.watermarks.strategy import TimestampAssigner, WatermarkStrategy
from onceproof.engine.windows.assigners import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from onceproof.engine.windows.triggers import EventTimeTrigger, PurgingTrigger
from onceproof.scenarios._buffering import BufferingSink, SharingSink
from onceproof.scenarios._keyed_job import LabelledSource
from onceproof.scenarios._streams import StreamSource
from onceproof.scenarios.random_graphs import _calling_functions as calling
from onceproof.scenarios.random_graphs import _functions as plain
from onceproof.scenarios.random_graphs import _keyed_functions as keyed
from onceproof.scenarios.random_graphs import _meeting_functions as meeting
from onceproof.scenarios.random_graphs._functions import VALUE
from onceproof.scenarios.random_graphs._graph import (
    KINDS,
    SIDE,
    SINK,
    Graph,
    Vertex,
    in_front_of,
    is_never_chained,
)
from onceproof.scenarios.random_graphs._pane_functions import panes_of, watermarks_of
from onceproof.scenarios.random_graphs._reference import last_of_step

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import DataStream, KeyedStream, StreamExecutionEnvironment
    from onceproof.harness.model.family import JobIO

BOUND_MS: Final = 20
"""How much older than the newest record of its split a record may be without being late."""


class LastOfStep(TimestampAssigner):
    """Gives a record the last timestamp of its step."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return last_of_step(record_timestamp)


WATERMARKS: Final = WatermarkStrategy.for_bounded_out_of_orderness(
    Duration.of_millis(BOUND_MS)
).with_timestamp_assigner(LastOfStep())
BUNDLE: Final = 3
"""How many values make a bundle."""
LATENCY_MS: Final = 6
"""How long a brief bundle is open."""
ANSWER_MS: Final = 10_000
"""Longer than any answer takes, so none is given up."""
CAPACITY: Final = 3
HELD: Final = 3
"""How many rows a buffering sink collects before it writes them."""

FUNCTIONS: Final[dict[tuple[str, str], tuple[str, type]]] = {
    ("map", "map"): ("map", plain.Map),
    ("map", "process"): ("process", plain.MapInProcess),
    ("twice", "flat_map"): ("flat_map", plain.Twice),
    ("doubled", "union"): ("map", plain.Step),
    ("parity", "process"): ("process", plain.Parity),
    ("punctual", "process"): ("process", plain.Punctual),
    ("total", "value"): ("process", keyed.TotalInValue),
    ("total", "reducing"): ("process", keyed.TotalInReducing),
    ("total", "aggregating"): ("flat_map", keyed.TotalInAggregating),
    ("latest", "list"): ("process", keyed.Latest),
    ("residues", "map"): ("process", keyed.Residues),
    ("count", "value"): ("flat_map", keyed.CountInValue),
    ("count", "aggregating"): ("process", keyed.CountInAggregating),
    ("count", "reducing"): ("map", keyed.CountInReducing),
    ("tally", "values"): ("process", keyed.Tally),
    ("distinct", "map"): ("process", keyed.Distinct),
    ("distinct", "copies"): ("process", keyed.Distinct),
    ("calls", "value"): ("process", calling.CallsOnValue),
    ("calls", "list"): ("process", calling.CallsOnList),
    ("calls", "lists"): ("process", calling.CallsOnLists),
    ("calls", "map"): ("process", calling.CallsOnMap),
    ("calls", "map_of_lists"): ("process", calling.CallsOnMapOfLists),
    ("calls", "reducing"): ("process", calling.CallsOnReducing),
    ("calls", "aggregating"): ("process", calling.CallsOnAggregating),
    ("calls", "timers"): ("process", calling.CallsOnTimers),
    ("calls", "plain_timers"): ("process", calling.CallsOnTimersUnkeyed),
    ("calls", "operator"): ("process", calling.CallsOnOperatorState),
    ("tumbling", "timers"): ("process", meeting.TumblingByTimers),
    ("tumbling", "two_timers"): ("process", meeting.TumblingByTwoTimers),
}
"""By kind and form the method of a stream and the class of the function, where no more is to be said."""

BROADCAST: Final = {"broadcast": meeting.PairsWithBroadcast, "broadcast_calls": meeting.PairsWithCalls}
"""By the forms with broadcast state the class of the function."""


def build(env: StreamExecutionEnvironment, io: JobIO, graph: Graph) -> None:
    """Build sources, vertices and sinks of a graph."""
    _Builder(env, io, graph).build()


def arguments_of(vertex: Vertex) -> tuple[object, ...]:
    """Return the arguments of a vertex's function: its name, and whether its state has a time to live."""
    return (vertex.name, vertex.ttl) if KINDS[vertex.kind].keeps_state else (vertex.name,)


def class_of(vertex: Vertex, function: type) -> Any:
    """Return the class of a vertex's function: the given one, or one that changes what it has emitted."""
    return plain.changing(function, vertex.emits) if vertex.emits else function


def type_of(vertex: Vertex) -> TypeInformation:
    """Return the type of what a vertex's function emits."""
    return plain.EMITTED_TYPES[vertex.emits] if vertex.emits else VALUE


def assigner_of(windows: str) -> Any:
    """Return the assigner of tumbling, sliding or session windows."""
    size = Time.milliseconds(plain.SIZE_MS)
    match windows:
        case "tumbling":
            return TumblingEventTimeWindows.of(size)
        case "sliding":
            return SlidingEventTimeWindows.of(size, Time.milliseconds(plain.SLIDE_MS))
        case _:
            return EventTimeSessionWindows.with_gap(Time.milliseconds(plain.GAP_MS))


class _Builder:
    """The streams of a job so far, by name."""

    def __init__(self, env: StreamExecutionEnvironment, io: JobIO, graph: Graph) -> None:
        self._env = env
        self._io = io
        self._graph = graph
        self._streams: dict[str, DataStream] = {}

    def build(self) -> None:
        if self._graph.in_batch:
            self._env.set_runtime_mode(RuntimeExecutionMode.BATCH)
        for name in self._graph.sources:
            source = LabelledSource(StreamSource(self._io.source(name), name))
            stream = self._env.from_source(source, WATERMARKS, name).uid(name)
            self._streams[name] = stream.set_parallelism(self._io.source_parallelism)
        for vertex in self._graph.vertices:
            if vertex.kind == SINK:
                self._add_sink(vertex)
                continue
            stream = self._named(self._applied(vertex), vertex, vertex.name)
            self._streams[vertex.name] = stream
            if vertex.kind == "parity":
                self._streams[vertex.name + SIDE] = stream.get_side_output(plain.side_of(vertex.name))

    def _applied(self, vertex: Vertex) -> DataStream:
        """Return the stream of a vertex's output."""
        made = self._made(vertex)
        return self._in_front(made, vertex).map(plain.Settle(), VALUE) if vertex.emits else made

    def _made(self, vertex: Vertex) -> DataStream:
        """Return the stream of what a vertex's function emits."""
        name = vertex.name
        match vertex.kind, vertex.form:
            case "filter", _:
                kept = self._sent(vertex).filter(plain.NoMultipleOfThree())
                return self._in_front(kept, vertex).map(plain.Step(name), VALUE)
            case "total", "reduce":
                totals = self._keyed(vertex).reduce(keyed.total_of)
                return self._in_front(totals, vertex).map(plain.Step(name), VALUE)
            case "distinct", "copies":
                copies = self._united(vertex).broadcast().map(plain.Copy(), VALUE)
                by_key = self._in_front(copies, vertex).key_by(plain.key_of, Types.STRING())
                return by_key.process(keyed.Distinct(name, vertex.ttl), VALUE)
            case "lateness", _:
                return self._with_latecomers(vertex)
            case "panes", _:
                return self._beside_windows(vertex)
            case "whole", _:
                return self._whole(vertex)
            case "async", form:
                wait = AsyncDataStream.ordered_wait if form == "ordered" else AsyncDataStream.unordered_wait
                return wait(
                    self._sent(vertex), plain.Ask(name), Time.milliseconds(ANSWER_MS), CAPACITY, VALUE
                )
            case "triples", _:
                return self._keyed(vertex).count_window(3).process(keyed.Triple(name), VALUE)
            case "pairs" | "twins" | "near", _:
                return self._joined(vertex)
            case "tumbling" | "sliding" | "session", form if (vertex.kind, form) not in FUNCTIONS:
                return self._windowed(vertex)
        method, function = FUNCTIONS[vertex.kind, vertex.form]
        stream = self._sent(vertex)
        made = class_of(vertex, function)(*arguments_of(vertex))
        match method:
            case "map":
                return stream.map(made, type_of(vertex))
            case "flat_map":
                return stream.flat_map(made, type_of(vertex))
            case _:
                return stream.process(made, type_of(vertex))

    def _joined(self, vertex: Vertex) -> DataStream:
        name, output = vertex.name, type_of(vertex)
        left, right = [self._streams[each] for each in vertex.inputs]
        one = left.key_by(plain.key_of, Types.STRING())
        if vertex.form in BROADCAST:
            twos = right.broadcast(meeting.broadcast_of(name))
            return one.connect(twos).process(class_of(vertex, BROADCAST[vertex.form])(name), output)
        two = right.key_by(plain.key_of, Types.STRING())
        if vertex.kind == "near":
            near = one.interval_join(two).between(
                Time.milliseconds(-plain.NEAR_MS), Time.milliseconds(plain.NEAR_MS)
            )
            return near.process(class_of(vertex, meeting.Near)(name), output)
        pairs = class_of(vertex, meeting.Pairs)(name, vertex.kind == "twins")
        return one.connect(two).process(pairs, output)

    def _windowed(self, vertex: Vertex) -> DataStream:
        windows = self._keyed(vertex).window(assigner_of(vertex.kind))
        inside, output = class_of(vertex, meeting.Inside)(vertex.name), type_of(vertex)
        match vertex.form:
            case "reduce":
                return windows.reduce(meeting.together, inside, output)
            case "aggregate":
                gathered = Types.TUPLE([Types.LIST(Types.STRING()), Types.LONG()])
                return windows.aggregate(meeting.Gather(), inside, gathered, output)
            case _:
                return windows.process(inside, output)

    def _with_latecomers(self, vertex: Vertex) -> DataStream:
        """Return each value once: from a window, which a firing empties, or from what came too late."""
        stamped = self._united(vertex).rebalance().assign_timestamps_and_watermarks(plain.STAMPED)
        by_key = self._in_front(stamped, vertex).key_by(plain.key_of, Types.STRING())
        late = plain.late_of(vertex.name)
        each = meeting.EachOfSessions(vertex.name) if vertex.form == "session" else meeting.Each()
        windows = (
            by_key.window(assigner_of(vertex.form))
            .trigger(PurgingTrigger.of(EventTimeTrigger.create()))
            .allowed_lateness(plain.LATENESS_MS)
            .side_output_late_data(late)
            .process(each, VALUE)
        )
        in_time = self._in_front(windows, vertex, 1)
        return in_time.union(in_time.get_side_output(late)).map(plain.Step(vertex.name), VALUE)

    def _beside_windows(self, vertex: Vertex) -> DataStream:
        """Return each value once, beside windows that emit what is wrong with them."""
        united, watermarks = self._united(vertex), watermarks_of(vertex.panes)
        stamped = self._in_front(united.rebalance().assign_timestamps_and_watermarks(watermarks), vertex)
        by_key = stamped.key_by(plain.key_of, Types.STRING())
        windows = self._in_front(panes_of(by_key, vertex.panes, vertex.name), vertex, 1)
        return united.union(windows).map(plain.Step(vertex.name), VALUE)

    def _whole(self, vertex: Vertex) -> DataStream:
        """Return one value for each key at the end: all that it has, folded in bundles."""
        copied = self._in_front(self._united(vertex).rebalance().map(plain.Copy(), VALUE), vertex)
        latency = Duration.of_millis(LATENCY_MS) if vertex.form == "brief_bundles" else None
        bundles = copied.key_by(plain.key_of, Types.STRING()).bundle(BUNDLE, latency)
        bundled = self._in_front(bundles.reduce(meeting.together), vertex, 1)
        return bundled.key_by(plain.key_of, Types.STRING()).process(keyed.LastAtEnd(vertex.name), VALUE)

    def _united(self, vertex: Vertex) -> DataStream:
        first, *others = [self._streams[name] for name in vertex.inputs]
        united = first.union(*others) if others else first
        return united.union(united) if vertex.kind == "doubled" else united

    def _keyed(self, vertex: Vertex) -> KeyedStream:
        if KINDS[vertex.kind].key == "key":
            return self._united(vertex).key_by(plain.key_of, Types.STRING())
        return self._united(vertex).key_by(plain.lane_and_key, plain.LANE_AND_KEY)

    def _sent(self, vertex: Vertex) -> DataStream:
        """Return the input of a vertex, over its edge."""
        stream = self._united(vertex)
        match vertex.edge:
            case "hash":
                return self._keyed(vertex)
            case "forward":
                return stream.forward()
            case "rebalance":
                return stream.rebalance()
            case "rescale":
                return stream.rescale()
            case "shuffle":
                return stream.shuffle()
            case "global":
                return stream.global_()
            case _:
                return stream.partition_custom(plain.ByLetters(), plain.lane_and_key)

    def _in_front(self, stream: DataStream, vertex: Vertex, place: int = 0) -> DataStream:
        named: DataStream = self._named(stream, vertex, in_front_of(vertex)[place])
        return named

    def _named(self, stream: Any, vertex: Vertex, name: str) -> Any:
        """Set the name, the uid, and what the vertex says of parallelism and chaining."""
        settled = stream.name(name).uid(name).set_parallelism(self._parallelism_of(vertex))
        if vertex.max_parallelism:
            settled.set_max_parallelism(vertex.max_parallelism)
        if is_never_chained(vertex, name):
            settled.disable_chaining()
        return settled

    def _parallelism_of(self, vertex: Vertex) -> int:
        io = self._io
        match vertex.parallelism:
            case "job":
                wanted = io.parallelism
            case "source":
                wanted = io.source_parallelism
            case "sink":
                wanted = io.sink_parallelism
            case number:
                wanted = int(number)
        most = vertex.max_parallelism or self._env.get_max_parallelism()
        return min(wanted, most) if most > 0 else wanted

    def _add_sink(self, vertex: Vertex) -> None:
        io, stream, name = self._io, self._sent(vertex), vertex.name
        match vertex.form:
            case "two_phase":
                sink = stream.add_sink(io.sink(name))
            case "committing":
                sink = stream.sink_to(io.committing_sink(name))
            case "write_ahead":
                sink = stream.add_sink(io.write_ahead_sink(name))
            case "sharing":
                sink = stream.add_sink(SharingSink(HELD, io.sink(name), VALUE))
            case _:
                sink = stream.add_sink(BufferingSink(HELD, io.sink(name), VALUE))
        self._named(sink, vertex, name)
