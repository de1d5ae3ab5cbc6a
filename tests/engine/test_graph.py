"""From streams to vertices: chaining, edges, parallelism, ids and names."""

from __future__ import annotations

import time

import pytest

from onceproof.engine import (
    CollectionSource,
    Configuration,
    InvalidJob,
    KeyedProcessFunction,
    SinkFunction,
    StreamExecutionEnvironment,
    Types,
)
from onceproof.engine.configuration import JOB_NAME, MAX_PARALLELISM, OPERATOR_CHAINING
from onceproof.engine.graph import PartitionerKind, job_id
from onceproof.engine.key_groups import operator_id


class Nowhere(SinkFunction):
    def invoke(self, value, context):
        pass


class Count(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value


SOURCE = CollectionSource({"a": [(("x", 1), None)]})


def first(value):
    return value[0]


@pytest.fixture
def env():
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)


def word_count(env):
    stream = env.from_source(SOURCE, None, "source").uid("source").key_by(first, Types.STRING())
    stream = stream.process(Count()).name("count").uid("count").key_by(first)
    stream.add_sink(Nowhere()).name("sink").uid("sink")
    return env.get_job_graph("words")


def names(graph):
    return [vertex.name for vertex in graph.vertices]


def edges(graph):
    return [
        (graph.vertices[edge.source].name, graph.vertices[edge.target].name, edge.partitioner.kind)
        for vertex in graph.vertices
        for edge in vertex.inputs
    ]


def test_a_keyed_job_has_a_vertex_for_each_side_of_a_hash_edge(env):
    graph = word_count(env)
    assert names(graph) == ["source", "count", "sink"]
    assert edges(graph) == [
        ("source", "count", PartitionerKind.HASH),
        ("count", "sink", PartitionerKind.HASH),
    ]
    assert [vertex.parallelism for vertex in graph.vertices] == [2, 2, 2]
    partitioner = graph.vertices[1].inputs[0].partitioner
    assert partitioner.key_selector is first
    assert partitioner.key_type is Types.STRING()


def test_an_edge_is_the_same_object_on_both_of_its_sides_and_knows_its_places(env):
    left = env.from_source(SOURCE, None, "left")
    right = env.from_source(SOURCE, None, "right")
    merged = right.union(left).map(lambda value: value).name("merged")
    merged.add_sink(Nowhere()).set_parallelism(1).name("one")
    merged.add_sink(Nowhere()).set_parallelism(1).name("two")
    graph = env.get_job_graph()
    for vertex in graph.vertices:
        for place, edge in enumerate(vertex.inputs):
            assert (edge.target, edge.input_index) == (vertex.index, place)
            assert graph.vertices[edge.source].outputs[edge.output_index] is edge
        for place, edge in enumerate(vertex.outputs):
            assert (edge.source, edge.output_index) == (vertex.index, place)
    assert [edge.source for edge in graph.vertices[2].inputs] == [1, 0], "union keeps the order it was given"


def test_vertices_are_in_topological_order_and_know_their_index(env):
    graph = word_count(env)
    assert [vertex.index for vertex in graph.vertices] == [0, 1, 2]
    assert all(edge.source < edge.target for vertex in graph.vertices for edge in vertex.inputs)


def test_the_same_program_gives_the_same_graph_in_another_environment(env):
    other = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    assert str(shape(word_count(env))) == str(shape(word_count(other)))


def shape(graph):
    return (
        graph.name,
        graph.job_id,
        graph.settings,
        [
            (
                vertex.name,
                vertex.inputs,
                [(node.operator_id, node.uid, node.name) for node in vertex.operators],
            )
            for vertex in graph.vertices
        ],
    )


# ---- chaining


def chain(env, change=lambda stream: stream):
    stream = env.from_source(SOURCE, None, "source").map(lambda value: value).name("map")
    stream = change(stream.filter(bool).name("filter"))
    stream.add_sink(Nowhere()).name("sink")
    return names(env.get_job_graph())


def test_operators_of_equal_parallelism_share_a_task(env):
    assert chain(env) == ["source -> map -> filter -> sink"]


def test_a_chain_can_be_switched_off(env):
    env.disable_operator_chaining()
    assert not env.is_chaining_enabled()
    assert chain(env) == ["source", "map", "filter", "sink"]


def test_disable_chaining_leaves_an_operator_alone(env):
    assert chain(env, lambda stream: stream.disable_chaining()) == ["source -> map", "filter", "sink"]


def test_start_new_chain_cuts_before_the_operator(env):
    assert chain(env, lambda stream: stream.start_new_chain()) == ["source -> map", "filter -> sink"]


def test_another_parallelism_cuts_on_both_sides_and_rebalances(env):
    assert chain(env, lambda stream: stream.set_parallelism(3)) == ["source -> map", "filter", "sink"]
    kinds = [kind for _, _, kind in edges(env.get_job_graph())]
    assert kinds == [PartitionerKind.REBALANCE, PartitionerKind.REBALANCE]


def test_another_max_parallelism_cuts_on_both_sides(env):
    assert chain(env, lambda stream: stream.set_max_parallelism(7)) == ["source -> map", "filter", "sink"]
    assert {kind for _, _, kind in edges(env.get_job_graph())} == {PartitionerKind.FORWARD}


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("rebalance", PartitionerKind.REBALANCE),
        ("rescale", PartitionerKind.RESCALE),
        ("broadcast", PartitionerKind.BROADCAST),
        ("global_", PartitionerKind.GLOBAL),
    ],
)
def test_a_change_of_partitioning_cuts(env, method, kind):
    assert chain(env, lambda stream: getattr(stream, method)()) == ["source -> map -> filter", "sink"]
    assert edges(env.get_job_graph()) == [("source -> map -> filter", "sink", kind)]


def test_an_explicit_forward_does_not_cut(env):
    assert chain(env, lambda stream: stream.forward()) == ["source -> map -> filter -> sink"]


def test_several_consumers_cut_behind_their_producer(env):
    stream = env.from_source(SOURCE, None, "source").map(lambda value: value).name("map")
    stream.add_sink(Nowhere()).name("left")
    stream.filter(bool).name("filter").add_sink(Nowhere()).name("right")
    assert names(env.get_job_graph()) == ["source -> map", "left", "filter -> right"]


def test_a_union_cuts_before_its_consumer(env):
    left, right = env.from_source(SOURCE, None, "left"), env.from_source(SOURCE, None, "right")
    left.union(right).map(lambda value: value).name("map")
    assert edges(env.get_job_graph()) == [
        ("left", "map", PartitionerKind.FORWARD),
        ("right", "map", PartitionerKind.FORWARD),
    ]


def test_a_union_of_a_stream_with_itself_has_two_edges(env):
    stream = env.from_source(SOURCE, None, "source")
    stream.union(stream).map(lambda value: value).name("map")
    graph = env.get_job_graph()
    assert [(edge.input_index, edge.output_index) for edge in graph.vertices[1].inputs] == [(0, 0), (1, 1)]


def test_each_side_of_a_union_keeps_its_own_partitioning(env):
    left, right = env.from_source(SOURCE, None, "left"), env.from_source(SOURCE, None, "right")
    left.broadcast().union(right.rescale(), right).map(lambda value: value).name("map")
    kinds = [kind for _, _, kind in edges(env.get_job_graph())]
    assert kinds == [PartitionerKind.BROADCAST, PartitionerKind.RESCALE, PartitionerKind.FORWARD]


def test_a_key_by_of_a_union_partitions_every_side(env):
    left, right = env.from_source(SOURCE, None, "left"), env.from_source(SOURCE, None, "right").rebalance()
    left.union(right).key_by(first).sum(1)
    kinds = [kind for _, _, kind in edges(env.get_job_graph())]
    assert kinds == [PartitionerKind.HASH, PartitionerKind.HASH]


# ---- parallelism


def test_max_parallelism_is_derived_from_the_parallelism_of_each_vertex(env):
    env.from_source(SOURCE, None, "few").rebalance().map(first).set_parallelism(100).name("many")
    few, many = env.get_job_graph().vertices
    assert (few.max_parallelism, few.max_parallelism_is_explicit) == (128, False)
    assert (many.max_parallelism, many.max_parallelism_is_explicit) == (256, False)


@pytest.mark.parametrize("how", ["operator", "environment", "configuration"])
def test_a_max_parallelism_that_was_set_is_explicit(env, how):
    if how == "environment":
        env.set_max_parallelism(16)
    elif how == "configuration":
        env.configure(Configuration().set(MAX_PARALLELISM, 16))
    stream = env.from_source(SOURCE)
    if how == "operator":
        stream.set_max_parallelism(16)
    (vertex,) = env.get_job_graph().vertices
    assert (vertex.max_parallelism, vertex.max_parallelism_is_explicit) == (16, True)


def test_an_operators_own_max_parallelism_wins_over_the_environments(env):
    env.set_max_parallelism(16)
    env.from_source(SOURCE).set_max_parallelism(128)
    assert env.get_job_graph().vertices[0].max_parallelism == 128


# ---- ids and names


def test_the_operator_id_is_that_of_the_uid(env):
    graph = word_count(env)
    assert [node.operator_id for vertex in graph.vertices for node in vertex.operators] == [
        operator_id("source"),
        operator_id("count"),
        operator_id("sink"),
    ]


def test_operators_of_a_chain_keep_their_own_ids(env):
    env.from_source(SOURCE).uid("a").map(first).uid("b").add_sink(Nowhere()).uid("c")
    (vertex,) = env.get_job_graph().vertices
    assert [node.operator_id for node in vertex.operators] == [operator_id(uid) for uid in "abc"]


def test_without_a_uid_the_id_depends_on_the_place_and_on_nothing_else(env):
    def ids(parallelism, before=0):
        built = StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)
        for _ in range(before):
            built.from_source(SOURCE)
        built.from_source(SOURCE).name("any").key_by(first).sum(1).add_sink(Nowhere())
        graph = built.get_job_graph()
        return [node.operator_id for vertex in graph.vertices for node in vertex.operators][before:]

    assert ids(1) == ids(3)
    assert len(set(ids(1))) == 3
    assert not set(ids(1)) & set(ids(1, before=1))


def test_a_uid_given_twice_is_an_error_that_names_both_operators(env):
    env.from_source(SOURCE).uid("same").name("one").map(first).uid("same").name("two")
    with pytest.raises(InvalidJob, match="uid 'same' is given to both 'one' and 'two' in job 'j'") as caught:
        env.get_job_graph("j")
    assert "\n" not in str(caught.value)


def test_vertices_with_the_same_name_get_distinct_names(env):
    stream = env.from_source(SOURCE, None, "s")
    for _ in range(3):
        stream = stream.rebalance().map(first)
    assert names(env.get_job_graph()) == ["s", "Map", "Map (2)", "Map (3)"]


def test_the_job_id_follows_from_the_name_alone():
    assert job_id("flights") == job_id("flights")
    assert job_id("flights") != job_id("flight")
    assert len(job_id("flights")) == 32
    assert set(job_id("flights")) <= set("0123456789abcdef")


def test_the_job_is_named_by_the_caller_then_by_the_configuration(env):
    env.from_source(SOURCE)
    assert env.get_job_graph().name == "Streaming Job"
    env.configure(Configuration().set(JOB_NAME, "configured"))
    assert env.get_job_graph().name == "configured"
    assert env.get_job_graph("given").name == "given"


def test_settings_are_those_of_the_configuration(env):
    env.from_source(SOURCE)
    env.enable_checkpointing(250)
    assert env.get_job_graph().settings.interval_ms == 250


# ---- what each subtask gets


class Stateful(Count):
    def __init__(self):
        self.seen = []


def test_every_created_operator_has_its_own_copy_of_the_function(env):
    function = Stateful()
    env.from_source(SOURCE).key_by(first).process(function)
    create = env.get_job_graph().vertices[1].operators[0].create
    one, two = create(), create()
    assert one is not two
    one.function.seen.append(1)
    assert two.function.seen == []
    assert function.seen == []


def test_uncopyable_function_is_an_error_with_the_mend(env, tmp_path):
    with open(tmp_path / "file", "w") as file:
        function = Stateful()
        function.seen = file
        env.from_source(SOURCE).key_by(first).process(function)
        with pytest.raises(
            InvalidJob, match=r"function Stateful cannot be copied for a subtask .* in its open"
        ):
            env.get_job_graph().vertices[1].operators[0].create()


# ---- errors


@pytest.mark.parametrize("parallelism", [0, -1, "2", 1.5, True, None])
def test_a_parallelism_below_one_is_an_error_that_names_the_operator(env, parallelism):
    stream = env.from_source(SOURCE, None, "reader")
    with pytest.raises(InvalidJob, match=f"parallelism of 'reader' is {parallelism!r}: give a whole number"):
        stream.set_parallelism(parallelism)
    with pytest.raises(InvalidJob, match="parallelism of the environment"):
        env.set_parallelism(parallelism)


@pytest.mark.parametrize("max_parallelism", [0, -1, 32769, "2"])
def test_a_max_parallelism_out_of_bounds_is_an_error_that_names_the_operator(env, max_parallelism):
    stream = env.from_source(SOURCE, None, "reader")
    with pytest.raises(InvalidJob, match=r"max parallelism of 'reader' is .* from 1 to 32768"):
        stream.set_max_parallelism(max_parallelism)
    with pytest.raises(InvalidJob, match="max parallelism of the environment"):
        env.set_max_parallelism(max_parallelism)


def test_a_max_parallelism_below_the_parallelism_is_an_error_that_names_the_operator(env):
    env.from_source(SOURCE, None, "reader").set_parallelism(4).set_max_parallelism(3)
    with pytest.raises(InvalidJob, match="'reader' has parallelism 4 but max parallelism 3"):
        env.get_job_graph()


def test_a_max_parallelism_below_that_of_a_chained_operator_is_found_too(env):
    env.from_source(SOURCE, None, "reader").map(first).set_max_parallelism(1).name("low")
    with pytest.raises(InvalidJob, match="'low' has parallelism 2 but max parallelism 1"):
        env.get_job_graph()


def test_a_forward_between_different_parallelisms_is_an_error(env):
    env.from_source(SOURCE, None, "reader").forward().map(first).set_parallelism(3).name("mapper")
    with pytest.raises(
        InvalidJob, match=r"forward from 'reader' \(parallelism 2\) to 'mapper' \(parallelism 3\)"
    ):
        env.get_job_graph()


def test_a_job_without_operators_is_an_error(env):
    with pytest.raises(InvalidJob, match="job 'empty' has no operators"):
        env.get_job_graph("empty")


def test_chaining_can_be_configured(env):
    env.configure(Configuration().set(OPERATOR_CHAINING, False))
    assert chain(env) == ["source", "map", "filter", "sink"]


def test_a_graph_of_three_nodes_costs_little():
    def build():
        return word_count(StreamExecutionEnvironment.get_execution_environment().set_parallelism(2))

    build()
    best = min(timed(build) for _ in range(200))
    assert best < 0.0005, f"{best * 1e6:.0f} us; it takes 25 on a quiet machine"


def timed(function):
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin
