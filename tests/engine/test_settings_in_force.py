"""What the environment says counts for operators that are made afterwards."""

from __future__ import annotations

import pytest

from onceproof.engine import (
    CollectionSource,
    Configuration,
    JoinFunction,
    SinkFunction,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
)
from onceproof.engine.api.submission import submitted

SOURCE = CollectionSource({"a": [(("x", 1), None)]})


class Nowhere(SinkFunction):
    def invoke(self, value, context):
        pass


class Pair(JoinFunction):
    def join(self, first, second):
        return first, second


def first(value):
    return value[0]


@pytest.fixture
def env():
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)


def settings_of(graph):
    return {
        node.name: (vertex.parallelism, vertex.max_parallelism, vertex.buffer_timeout_ms)
        for vertex in graph.vertices
        for node in vertex.operators
    }


CHANGES = {
    "methods": lambda env: env.set_parallelism(5).set_max_parallelism(64).set_buffer_timeout(7),
    "options": lambda env: env.configure(
        Configuration.from_mapping(
            {
                "parallelism.default": 5,
                "pipeline.max-parallelism": 64,
                "execution.buffer-timeout.interval": "7 ms",
            }
        )
    ),
}


@pytest.mark.parametrize("how", CHANGES)
def test_operator_keeps_what_was_in_force_when_it_was_made(how):
    env = StreamExecutionEnvironment.get_execution_environment()
    mapped = env.from_source(SOURCE, None, "source").map(first).name("before")
    CHANGES[how](env)
    mapped.map(first).name("after").add_sink(Nowhere()).name("sink")
    env.from_source(SOURCE, None, "other").union(mapped).add_sink(Nowhere()).name("both")
    # The buffer timeout of the job is the last one; a vertex says it only where its own is another.
    early, late = (1, 128, 100), (5, 64, None)
    assert settings_of(env.get_job_graph()) == {
        "source": early,
        "before": early,
        "after": late,
        "sink": late,
        "other": late,
        "both": late,
    }


def test_operators_own_settings_win_over_what_was_in_force(env):
    source = env.from_source(SOURCE, None, "source")
    env.set_parallelism(5)
    source.set_parallelism(3).set_max_parallelism(8).set_buffer_timeout(1)
    assert settings_of(env.get_job_graph()) == {"source": (3, 8, 1)}


def test_operators_made_before_chaining_is_disabled_stay_chained(env):
    mapped = env.from_source(SOURCE, None, "source").map(first).name("map")
    env.disable_operator_chaining()
    mapped.filter(bool).name("filter").add_sink(Nowhere()).name("sink")
    assert [vertex.name for vertex in env.get_job_graph().vertices] == ["source -> map", "filter", "sink"]


def test_max_parallelism_that_is_derived_stays_so(env):
    env.from_source(SOURCE, None, "few")
    env.set_max_parallelism(16)
    (few,) = env.get_job_graph().vertices
    assert (few.max_parallelism, few.max_parallelism_is_explicit) == (128, False)


def test_stream_that_outlives_an_execution_keeps_its_parallelism(env):
    mapped = env.from_source(SOURCE, None, "source").map(first).name("map")
    env.get_job_graph()
    env._nodes = []  # as execute does
    env.set_parallelism(3)
    mapped.map(first).name("later")
    assert {name: each[0] for name, each in settings_of(env.get_job_graph()).items()} == {
        "source": 2,
        "map": 2,
        "later": 3,
    }


def test_sides_of_a_join_are_tagged_where_their_values_are_made(env):
    left, right = (env.from_source(SOURCE, None, name) for name in ("left", "right"))
    env.set_parallelism(5)
    windows = left.join(right).where(first).equal_to(first).window(TumblingEventTimeWindows(10))
    windows.apply(Pair())
    assert [vertex.parallelism for vertex in env.get_job_graph().vertices] == [2, 2, 5]


def test_parallelism_of_a_command_line_wins_over_what_was_in_force(env):
    announced = []

    def announce(graph):
        announced.append(graph)
        raise KeyboardInterrupt

    overrides = Configuration.from_mapping({"parallelism.default": 3, "pipeline.max-parallelism": 8})
    env.from_source(SOURCE, None, "source").map(first).name("own").set_parallelism(1)
    with submitted(Configuration(), announce, "job.py", overrides), pytest.raises(KeyboardInterrupt):
        env.execute()
    assert settings_of(announced[0]) == {"source": (3, 8, None), "own": (1, 8, None)}
