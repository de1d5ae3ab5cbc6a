"""The execution config: a view of the options, and of the parallelism of the environment."""

from __future__ import annotations

import pytest

from onceproof.engine import Configuration, ConfigurationError, ExecutionConfig, StreamExecutionEnvironment


@pytest.fixture
def env():
    return StreamExecutionEnvironment.get_execution_environment()


def test_parallelism_is_that_of_the_environment(env):
    config = env.get_config()
    assert config.get_parallelism() == 1
    assert config.set_parallelism(3).get_parallelism() == env.get_parallelism() == 3
    assert config.set_parallelism(ExecutionConfig.PARALLELISM_UNKNOWN).get_parallelism() == 3
    assert config.set_parallelism(ExecutionConfig.PARALLELISM_DEFAULT).get_parallelism() == 1
    assert config.get_max_parallelism() == -1
    assert config.set_max_parallelism(64).get_max_parallelism() == env.get_max_parallelism() == 64


@pytest.mark.parametrize(
    ("read", "unset", "change", "changed"),
    [
        ("is_object_reuse_enabled", False, "enable_object_reuse", True),
        ("is_object_reuse_enabled", False, "disable_object_reuse", False),
        ("has_generic_types_disabled", False, "disable_generic_types", True),
        ("has_generic_types_disabled", False, "enable_generic_types", False),
        ("has_auto_generated_uids_enabled", True, "disable_auto_generated_uids", False),
        ("has_auto_generated_uids_enabled", True, "enable_auto_generated_uids", True),
    ],
)
def test_a_switch_without_effect_is_kept(env, read, unset, change, changed):
    config = env.get_config()
    assert getattr(config, read)() is unset
    assert getattr(config, change)() is config
    assert getattr(env.get_config(), read)() is changed


@pytest.mark.parametrize(
    ("name", "unset"),
    [
        ("latency_tracking_interval", 0),
        ("task_cancellation_interval", 30_000),
        ("task_cancellation_timeout", 180_000),
    ],
)
def test_a_duration_without_effect_is_kept(env, name, unset):
    config = env.get_config()
    assert getattr(config, f"get_{name}")() == unset
    assert getattr(config, f"set_{name}")(5)
    assert getattr(config, f"get_{name}")() == 5


def test_what_a_file_sets_is_read_with_its_unit():
    given = {"task.cancellation.timeout": "3 s", "pipeline.object-reuse": "true"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(given))
    assert env.get_config().get_task_cancellation_timeout() == 3000
    assert env.get_config().is_object_reuse_enabled()


def test_snapshot_compression_is_kept(env):
    assert not env.get_config().is_use_snapshot_compression()
    assert env.get_config().set_use_snapshot_compression(True).is_use_snapshot_compression()


def test_job_parameters_become_texts_and_come_back_from_flinks_form(env):
    parameters = {"rate": 5, "path": "a:b,'c'"}
    env.get_config().set_global_job_parameters(parameters)
    assert env.get_config().get_global_job_parameters() == {"rate": "5", "path": "a:b,'c'"}
    again = Configuration.from_mapping(env.get_configuration().to_dict())
    other = StreamExecutionEnvironment.get_execution_environment(again)
    assert other.get_config().get_global_job_parameters() == {"rate": "5", "path": "a:b,'c'"}


@pytest.mark.parametrize("wrong", ["rate", "rate:5,", "", 5])
def test_job_parameters_in_another_form_are_refused_with_an_example(wrong):
    with pytest.raises(ConfigurationError, match="such as 'rate:5,place:north'"):
        Configuration.from_mapping({"pipeline.global-job-parameters": wrong})
