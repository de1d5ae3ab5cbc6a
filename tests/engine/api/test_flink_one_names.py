"""What programs for Flink 1 write in place of options: restart strategies, state backends, storages."""

from __future__ import annotations

import builtins
import importlib
import sys
from datetime import timedelta

import pytest

from onceproof import engine
from onceproof.engine import (
    Configuration,
    ConfigurationError,
    Duration,
    EmbeddedRocksDBStateBackend,
    ExternalizedCheckpointRetention,
    FileSystemCheckpointStorage,
    FsStateBackend,
    HashMapStateBackend,
    JobManagerCheckpointStorage,
    MemoryStateBackend,
    PredefinedOptions,
    RestartStrategies,
    RocksDBStateBackend,
    StreamExecutionEnvironment,
    Time,
)


@pytest.fixture
def env():
    return StreamExecutionEnvironment.get_execution_environment()


def options(env):
    return env.get_configuration().to_dict()


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (
            RestartStrategies.fixed_delay_restart(3, 500),
            {"type": "fixed-delay", "fixed-delay.attempts": "3", "fixed-delay.delay": "500"},
        ),
        (
            RestartStrategies.failure_rate_restart(2, timedelta(minutes=1), Time.seconds(1)),
            {
                "type": "failure-rate",
                "failure-rate.max-failures-per-interval": "2",
                "failure-rate.failure-rate-interval": "60000",
                "failure-rate.delay": "1000",
            },
        ),
        (
            RestartStrategies.exponential_delay_restart(1, Duration.of_seconds(5), 2.0, 9, 0.2),
            {
                "type": "exponential-delay",
                "exponential-delay.initial-backoff": "1",
                "exponential-delay.max-backoff": "5000",
                "exponential-delay.backoff-multiplier": "2.0",
                "exponential-delay.reset-backoff-threshold": "9",
                "exponential-delay.jitter-factor": "0.2",
            },
        ),
        (RestartStrategies.no_restart(), {"type": "none"}),
        (RestartStrategies.fall_back_restart(), {}),
    ],
)
def test_a_strategy_sets_its_options_and_removes_those_of_another(env, strategy, expected):
    env.configure(
        Configuration.from_mapping(
            {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": 9}
        )
    )
    with pytest.warns(DeprecationWarning, match=r"set the option 'restart-strategy\.type'"):
        env.set_restart_strategy(strategy)
    assert options(env) == {f"restart-strategy.{key}": value for key, value in expected.items()}
    assert all(key in strategy.get_description() for key in options(env))


def test_a_strategy_gives_back_what_it_was_made_with():
    fixed = RestartStrategies.fixed_delay_restart(3, timedelta(seconds=2))
    assert fixed.get_restart_attempts() == 3
    assert fixed.get_delay_between_attempts_interval() == timedelta(seconds=2)
    rate = RestartStrategies.failure_rate_restart(4, 1000, 20)
    assert rate.get_max_failure_rate() == 4
    assert rate.get_failure_interval() == timedelta(seconds=1)
    assert rate.get_delay_between_attempts_interval() == timedelta(milliseconds=20)
    assert fixed == RestartStrategies.fixed_delay_restart(3, 2000) != rate
    assert hash(fixed) == hash(RestartStrategies.fixed_delay_restart(3, 2000))
    assert RestartStrategies.fall_back_restart().get_description() == "the strategy of the cluster"


@pytest.mark.parametrize("arguments", [(-1, 5), (3, True), (3, -5)])
def test_a_strategy_that_cannot_be_is_refused_where_it_is_made(arguments):
    with pytest.raises(ConfigurationError):
        RestartStrategies.fixed_delay_restart(*arguments)


def test_a_state_backend_sets_its_options(env):
    backend = EmbeddedRocksDBStateBackend(True)
    backend.set_db_storage_paths("/disk")
    with pytest.warns(DeprecationWarning, match=r"set the option 'state\.backend\.type'"):
        env.set_state_backend(backend)
    assert options(env) == {
        "state.backend.type": "rocksdb",
        "execution.checkpointing.incremental": "true",
        "state.backend.rocksdb.localdir": "/disk",
    }
    with pytest.warns(DeprecationWarning, match="set_state_backend is deprecated"):
        env.set_state_backend(HashMapStateBackend())
    assert options(env)["state.backend.type"] == "hashmap"


def test_a_rocksdb_backend_keeps_what_has_no_effect():
    backend = EmbeddedRocksDBStateBackend()
    assert (backend.is_incremental_checkpoints_enabled(), backend.get_db_storage_paths()) == (False, [])
    assert backend.get_predefined_options() is PredefinedOptions.DEFAULT
    backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
    assert backend.get_predefined_options() is PredefinedOptions.FLASH_SSD_OPTIMIZED
    backend.set_number_of_transfer_threads(9)
    assert backend.get_number_of_transfer_threads() == 9
    with pytest.raises(ConfigurationError, match="give set_db_storage_paths one"):
        backend.set_db_storage_paths("/a", "/b")
    with pytest.raises(TypeError, match="give True, False or None"):
        EmbeddedRocksDBStateBackend("yes")


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (
            lambda: MemoryStateBackend(100),
            {
                "state.backend.type": "hashmap",
                "execution.checkpointing.storage": "jobmanager",
                "execution.checkpointing.max-memory-state": "100",
            },
        ),
        (
            lambda: FsStateBackend("/chk"),
            {
                "state.backend.type": "hashmap",
                "execution.checkpointing.storage": "filesystem",
                "execution.checkpointing.dir": "/chk",
            },
        ),
        (
            lambda: RocksDBStateBackend("/chk", False),
            {
                "state.backend.type": "rocksdb",
                "execution.checkpointing.incremental": "false",
                "execution.checkpointing.storage": "filesystem",
                "execution.checkpointing.dir": "/chk",
            },
        ),
    ],
)
def test_a_backend_of_before_sets_the_storage_too_and_is_deprecated(make, expected):
    with pytest.warns(DeprecationWarning, match=r"StateBackend is deprecated: set state\.backend\.type"):
        backend = make()
    configuration = Configuration()
    backend.set_in(configuration)
    assert configuration.to_dict() == expected


def test_a_checkpoint_storage_sets_its_options(env):
    config = env.get_checkpoint_config()
    with pytest.warns(DeprecationWarning, match=r"'execution\.checkpointing\.dir'"):
        config.set_checkpoint_storage_dir("/chk")
    files = {"execution.checkpointing.storage": "filesystem", "execution.checkpointing.dir": "/chk"}
    assert options(env) == files
    storage = JobManagerCheckpointStorage()
    assert storage.get_max_state_size() == JobManagerCheckpointStorage.DEFAULT_MAX_STATE_SIZE == 5 << 20
    assert (storage.get_checkpoint_path(), storage.get_savepoint_path()) == (None, None)
    with pytest.warns(DeprecationWarning, match=r"'execution\.checkpointing\.storage'"):
        config.set_checkpoint_storage(storage)
    assert options(env) == {
        "execution.checkpointing.storage": "jobmanager",
        "execution.checkpointing.max-memory-state": "5242880",
    }


def test_a_file_storage_gives_back_what_it_was_made_with():
    storage = FileSystemCheckpointStorage("/chk", 10, 20)
    assert storage.get_checkpoint_path() == "/chk"
    assert storage.get_savepoint_path() is None
    assert (storage.get_min_file_size_threshold(), storage.get_write_buffer_size()) == (10, 20)
    assert FileSystemCheckpointStorage("/chk").get_min_file_size_threshold() == -1


def test_a_memory_storage_with_a_path_is_refused_with_the_mend():
    with pytest.raises(ConfigurationError, match=r"use FileSystemCheckpointStorage\('/chk'\)"):
        JobManagerCheckpointStorage("/chk")


RETAINED = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION


@pytest.mark.parametrize(
    ("method", "argument", "now", "expected"),
    [
        (
            "enable_externalized_checkpoints",
            RETAINED,
            "call set_externalized_checkpoint_retention",
            {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"},
        ),
        (
            "set_externalized_checkpoint_cleanup",
            RETAINED,
            "call set_externalized_checkpoint_retention",
            {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"},
        ),
        (
            "set_alignment_timeout",
            Duration.of_seconds(3),
            "call set_aligned_checkpoint_timeout",
            {"execution.checkpointing.aligned-checkpoint-timeout": "3000"},
        ),
        (
            "set_fail_on_checkpointing_errors",
            False,
            "call set_tolerable_checkpoint_failure_number",
            {"execution.checkpointing.tolerable-failed-checkpoints": "2147483647"},
        ),
        (
            "set_fail_on_checkpointing_errors",
            True,
            "call set_tolerable_checkpoint_failure_number",
            {"execution.checkpointing.tolerable-failed-checkpoints": "0"},
        ),
        ("set_prefer_checkpoint_for_recovery", True, "remove it", {}),
    ],
)
def test_a_setting_of_checkpoints_is_made_under_its_older_name(env, method, argument, now, expected):
    config = env.get_checkpoint_config()
    with pytest.warns(DeprecationWarning, match=f"{method} is deprecated: {now}") as warned:
        assert getattr(config, method)(argument) is config
    assert warned[0].filename == __file__
    assert options(env) == expected


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("get_externalized_checkpoint_cleanup", RETAINED),
        ("get_alignment_timeout", Duration.of_seconds(3)),
        ("is_fail_on_checkpointing_errors", True),
        ("is_prefer_checkpoint_for_recovery", False),
    ],
)
def test_a_setting_of_checkpoints_is_read_under_its_older_name(env, method, expected):
    config = env.get_checkpoint_config()
    config.set_externalized_checkpoint_retention(RETAINED)
    config.set_aligned_checkpoint_timeout(Duration.of_seconds(3))
    with pytest.warns(DeprecationWarning, match=f"{method} is deprecated: "):
        assert getattr(config, method)() == expected


def test_the_defaults_of_checkpoints_are_those_of_the_options(env):
    config = env.get_checkpoint_config()
    assert config.get_checkpointing_mode() is config.DEFAULT_MODE
    assert config.get_checkpoint_timeout() == config.DEFAULT_TIMEOUT == 600_000
    assert config.get_min_pause_between_checkpoints() == config.DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS
    assert config.get_max_concurrent_checkpoints() == config.DEFAULT_MAX_CONCURRENT_CHECKPOINTS == 1


@pytest.mark.parametrize(
    ("method", "argument"),
    [("set_python_executable", "python3"), ("set_python_requirements", "requirements.txt")],
)
def test_what_sets_up_other_processes_in_pyflink_has_no_effect(env, method, argument):
    with pytest.warns(DeprecationWarning, match=f"{method} is deprecated: "):
        getattr(env, method)(argument)
    assert options(env) == {}


def test_an_enabled_changelog_is_kept_and_has_no_effect(env):
    assert env.is_changelog_state_backend_enabled() is None
    with pytest.warns(DeprecationWarning, match=r"set state\.backend\.type: rocksdb"):
        assert env.enable_changelog_state_backend(True) is env
    assert env.is_changelog_state_backend_enabled() is True
    assert env.get_configuration().without_effect() == ["state.changelog.enabled"]


def test_an_added_python_file_can_be_imported(env, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "added_to_the_job.py").write_text("answer = 42\n")
    for _ in range(2):
        with pytest.warns(DeprecationWarning, match="add_python_file is deprecated: put the file beside"):
            env.add_python_file(str(tmp_path / "added_to_the_job.py"))
    import added_to_the_job

    assert added_to_the_job.answer == 42
    assert sys.path.count(str(tmp_path)) == 1


def test_an_execution_config_takes_a_restart_strategy(env):
    with pytest.warns(DeprecationWarning, match=r"set the option 'restart-strategy\.type'"):
        env.get_config().set_restart_strategy(RestartStrategies.no_restart())
    assert options(env) == {"restart-strategy.type": "none"}


def test_a_rocksdb_backend_takes_threads_under_the_misspelled_name():
    with pytest.warns(DeprecationWarning, match="RocksDBStateBackend is deprecated"):
        backend = RocksDBStateBackend("/chk")
    with pytest.warns(DeprecationWarning, match="call set_number_of_transfer_threads"):
        backend.set_number_of_transfering_threads(7)
    with pytest.warns(DeprecationWarning, match="call get_number_of_transfer_threads"):
        assert backend.get_number_of_transfering_threads() == 7


def test_the_cleanup_of_checkpoints_is_their_retention(monkeypatch):
    # A test that has loaded a script leaves its answers to imports behind, which take a frame.
    monkeypatch.setattr(builtins, "__import__", importlib.__import__)
    with pytest.warns(DeprecationWarning, match="use ExternalizedCheckpointRetention") as warned:
        from onceproof.engine import ExternalizedCheckpointCleanup
    assert ExternalizedCheckpointCleanup is ExternalizedCheckpointRetention
    assert warned[0].filename == __file__


def test_the_module_of_windows_has_the_classes_of_the_engine():
    with pytest.warns(DeprecationWarning, match=r"import CountTrigger from onceproof\.engine$"):
        from onceproof.engine.window import CountTrigger
    assert CountTrigger is engine.CountTrigger
    with pytest.warns(DeprecationWarning, match="import TumblingEventTimeWindows from"):
        assert engine.window.TumblingEventTimeWindows is engine.TumblingEventTimeWindows
    with pytest.raises(AttributeError, match=r"has no attribute 'MapFunction'"):
        engine.window.MapFunction  # noqa: B018
