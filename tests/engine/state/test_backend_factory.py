"""A state backend of the user's own, which an option names by its class."""

from __future__ import annotations

import pytest

from onceproof.engine import (
    Configuration,
    ConfigurationError,
    KeyedProcessFunction,
    StateBackendFactory,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)
from onceproof.engine.state.hashmap import HashMapStateBackend

made = []


class Noting(StateBackendFactory):
    """Makes backends of the engine, and notes for whom."""

    def create_keyed_state_backend(self, max_parallelism, key_groups, key_type, clock):
        made.append(key_groups)
        return HashMapStateBackend(max_parallelism, key_groups, key_type, clock)


class WithArguments(Noting):
    def __init__(self, folder):
        self.folder = folder


class Summing(KeyedProcessFunction):
    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value, ctx):
        self.sum.update((self.sum.value() or 0) + value)
        yield self.sum.value()


def environment(backend):
    options = Configuration.from_mapping({"state.backend.type": backend, "parallelism.default": 2})
    env = StreamExecutionEnvironment.get_execution_environment(options)
    return env, env.from_collection([1, 2, 3, 4]).key_by(lambda value: value % 2).process(Summing())


def test_a_job_keeps_its_state_where_the_named_class_says():
    made.clear()
    _, sums = environment(f"{__name__}.Noting")
    assert sorted(sums.execute_and_collect("noting")) == [1, 2, 4, 6]
    assert made == [(0, 63), (64, 127)]


@pytest.mark.parametrize(
    ("backend", "said"),
    [
        ("no_such_module.Backend", r"no_such_module cannot be imported: .*: make it importable"),
        (f"{__name__}.Missing", r"has no StateBackendFactory of this name: name a class that inherits"),
        (f"{__name__}.Summing", r"has no StateBackendFactory of this name"),
        (f"{__name__}.WithArguments", r"cannot be made without arguments: .*'folder'"),
    ],
)
def test_a_class_that_makes_no_backend_is_refused_before_the_job_runs(backend, said):
    env, sums = environment(backend)
    sums.print()
    with pytest.raises(ConfigurationError, match=rf"option 'state\.backend\.type' is .*{said}"):
        env.execute("wrong")


@pytest.mark.parametrize("name", ["EmbeddedRocksDBStateBackendFactory", "HashMapStateBackendFactory"])
def test_the_factories_of_flink_are_the_backends_of_the_engine(name):
    package = "state.rocksdb" if name.startswith("Embedded") else "runtime.state.hashmap"
    env, sums = environment(f"org.apache.flink.{package}.{name}")
    sums.print()
    kind = env.get_job_graph("named as in Flink").settings.state_backend.kind
    assert kind == ("rocksdb" if name.startswith("Embedded") else "hashmap")


@pytest.mark.parametrize("wrong", ["hashmapp", "a.1b", ".x"])
def test_what_is_neither_a_word_nor_a_class_is_refused_with_the_choice(wrong):
    with pytest.raises(ConfigurationError, match=r"hashmap.*or a class as package\.module\.Class"):
        Configuration.from_mapping({"state.backend.type": wrong})
