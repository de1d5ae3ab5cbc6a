"""Connected streams in a job: what the API accepts and refuses, the graph it makes, and its rows."""

from __future__ import annotations

from collections import Counter

import pytest

from onceproof.engine import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoGroupFunction,
    CollectionSource,
    CoMapFunction,
    Configuration,
    ConnectedStreams,
    CoProcessFunction,
    Duration,
    FlatJoinFunction,
    InvalidJob,
    JoinFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ProcessJoinFunction,
    StreamExecutionEnvironment,
    Time,
    TumblingEventTimeWindows,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from onceproof.engine.graph import PartitionerKind

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
IN_ORDER = WatermarkStrategy.for_monotonous_timestamps()
TEXT = Types.STRING()


def first(value):
    return value[0]


class Both(CoMapFunction):
    def map1(self, value):
        return "left", value

    def map2(self, value):
        return "right", value


class Flat(CoFlatMapFunction):
    def flat_map1(self, value):
        return [value, value]

    def flat_map2(self, value):
        return None


class Plain(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield value

    def process_element2(self, value, ctx):
        yield OutputTag("right"), value


class Count(CoProcessFunction):
    """Counts the values of a key over both streams."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element1(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value[0], self.count.value()

    process_element2 = process_element1


class Join(KeyedCoProcessFunction):
    """Pairs what both streams have of a key, and tells by a timer how many pairs there are."""

    def open(self, runtime_context):
        self.sides = [
            runtime_context.get_list_state(ListStateDescriptor(name, Types.LONG())) for name in ("a", "b")
        ]

    def process_element1(self, value, ctx):
        self.sides[0].add(value[1])
        ctx.timer_service().register_event_time_timer(1000)
        return [(value[0], value[1], other) for other in self.sides[1].get()]

    def process_element2(self, value, ctx):
        self.sides[1].add(value[1])
        return [(value[0], other, value[1]) for other in self.sides[0].get()]

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), "pairs", len(self.sides[0].get()) * len(self.sides[1].get())


class Rules(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        return [value]

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value)


class KeyedRules(KeyedBroadcastProcessFunction):
    """Tells the rules that are known when event time is over, for each key."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(10**9)

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), sorted(ctx.get_broadcast_state(RULES).items())


class Pair(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left[1], right[1], ctx.get_timestamp()


class PairUp(JoinFunction):
    def join(self, first, second):
        return first[0], first[1], second[1]


class Sums(FlatJoinFunction):
    def join(self, first, second):
        if first[1] < second[1]:
            yield first[1] + second[1]


class Sizes(CoGroupFunction):
    def open(self, runtime_context):
        self.subtasks = runtime_context.get_number_of_parallel_subtasks()

    def co_group(self, first, second):
        yield len(list(first)), len(list(second)), self.subtasks, self.get_runtime_context() is not None


@pytest.fixture
def env():
    environment = StreamExecutionEnvironment.get_execution_environment()
    return environment.set_parallelism(2)


def numbers(env, *pairs):
    return env.from_collection(pairs, Types.TUPLE([TEXT, Types.LONG()]))


def timed(env, name, *records):
    """Values of the key "a" with their timestamps."""
    values = [(("a", number), timestamp) for number, timestamp in records]
    return env.from_source(
        CollectionSource({name: values}), IN_ORDER, name, Types.TUPLE([TEXT, Types.LONG()])
    )


def rows_of(stream):
    with stream.execute_and_collect() as rows:
        return Counter(rows)


# What comes out.


def test_two_streams_of_different_types_become_one(env):
    left, right = env.from_collection([1, 2]), env.from_collection(["x"])
    assert rows_of(left.connect(right).map(Both())) == Counter([("left", 1), ("left", 2), ("right", "x")])
    assert rows_of(left.connect(right).flat_map(Flat())) == Counter([1, 1, 2, 2])


def test_each_side_of_a_process_function_may_have_a_side_output(env):
    processed = env.from_collection([1]).connect(env.from_collection([2])).process(Plain())
    both = processed.union(processed.get_side_output(OutputTag("right")).map(lambda value: ("side", value)))
    assert rows_of(both) == Counter([1, ("side", 2)])


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_keyed_streams_share_the_state_and_timers_of_a_key(env, parallelism):
    env.set_parallelism(parallelism)
    left = numbers(env, ("a", 1), ("b", 2), ("a", 3))
    right = numbers(env, ("a", 10), ("b", 20), ("c", 30))
    joined = left.connect(right).key_by(first, first, TEXT).process(Join())
    expected = [("a", 1, 10), ("a", 3, 10), ("b", 2, 20), ("a", "pairs", 2), ("b", "pairs", 1)]
    assert rows_of(joined) == Counter(expected)


def test_a_function_without_timers_serves_on_keyed_streams_too(env):
    left, right = numbers(env, ("a", 1)).key_by(first, TEXT), numbers(env, ("a", 1)).key_by(first, TEXT)
    assert rows_of(left.connect(right).process(Count())) == Counter([("a", 1), ("a", 2)])


def test_several_streams_may_lead_to_each_input(env):
    one, two, three = (env.from_collection([number]) for number in range(3))
    both = one.union(two).connect(three).map(Both())
    assert rows_of(both) == Counter([("left", 0), ("left", 1), ("right", 2)])


def test_a_stream_may_be_connected_with_itself(env):
    stream = env.from_collection([1, 2])
    assert rows_of(stream.connect(stream).map(Both())) == Counter(
        [("left", 1), ("left", 2), ("right", 1), ("right", 2)]
    )


def test_every_subtask_has_what_was_broadcast(env):
    env.set_parallelism(3)
    keys = [f"key-{number}" for number in range(12)]
    stream = numbers(env, *[(key, 0) for key in keys]).key_by(first, TEXT)
    rules = numbers(env, ("x", 1), ("y", 2)).broadcast(RULES)
    found = stream.connect(rules).process(KeyedRules()).map(lambda row: (row[0], tuple(row[1])))
    assert rows_of(found) == Counter([(key, (("x", 1), ("y", 2))) for key in keys])


def test_an_interval_join_pairs_what_is_near_in_time(env):
    left, right = timed(env, "l", (1, 1000), (2, 5000)), timed(env, "r", (10, 2000), (20, 4000), (30, 9000))
    joined = (
        left.key_by(first, TEXT)
        .interval_join(right.key_by(first, TEXT))
        .between(Time.seconds(-1), Duration.of_seconds(1))
    )
    assert rows_of(joined.process(Pair())) == Counter([(1, 10, 2000), (2, 20, 5000)])
    assert rows_of(joined.upper_bound_exclusive().process(Pair())) == Counter([(2, 20, 5000)])
    assert rows_of(joined.lower_bound_exclusive().process(Pair())) == Counter()


def test_a_window_join_pairs_what_is_in_the_same_window(env):
    left, right = (
        timed(env, "l", (1, 0), (2, 4999), (3, 5000)),
        timed(env, "r", (10, 10), (20, 5001), (30, 12000)),
    )
    windows = TumblingEventTimeWindows.of(Time.seconds(5))
    joined = left.join(right).where(first, TEXT).equal_to(first).window(windows)
    assert rows_of(joined.apply(PairUp())) == Counter([("a", 1, 10), ("a", 2, 10), ("a", 3, 20)])
    assert rows_of(joined.apply(Sums())) == Counter([11, 12, 23])


def test_a_co_group_sees_windows_that_only_one_stream_has(env):
    left, right = timed(env, "l", (1, 0), (2, 4999)), timed(env, "r", (10, 10), (30, 12000))
    windows = TumblingEventTimeWindows.of(Time.seconds(5))
    grouped = left.co_group(right).where(first).equal_to(first).window(windows).allowed_lateness(10)
    assert rows_of(grouped.apply(Sizes())) == Counter([(2, 1, 2, True), (0, 1, 2, True)])


# The graph.


def test_edges_say_to_which_input_they_lead_and_both_inputs_are_keyed(env):
    left, right = numbers(env, ("a", 1)).name("left"), numbers(env, ("a", 2)).name("right")
    joined = left.connect(right).key_by(first, first, TEXT).process(Join()).name("join").uid("join")
    joined.print()
    vertices = {vertex.operators[0].name: vertex for vertex in env.get_job_graph("job").vertices}
    inputs = vertices["join"].inputs
    assert [(edge.input_number, edge.partitioner.kind) for edge in inputs] == [
        (0, PartitionerKind.HASH),
        (1, PartitionerKind.HASH),
    ]
    assert {edge.partitioner.key_type for edge in inputs} == {TEXT}
    assert vertices["join"].operators[0].uid == "join"


def test_the_broadcast_input_is_the_second_and_goes_to_all(env):
    stream = numbers(env, ("a", 1)).connect(numbers(env, ("x", 1)).broadcast(RULES)).process(Rules())
    stream.print()
    edges = env.get_job_graph("job").vertices[2].inputs
    assert [(edge.input_number, edge.partitioner.kind) for edge in edges] == [
        (0, PartitionerKind.REBALANCE),
        (1, PartitionerKind.BROADCAST),
    ]


def test_an_operator_with_two_inputs_heads_its_chain(env):
    env.set_parallelism(1)
    left, right = env.from_collection([1]).map(str), env.from_collection([2])
    left.connect(right).map(Both()).map(str).print()
    names = [vertex.name for vertex in env.get_job_graph("job").vertices]
    assert names == [
        "Collection Source -> Map",
        "Collection Source",
        "Co-Map -> Map -> Print to Std. Out",
    ]


# What is refused.


def test_equal_keys_of_different_types_would_not_meet(env):
    left, right = numbers(env, ("a", 1)), numbers(env, ("a", 2))
    connected = left.key_by(first, TEXT).connect(right.key_by(first))
    with pytest.raises(InvalidJob, match=r"STRING and of no declared type: .* same key_type"):
        connected.process(Join())
    with pytest.raises(InvalidJob, match="same key_type"):
        left.key_by(first).interval_join(right.key_by(first, TEXT)).between(
            Time.seconds(0), Time.seconds(1)
        ).process(Pair())


def test_keys_on_one_side_only_are_no_keys(env):
    half = numbers(env, ("a", 1)).key_by(first, TEXT).connect(numbers(env, ("a", 1)))
    with pytest.raises(
        InvalidJob, match="KeyedCoProcessFunction, on keyed streams only: call key_by on both"
    ):
        half.process(Join())
    assert rows_of(half.map(Both())) == Counter([("left", ("a", 1)), ("right", ("a", 1))])
    assert rows_of(half.key_by(first, first, TEXT).process(Join())) == Counter(
        [("a", 1, 1), ("a", "pairs", 1)]
    )


def connected_with(method, function):
    return lambda stream: getattr(stream.connect(stream), method)(function)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (connected_with("map", Flat()), "map takes a CoMapFunction"),
        (connected_with("flat_map", Both()), "flat_map takes a CoFlatMapFunction"),
        (connected_with("process", Both()), "process takes a CoProcessFunction"),
        (lambda stream: stream.connect(5), "connect takes a DataStream or a BroadcastStream, not 5"),
        (lambda stream: stream.broadcast(ValueStateDescriptor("x")), "broadcast takes MapStateDescriptors"),
        (lambda stream: stream.broadcast(RULES, RULES), "two descriptors of the name 'rules'"),
        (lambda stream: stream.key_by(first).broadcast(RULES), "keyed stream cannot be changed"),
        (
            lambda stream: stream.connect(stream.broadcast(RULES)).process(KeyedRules()),
            "takes a BroadcastProcessFunction",
        ),
        (
            lambda stream: stream.key_by(first).connect(stream.broadcast(RULES)).process(Rules()),
            "takes a KeyedBroadcastProcessFunction",
        ),
        (lambda stream: stream.key_by(first).interval_join(stream), "takes a KeyedStream"),
        (lambda stream: stream.join(5), "join takes a DataStream, not 5"),
        (lambda stream: stream.co_group(5), "co_group takes a DataStream, not 5"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_line(env, call, message):
    with pytest.raises(InvalidJob, match=message):
        call(numbers(env, ("a", 1)))


def test_streams_of_two_environments_are_not_connected(env):
    other = StreamExecutionEnvironment.get_execution_environment(Configuration())
    with pytest.raises(InvalidJob, match="two environments"):
        env.from_collection([1]).connect(other.from_collection([1]))
    with pytest.raises(InvalidJob, match="two environments"):
        env.from_collection([1]).join(other.from_collection([1]))


def test_an_interval_that_is_empty_or_has_no_unit_is_refused(env):
    stream = numbers(env, ("a", 1)).key_by(first)
    with pytest.raises(InvalidJob, match="lower bound must not be above"):
        stream.interval_join(stream).between(Time.seconds(1), Time.seconds(0)).process(Pair())
    with pytest.raises(InvalidJob, match="lower bound must not be above"):
        stream.interval_join(stream).between(
            Time.seconds(0), Time.seconds(0)
        ).lower_bound_exclusive().process(Pair())
    with pytest.raises(TypeError, match="the upper bound of an interval join is 5"):
        stream.interval_join(stream).between(Time.seconds(1), 5)
    joined = stream.interval_join(stream).between(Time.seconds(0), Time.seconds(0))
    with pytest.raises(InvalidJob, match="ProcessJoinFunction"):
        joined.process(Both())
    with pytest.raises(InvalidJob, match="OutputTag"):
        joined.side_output_left_late_data("late")


def test_functions_of_joins_are_checked(env):
    stream = numbers(env, ("a", 1))
    windows = TumblingEventTimeWindows.of(Time.seconds(5))
    with pytest.raises(InvalidJob, match="takes a JoinFunction or a FlatJoinFunction"):
        stream.join(stream).where(first).equal_to(first).window(windows).apply(Sizes())
    with pytest.raises(InvalidJob, match="takes a CoGroupFunction"):
        stream.co_group(stream).where(first).equal_to(first).window(windows).apply(PairUp())


def test_connecting_describes_and_adds_nothing(env):
    stream = env.from_collection([1])
    before = len(env._nodes)
    assert isinstance(stream.connect(stream), ConnectedStreams)
    stream.connect(stream.broadcast(RULES))
    assert len(env._nodes) == before
