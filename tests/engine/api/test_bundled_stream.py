"""Bundles in a job: from the description to rows that come out."""

from __future__ import annotations

import time

import pytest

from onceproof.engine import Configuration, Duration, InvalidJob, StreamExecutionEnvironment, Time, Types
from tests.engine.counting import Count

WORDS = list("abracadabra")
COUNTED = {"a": 5, "b": 2, "r": 2, "c": 1, "d": 1}


@pytest.fixture
def env():
    options = {"parallelism.default": 2, "pipeline.buffer-records": 3}
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))


def itself(word):
    return word


@pytest.mark.parametrize("size", [1, 2, 4, 1000])
def test_the_last_row_of_a_key_counts_all_of_it(env, size):
    words = env.from_collection(WORDS, Types.STRING())
    counts = words.key_by(itself, Types.STRING()).bundle(size).aggregate(Count(), Types.LONG())
    rows = list(counts.execute_and_collect())
    last = {}
    for word, count in rows:
        assert count > last.get(word, 0)
        last[word] = count
    assert last == COUNTED
    assert len(rows) <= len(WORDS)


def test_a_bundle_gives_a_key_one_row_however_often_it_came(env):
    words = env.from_collection(WORDS, Types.STRING())
    counts = words.key_by(itself, Types.STRING()).bundle(1000).aggregate(Count(), Types.LONG())
    assert sorted(counts.execute_and_collect()) == sorted(COUNTED.items())


def test_reduced_values_keep_the_type_of_the_stream(env):
    pairs = env.from_collection([(word, 1) for word in WORDS], Types.TUPLE([Types.STRING(), Types.LONG()]))
    bundled = pairs.key_by(lambda pair: pair[0], Types.STRING()).bundle(1000)
    sums = bundled.reduce(lambda one, other: (one[0], one[1] + other[1]))
    assert sums.get_type() is pairs.get_type()
    assert sorted(sums.execute_and_collect()) == sorted(COUNTED.items())


def test_folding_is_chained_to_what_comes_before_it_and_has_its_parallelism(env):
    words = env.from_collection(WORDS, Types.STRING()).name("words").set_parallelism(1).set_max_parallelism(8)
    counts = words.key_by(itself, Types.STRING()).bundle(5).aggregate(Count(), Types.LONG())
    counts.name("count").uid("count").set_parallelism(4).print().name("out")
    vertices = env.get_job_graph().vertices
    assert [(vertex.name, vertex.parallelism) for vertex in vertices] == [
        ("words -> Local Aggregate", 1),
        ("count", 4),
        ("out", 2),
    ]


def test_of_several_streams_folding_is_a_task_of_its_own(env):
    streams = [env.from_collection(WORDS, Types.STRING()).name(name) for name in ("one", "other")]
    union = streams[0].union(streams[1])
    counts = union.key_by(itself, Types.STRING()).bundle(1000).aggregate(Count(), Types.LONG())
    assert [vertex.name for vertex in env.get_job_graph().vertices][2] == "Local Aggregate"
    assert sorted(counts.execute_and_collect()) == sorted(
        (word, 2 * count) for word, count in COUNTED.items()
    )


def slowly(word):
    time.sleep(0.005)
    return word


def test_a_row_waits_no_longer_for_a_bundle_to_fill_than_the_latency_allows(env):
    def rows(latency):
        words = env.from_collection(40 * ["a"], Types.STRING()).set_parallelism(1).map(slowly, Types.STRING())
        bundled = words.set_parallelism(1).key_by(itself, Types.STRING()).bundle(1000, latency)
        return list(bundled.aggregate(Count(), Types.LONG()).execute_and_collect())

    assert rows(None) == [("a", 40)]
    in_time = rows(Duration.of_millis(20))
    assert len(in_time) > 3
    assert in_time[-1] == ("a", 40)


def test_what_is_no_size_and_no_function_is_refused(env):
    keyed = env.from_collection(WORDS, Types.STRING()).key_by(itself)
    for size in (0, -1, 2.0, True, None):
        with pytest.raises(InvalidJob, match=r"bundle of .* records: give a whole number of at least 1"):
            keyed.bundle(size)
    with pytest.raises(TypeError, match="the latency of a bundle is 5: give a Duration or a Time"):
        keyed.bundle(2, 5)
    for latency in (Duration.of_millis(1), Time.milliseconds(0)):
        with pytest.raises(InvalidJob, match=r"latency of a bundle of . ms: give at least 2, or none"):
            keyed.bundle(2, latency)
    with pytest.raises(InvalidJob, match="aggregate takes an AggregateFunction, not 5"):
        keyed.bundle(2).aggregate(5)
    with pytest.raises(InvalidJob, match="reduce takes a function or a ReduceFunction, not 5"):
        keyed.bundle(2).reduce(5)
