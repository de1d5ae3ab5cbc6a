"""What the stream API accepts, refuses, and hands to operators."""

from __future__ import annotations

import functools

import pytest

from onceproof.engine import (
    CollectionSource,
    FilterFunction,
    FlatMapFunction,
    InvalidJob,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    PrintSinkFunction,
    ProcessFunction,
    ReduceFunction,
    Row,
    Sink,
    SinkFunction,
    StreamExecutionEnvironment,
    Types,
)
from onceproof.engine.api.adapters import copy_function


class Nowhere(SinkFunction):
    def invoke(self, value, context):
        pass


class NowhereSink(Sink):
    def create_function(self):
        return Nowhere()


class Keyed(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value


class Plain(ProcessFunction):
    def process_element(self, value, ctx):
        yield value


class ByFirst(KeySelector):
    def get_key(self, value):
        return value[0]


@pytest.fixture
def env():
    return StreamExecutionEnvironment.get_execution_environment()


@pytest.fixture
def stream(env):
    return env.from_source(CollectionSource({}), None, "reader", Types.STRING())


def created(stream):
    """A new operator of the node that the stream comes out of."""
    return stream._upstreams[0][0].create()


def run(stream, values):
    return [value for value, _ in created(stream).process_batch([(value, None) for value in values], 0)]


class Double(MapFunction):
    def map(self, value):
        return value * 2


class Positive(FilterFunction):
    def filter(self, value):
        return value > 0


class Twice(FlatMapFunction):
    def flat_map(self, value):
        yield value
        yield value


@pytest.mark.parametrize(
    "function", [Double(), lambda value: value * 2, functools.partial(lambda x, y: x * y, 2)]
)
def test_map_takes_functions_and_function_objects(stream, function):
    assert run(stream.map(function), [1, 2]) == [2, 4]


@pytest.mark.parametrize("function", [Positive(), lambda value: value > 0])
def test_filter_takes_functions_and_function_objects(stream, function):
    assert run(stream.filter(function), [1, -1, 2]) == [1, 2]


@pytest.mark.parametrize(
    "function",
    [Twice(), lambda value: [value, value], lambda value: (value, value)],
    ids=["object", "list", "tuple"],
)
def test_flat_map_takes_functions_and_function_objects(stream, function):
    assert run(stream.flat_map(function), [1, 2]) == [1, 1, 2, 2]


def test_a_flat_map_may_return_an_empty_list(stream):
    assert run(stream.flat_map(lambda value: []), [1]) == []


def test_a_union_of_streams_of_different_declared_types_is_refused(stream):
    numbers, texts = stream.map(len, Types.LONG()), stream.map(str, Types.STRING())
    with pytest.raises(InvalidJob, match="this one is LONG, the other STRING: map one of them"):
        numbers.union(texts)
    for other in (stream.map(len, Types.LONG()), stream.map(str)):
        assert run(numbers.union(other), ["a"]) != []


class Counter:
    """A callable with state of its own."""

    def __init__(self):
        self.count = 0

    def __call__(self, value):
        self.count += 1
        return self.count


def test_a_callable_object_is_copied_for_each_subtask(stream):
    counter = Counter()
    mapped = stream.map(counter)
    assert run(mapped, ["a", "b"]) == [1, 2]
    assert run(mapped, ["c"]) == [1]
    assert counter.count == 0


def test_a_bound_method_is_copied_with_its_object(stream):
    counter = Counter()
    mapped = stream.map(counter.__call__)
    assert run(mapped, ["a"]) == [1]
    assert counter.count == 0


def test_types_are_those_declared_and_pass_through_what_keeps_values(stream):
    assert stream.get_type() is Types.STRING()
    assert stream.filter(bool).get_type() is Types.STRING()
    assert stream.key_by(len).reduce(max).get_type() is Types.STRING()
    assert stream.map(len).get_type() is None
    assert stream.map(len, Types.LONG()).get_type() is Types.LONG()
    assert stream.union(stream).rebalance().get_type() is Types.STRING()


@pytest.mark.parametrize("selector", [ByFirst(), lambda value: value[0]])
def test_key_by_takes_functions_and_key_selectors(stream, selector):
    keyed = stream.key_by(selector)
    assert keyed._key_selector(("k", 1)) == "k"


def test_method_of_keyed_streams_only_names_key_by(stream):
    with pytest.raises(AttributeError, match=r"^a DataStream has no 'reduce': call key_by first$"):
        stream.reduce(max)
    with pytest.raises(AttributeError, match=r"^a DataStream has no 'redouce'$"):
        stream.redouce(max)
    assert not hasattr(stream.key_by(len), "set_uid_twice")


@pytest.mark.parametrize("selector", [None, 1.5, ("name",)])
def test_a_missing_key_selector_is_an_error(stream, selector):
    with pytest.raises(InvalidJob, match="key_by needs a key selector, not"):
        stream.key_by(selector)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.map(None), "map takes a function or a MapFunction, not None"),
        (lambda s: s.filter(1), "filter takes a function or a FilterFunction, not 1"),
        (lambda s: s.flat_map("x"), "flat_map takes a function or a FlatMapFunction, not 'x'"),
        (lambda s: s.key_by(len).reduce(1), "reduce takes a function or a ReduceFunction, not 1"),
        (lambda s: s.process(Keyed()), "process takes a ProcessFunction, not .*: call key_by first"),
        (lambda s: s.process(len), "process takes a ProcessFunction, not <built-in"),
        (
            lambda s: s.key_by(len).process(len),
            "keyed stream takes a KeyedProcessFunction or a ProcessFunction, not <built-in",
        ),
        (lambda s: s.add_sink(NowhereSink()), "add_sink takes a SinkFunction, not .*: call sink_to"),
        (lambda s: s.add_sink(print), "add_sink takes a SinkFunction, not <built-in"),
        (lambda s: s.sink_to(Nowhere()), "sink_to takes a Sink, not .*: call add_sink"),
        (lambda s: s.union("s"), "union takes a DataStream, not 's'"),
        (lambda s: s.uid(""), "uid '' of 'reader' must not be empty"),
        (lambda s: s.key_by(len).sum(1.5), "needs the index or the name of a field, not 1.5"),
        (lambda s: s.key_by(len).rebalance(), "the partitioning of a keyed stream cannot be changed"),
        (lambda s: s.key_by(len).broadcast(), "the partitioning of a keyed stream cannot be changed"),
        (
            lambda s: s.partition_custom(1, len),
            "partition_custom needs a partitioner, not 1: give a",
        ),
        (lambda s: s.partition_custom(max, 1.5), "partition_custom needs a key selector, not 1.5"),
        (lambda s: s.execute_and_collect(limit=0), "limit of execute_and_collect is 0"),
    ],
    ids=[
        "map",
        "filter",
        "flat_map",
        "reduce",
        "process_keyed",
        "process",
        "keyed_process",
        "add_sink_sink",
        "add_sink",
        "sink_to",
        "union",
        "uid",
        "sum",
        "rebalance",
        "broadcast",
        "partitioner",
        "partitioner_key",
        "limit",
    ],
)
def test_what_does_not_fit_is_one_clear_line(stream, call, message):
    with pytest.raises(InvalidJob, match=message) as caught:
        call(stream)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "virtual",
    [lambda s: s.key_by(len), lambda s: s.union(s), lambda s: s.rebalance()],
    ids=["keyed", "united", "rebalanced"],
)
@pytest.mark.parametrize(
    "setting",
    [
        lambda s: s.name("x"),
        lambda s: s.uid("x"),
        lambda s: s.set_parallelism(2),
        lambda s: s.set_max_parallelism(2),
        lambda s: s.force_non_parallel(),
        lambda s: s.disable_chaining(),
        lambda s: s.start_new_chain(),
        lambda s: s.get_name(),
    ],
    ids=[
        "name",
        "uid",
        "parallelism",
        "max_parallelism",
        "non_parallel",
        "chaining",
        "new_chain",
        "get_name",
    ],
)
def test_a_setting_where_there_is_no_operator_is_an_error_that_names_the_one_before(stream, virtual, setting):
    with pytest.raises(InvalidJob, match=r"cannot be set after key_by, union, .* of 'reader'"):
        setting(virtual(stream))


def test_an_operator_that_runs_in_one_subtask_refuses_another_parallelism(env):
    stream = env.set_parallelism(4).from_collection([1])
    assert env.get_job_graph().vertices[0].parallelism == 1
    with pytest.raises(InvalidJob, match="'Collection Source' runs in one subtask only: parallelism 2"):
        stream.set_parallelism(2)
    assert stream.set_parallelism(1) is stream


def test_streams_of_two_environments_cannot_be_united(stream):
    other = StreamExecutionEnvironment.get_execution_environment().from_collection([1])
    with pytest.raises(InvalidJob, match="union of streams of two environments"):
        stream.union(other)


def test_a_sink_makes_a_function_for_each_subtask(stream):
    sink = stream.sink_to(NowhereSink())
    one, two = created(sink._operator), created(sink._operator)
    assert one.function is not two.function


def test_the_settings_of_a_sink_are_those_of_its_node(env, stream):
    sink = stream.add_sink(Nowhere()).name("out").uid("out-1").set_parallelism(3).set_max_parallelism(9)
    sink.disable_chaining()
    vertex = env.get_job_graph().vertices[1]
    assert (vertex.name, vertex.operators[0].uid, vertex.parallelism, vertex.max_parallelism) == (
        "out",
        "out-1",
        3,
        9,
    )


def test_print_adds_a_print_sink_with_its_identifier(stream):
    operator = created(stream.print("totals")._operator)
    assert isinstance(operator.function, PrintSinkFunction)
    assert operator.function._sink_identifier == "totals"


def test_a_second_key_by_replaces_the_first(env, stream):
    stream.key_by(len).key_by(str).sum(0)
    assert env.get_job_graph().vertices[1].inputs[0].partitioner.key_selector is str


# ---- aggregations


def reduced(keyed, values):
    """What the reduce function of the last operator gives out for the values of one key."""
    function = created(keyed).function
    results = [values[0]]
    for value in values[1:]:
        results.append(function.reduce(results[-1], value))
    return results


VALUES = [("k", 3, "a"), ("k", 1, "b"), ("k", 5, "c"), ("k", 1, "d")]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("sum", [("k", 3, "a"), ("k", 4, "a"), ("k", 9, "a"), ("k", 10, "a")]),
        ("min", [("k", 3, "a"), ("k", 1, "a"), ("k", 1, "a"), ("k", 1, "a")]),
        ("max", [("k", 3, "a"), ("k", 3, "a"), ("k", 5, "a"), ("k", 5, "a")]),
        ("min_by", [("k", 3, "a"), ("k", 1, "b"), ("k", 1, "b"), ("k", 1, "b")]),
        ("max_by", [("k", 3, "a"), ("k", 3, "a"), ("k", 5, "c"), ("k", 5, "c")]),
    ],
)
def test_aggregations_of_a_field_do_as_in_flink(stream, method, expected):
    keyed = stream.key_by(len)
    assert reduced(getattr(keyed, method)(1), VALUES) == expected
    assert reduced(getattr(keyed, method)(-2), VALUES) == expected
    lists = [list(value) for value in VALUES]
    assert reduced(getattr(keyed, method)(1), lists) == [list(value) for value in expected]
    rows = [Row(key=key, n=n, text=text) for key, n, text in VALUES]
    assert [tuple(row) for row in reduced(getattr(keyed, method)("n"), rows)] == expected


@pytest.mark.parametrize(
    ("method", "expected"), [("sum", [3, 4, 9]), ("min", [3, 1, 1]), ("max_by", [3, 3, 5])]
)
def test_aggregations_of_plain_numbers(stream, method, expected):
    assert reduced(getattr(stream.key_by(len), method)(), [3, 1, 5]) == expected


def test_an_aggregation_changes_none_of_its_inputs(stream):
    first, second = ["k", 1], ["k", 2]
    created(stream.key_by(len).sum(1)).function.reduce(first, second)
    assert (first, second) == (["k", 1], ["k", 2])


class Longest(ReduceFunction):
    def reduce(self, value1, value2):
        return max(value1, value2, key=len)


@pytest.mark.parametrize("function", [Longest(), lambda one, two: max(one, two, key=len)])
def test_reduce_takes_functions_and_function_objects(stream, function):
    assert reduced(stream.key_by(len).reduce(function), ["a", "bb", "c"]) == ["a", "bb", "bb"]


# ---- copies of functions


class Reduces(MapFunction):
    def __init__(self, seen=None):
        self.seen = seen or []

    def __reduce__(self):
        return Reduces, (["reduced"],)

    def map(self, value):
        return value


class Slotted(MapFunction):
    __slots__ = ("seen",)

    def __init__(self):
        self.seen = []

    def map(self, value):
        return value


class Port:
    def __deepcopy__(self, memo):
        return self


class Holder(MapFunction):
    def __init__(self, port):
        self.port = port
        self.seen = []
        self.same = self.seen
        self.me = self

    def map(self, value):
        return value


def test_a_copy_keeps_what_its_attributes_share_and_what_refuses_to_be_copied():
    port = Port()
    original = Holder(port)
    clone = copy_function(original)
    assert clone.port is port
    assert clone.seen is not original.seen
    assert clone.same is clone.seen
    assert clone.me is clone


def test_a_copy_is_made_as_the_class_wants_it():
    assert copy_function(Reduces()).seen == ["reduced"]
    original = Slotted()
    clone = copy_function(original)
    assert clone.seen == []
    assert clone.seen is not original.seen


def test_a_copy_is_not_initialised_again():
    original = Holder(None)
    del original.seen
    original.more = {1: [2]}
    clone = copy_function(original)
    assert not hasattr(clone, "seen")
    assert clone.more == {1: [2]}
    assert clone.more[1] is not original.more[1]
