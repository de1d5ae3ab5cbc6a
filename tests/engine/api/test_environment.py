"""The environment: its settings, its sources, and that it forgets what it has executed."""

from __future__ import annotations

import pytest

from onceproof.engine import (
    CheckpointingMode,
    Configuration,
    ConfigurationError,
    ExternalizedCheckpointRetention,
    InvalidJob,
    StreamExecutionEnvironment,
    Types,
)
from onceproof.engine.configuration import CHECKPOINT_INTERVAL, DEFAULT_PARALLELISM
from onceproof.engine.durations import Duration


def new_environment(**options):
    configuration = Configuration.from_mapping(options) if options else None
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def test_defaults_are_those_of_flink():
    env = new_environment()
    assert env.get_parallelism() == 1
    assert env.get_max_parallelism() == -1
    assert env.get_checkpoint_interval() == -1
    assert env.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
    assert env.is_chaining_enabled()
    assert not env.get_checkpoint_config().is_checkpointing_enabled()


def test_an_environment_has_its_own_copy_of_the_configuration():
    configuration = Configuration().set(DEFAULT_PARALLELISM, 3)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.enable_checkpointing(500)
    assert env.get_parallelism() == 3
    assert not configuration.is_set(CHECKPOINT_INTERVAL)


def test_set_parallelism_wins_over_the_configuration():
    env = new_environment(**{"parallelism.default": 3, "pipeline.max-parallelism": 64})
    assert (env.get_parallelism(), env.get_max_parallelism()) == (3, 64)
    env.set_parallelism(5).set_max_parallelism(32)
    assert (env.get_parallelism(), env.get_max_parallelism()) == (5, 32)


def test_checkpoints_are_enabled_with_interval_and_mode():
    env = new_environment().enable_checkpointing(1000, CheckpointingMode.EXACTLY_ONCE)
    assert env.get_checkpoint_interval() == 1000
    assert env.get_checkpoint_config().is_checkpointing_enabled()


def test_the_mode_is_that_of_the_job():
    env = new_environment().enable_checkpointing(1000, CheckpointingMode.AT_LEAST_ONCE)
    env.get_checkpoint_config().enable_unaligned_checkpoints()
    env.from_collection([1])
    settings = env.get_job_graph().settings
    assert settings.mode == "AT_LEAST_ONCE"
    assert not settings.unaligned, "at-least-once never overtakes"


def test_an_interval_below_flinks_bound_is_refused():
    with pytest.raises(ConfigurationError, match="at least 10 ms"):
        new_environment().enable_checkpointing(9)


def test_the_checkpoint_configuration_reads_back_what_it_sets():
    env = new_environment()
    config = env.get_checkpoint_config()
    config.set_checkpoint_interval(700).set_checkpoint_timeout(5000).set_min_pause_between_checkpoints(30)
    config.set_max_concurrent_checkpoints(2).set_tolerable_checkpoint_failure_number(4)
    config.set_checkpointing_mode(CheckpointingMode.EXACTLY_ONCE)
    config.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)
    again = env.get_checkpoint_config()
    assert again.get_checkpoint_interval() == 700
    assert again.get_checkpoint_timeout() == 5000
    assert again.get_min_pause_between_checkpoints() == 30
    assert again.get_max_concurrent_checkpoints() == 2
    assert again.get_tolerable_checkpoint_failure_number() == 4
    assert again.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
    retention = again.get_externalized_checkpoint_retention()
    assert retention is ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    env.from_collection([1])
    assert env.get_job_graph().settings.timeout_ms == 5000


def test_the_checkpoint_configuration_switches_unaligned_checkpoints():
    config = new_environment().get_checkpoint_config()
    assert not config.disable_unaligned_checkpoints().is_unaligned_checkpoints_enabled()
    assert not config.set_force_unaligned_checkpoints(False).is_force_unaligned_checkpoints()
    config.set_aligned_checkpoint_timeout(Duration.of_millis(0))
    assert config.get_aligned_checkpoint_timeout() == Duration.of_millis(0)
    assert config.enable_unaligned_checkpoints().is_unaligned_checkpoints_enabled()
    assert config.set_force_unaligned_checkpoints().is_force_unaligned_checkpoints()
    config.set_aligned_checkpoint_timeout(Duration.of_millis(5))
    assert config.get_aligned_checkpoint_timeout() == Duration.of_millis(5)
    with pytest.raises(TypeError, match="the aligned checkpoint timeout is 5: give a Duration"):
        config.set_aligned_checkpoint_timeout(5)


@pytest.mark.parametrize("retention", list(ExternalizedCheckpointRetention))
def test_externalized_checkpoints_are_enabled_by_any_retention_that_keeps_some(retention):
    config = new_environment().get_checkpoint_config()
    assert not config.is_externalized_checkpoints_enabled()
    config.set_externalized_checkpoint_retention(retention)
    kept = retention is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
    assert config.is_externalized_checkpoints_enabled() is kept


def test_a_collection_may_be_any_iterable_and_is_taken_as_it_is_now():
    values = ["a", "b"]
    env = new_environment()
    streams = [env.from_collection(values, Types.STRING()), env.from_collection(iter(values))]
    values.clear()
    for stream in streams:
        source = stream._upstreams[0][0].create().source
        assert source.open_split("0", None).read(10) == [("a", None), ("b", None)]


def test_something_else_than_a_source_is_refused():
    with pytest.raises(InvalidJob, match=r"from_source takes a Source, not 'file\.csv'"):
        new_environment().from_source("file.csv")


def test_what_is_no_watermark_strategy_is_refused():
    env = new_environment()
    stream = env.from_collection([1])
    source = stream._upstreams[0].node.create().source
    with pytest.raises(InvalidJob, match="from_source takes a WatermarkStrategy, not 'strategy'"):
        env.from_source(source, "strategy")
    with pytest.raises(InvalidJob, match="assign_timestamps_and_watermarks takes a WatermarkStrategy"):
        stream.assign_timestamps_and_watermarks("strategy")


def test_interval_of_watermarks_reaches_every_vertex():
    env = new_environment()
    assert env.get_config().get_auto_watermark_interval() == 200
    assert env.get_config().set_auto_watermark_interval(7).get_auto_watermark_interval() == 7
    env.from_collection([1]).rebalance().map(str)
    assert [vertex.auto_watermark_interval_ms for vertex in env.get_job_graph().vertices] == [7, 7]
    with pytest.raises(ConfigurationError, match="auto-watermark-interval"):
        env.get_config().set_auto_watermark_interval(-1)


def test_a_stream_used_after_an_execution_brings_its_operators_back():
    env = new_environment()
    mapped = env.from_collection([1]).map(str).name("text")
    first = env.get_job_graph()
    env._nodes = []  # as execute does
    with pytest.raises(InvalidJob, match="has no operators"):
        env.get_job_graph()
    mapped.filter(bool).name("later")
    second = env.get_job_graph()
    assert [node.name for node in second.vertices[0].operators] == ["Collection Source", "text", "later"]
    ids = [node.operator_id for node in first.vertices[0].operators]
    assert [node.operator_id for node in second.vertices[0].operators][:2] == ids


def test_unaligned_checkpoints_go_one_at_a_time():
    env = new_environment().enable_checkpointing(1000)
    env.get_checkpoint_config().enable_unaligned_checkpoints().set_max_concurrent_checkpoints(2)
    env.from_collection([1])
    with pytest.raises(ConfigurationError, match="max-concurrent-checkpoints' allows several"):
        env.get_job_graph()


@pytest.mark.parametrize("timeout_ms", [-1, 0, 250])
def test_buffer_timeout_is_that_of_the_options(timeout_ms):
    env = StreamExecutionEnvironment.get_execution_environment()
    assert env.get_buffer_timeout() == 100
    assert env.set_buffer_timeout(timeout_ms).get_buffer_timeout() == timeout_ms
    env.from_collection([1]).print()
    assert env.get_job_graph("timed").settings.buffer_timeout_ms == timeout_ms


def test_shortest_buffer_timeout_of_a_chain_counts_and_others_have_the_jobs():
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_collection([1]).set_buffer_timeout(-1).map(str).set_buffer_timeout(20)
    numbers.map(str).set_buffer_timeout(30).key_by(len).map(str).print()
    timed, plain = env.get_job_graph("timed").vertices
    assert timed.buffer_timeout_ms == 20
    assert plain.buffer_timeout_ms is None
    with pytest.raises(InvalidJob, match=r"buffer timeout of .* is -2: give milliseconds, 0 or -1"):
        numbers.set_buffer_timeout(-2)


@pytest.mark.parametrize("timeout_ms", [-2, 1.5, True, "100"])
def test_buffer_timeout_that_is_none_is_refused(timeout_ms):
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(InvalidJob, match="give milliseconds, 0 or -1"):
        env.set_buffer_timeout(timeout_ms)
