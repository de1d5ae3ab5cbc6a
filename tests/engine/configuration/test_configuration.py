"""Configuration: an error is raised when an option is set, and names the option and the mend."""

import os
import warnings

import pytest

from onceproof.engine.configuration import (
    CHECKPOINT_INTERVAL,
    CHECKPOINT_NUM_RETAINED,
    CLAIM,
    OPTIONS,
    Configuration,
    ConfigurationError,
    ExponentialDelayRestarts,
    FailureRateRestarts,
    FixedDelayRestarts,
    NoRestarts,
    RecoverySettings,
    job_settings,
)
from onceproof.engine.configuration import configuration as module


@pytest.fixture(autouse=True)
def nothing_warned(monkeypatch):
    monkeypatch.setattr(module, "_warned", set())


def settings_of(**options):
    return job_settings(Configuration.from_mapping({key.replace("__", "."): v for key, v in options.items()}))


def refused(key, value):
    with pytest.raises(ConfigurationError) as raised:
        Configuration().set_string(key, value)
    message = str(raised.value)
    assert "\n" not in message
    assert repr(key) in message
    return message


@pytest.mark.parametrize("option", OPTIONS, ids=[option.key for option in OPTIONS])
def test_default_is_a_value_the_option_could_be_set_to(option):
    if option.default is not None:
        assert option.parse(option.default) == option.default
    assert option.doc.endswith(".")


def test_settings_without_any_option_are_flinks_defaults():
    settings = job_settings(Configuration())
    assert not settings.enabled
    assert settings.timeout_ms == 600_000
    assert settings.max_concurrent == 1
    assert settings.tolerable_failures == 0
    assert settings.num_retained == 1
    assert settings.mode == "EXACTLY_ONCE"
    assert settings.restarts == NoRestarts()


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("10 s", 10_000),
        ("500ms", 500),
        ("2 min", 120_000),
        ("1 h", 3_600_000),
        ("1d", 86_400_000),
        ("77", 77),
        (78, 78),
    ],
)
def test_durations_are_read_as_flink_reads_them(text, expected_ms):
    assert Configuration().set(CHECKPOINT_INTERVAL, text).get(CHECKPOINT_INTERVAL) == expected_ms


@pytest.mark.parametrize("text", ["ten s", "10 parsecs", "", "-5 s", "1.5 s"])
def test_invalid_duration_is_refused_with_examples(text):
    assert "'10 s', '500 ms' or '2 min'" in refused("execution.checkpointing.timeout", text)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("execution.checkpointing.interval", "9 ms", "at least 10 ms"),
        ("execution.checkpointing.timeout", "9 ms", "at least 10 ms"),
        ("execution.checkpointing.num-retained", "0", "at least 1"),
        ("execution.checkpointing.num-retained", "many", "a whole number"),
        ("execution.checkpointing.mode", "often", "the choice is EXACTLY_ONCE"),
        ("execution.checkpointing.unaligned.enabled", "perhaps", "true or false"),
        ("execution.checkpointing.unaligned.forced", "perhaps", "true or false"),
        ("execution.checkpointing.aligned-checkpoint-timeout", "soon", "a duration"),
        ("execution.checkpointing.incremental", "sometimes", "true or false"),
        ("state.backend.rocksdb.compaction.style", "fifo", "universal"),
        (
            "execution.checkpointing.checkpoints-after-tasks-finish",
            "false",
            "not supported yet; leave it true",
        ),
        (
            "execution.checkpointing.externalized-checkpoint-retention",
            "FOR_EVER",
            "the choice is NO_EXTERNAL",
        ),
        ("execution.checkpointing.dir", " ", "a text"),
        ("state.backend.type", "forst", "not supported yet; the choice is hashmap, rocksdb"),
        ("state.backend.type", "disk", "the choice is hashmap, rocksdb"),
        ("execution.checkpointing.storage", "disk", "the choice is jobmanager, filesystem"),
        ("state.backend.rocksdb.writebuffer.size", "0 mb", "such as '64 mb'"),
        ("state.backend.rocksdb.block.cache-size", "much", "such as '64 mb'"),
        ("state.backend.rocksdb.writebuffer.count", "1", "at least 2"),
        (
            "restart-strategy.type",
            "often",
            "the choice is none, fixed-delay, failure-rate, exponential-delay",
        ),
        ("restart-strategy.exponential-delay.backoff-multiplier", "1", "more than 1"),
        ("restart-strategy.exponential-delay.backoff-multiplier", "inf", "a finite number"),
        ("restart-strategy.exponential-delay.jitter-factor", "1.5", "0 to 1"),
        ("restart-strategy.exponential-delay.jitter-factor", "a bit", "a number"),
        ("restart-strategy.failure-rate.failure-rate-interval", "0 s", "longer than zero"),
        ("pipeline.max-parallelism", "32769", "1 to 32768"),
        ("pipeline.allow-pickled-state", "yes", "true or false"),
        ("parallelism.default", "0", "at least 1"),
    ],
)
def test_invalid_value_is_refused_with_the_allowed_ones(key, value, words):
    assert words in refused(key, value)


def test_unknown_option_is_refused_with_the_nearest_known_name():
    message = refused("execution.checkpointing.intervall", "1 s")
    assert "did you mean 'execution.checkpointing.interval'?" in message
    assert "OPTIONS lists all" in refused("zzz", "1")


@pytest.mark.parametrize(
    "read", [Configuration.get_string, Configuration.get_integer, Configuration.contains_key]
)
def test_unknown_option_is_refused_when_read_too(read):
    arguments = ("parallelism.defualt",) if read is Configuration.contains_key else ("parallelism.defualt", 1)
    with pytest.raises(ConfigurationError, match=r"did you mean 'parallelism\.default'"):
        read(Configuration(), *arguments)


def test_recovery_is_read_under_todays_names_and_under_those_before():
    today = job_settings(
        Configuration.from_mapping(
            {
                "execution.state-recovery.path": "file:///s",
                "execution.state-recovery.claim-mode": "claim",
                "execution.state-recovery.ignore-unclaimed-state": True,
                "execution.checkpointing.savepoint-dir": "d",
            }
        )
    )
    with pytest.warns(FutureWarning):
        before = job_settings(
            Configuration.from_mapping(
                {
                    "execution.savepoint.path": "file:///s",
                    "execution.savepoint-restore-mode": "CLAIM",
                    "execution.savepoint.ignore-unclaimed-state": "true",
                    "state.savepoints.dir": "d",
                }
            )
        )
    assert today == before
    assert today.recovery == RecoverySettings("/s", CLAIM, True)
    assert today.savepoint_directory == os.path.abspath("d")


def test_deprecated_spelling_is_accepted_and_warned_of_once():
    configuration = Configuration()
    with pytest.warns(FutureWarning, match=r"'state\.checkpoints\.num-retained' is now 'execution"):
        configuration.set_integer("state.checkpoints.num-retained", 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        configuration.set_integer("state.checkpoints.num-retained", 4)
    assert configuration.get(CHECKPOINT_NUM_RETAINED) == 4
    assert configuration.to_dict() == {"execution.checkpointing.num-retained": "4"}


@pytest.mark.parametrize(
    ("spelling", "value", "today"),
    [
        ("state.checkpoints.num-retained", "2", "execution.checkpointing.num-retained"),
        ("state.checkpoints.dir", "/tmp/x", "execution.checkpointing.dir"),
        ("state.backend", "hashmap", "state.backend.type"),
        ("restart-strategy", "none", "restart-strategy.type"),
        ("execution.checkpointing.unaligned", "false", "execution.checkpointing.unaligned.enabled"),
        (
            "execution.checkpointing.alignment-timeout",
            "0",
            "execution.checkpointing.aligned-checkpoint-timeout",
        ),
        ("state.backend.incremental", "false", "execution.checkpointing.incremental"),
        ("pipeline.operator-chaining", "true", "pipeline.operator-chaining.enabled"),
    ],
)
def test_spellings_of_the_tutorials_mean_the_options_of_today(spelling, value, today):
    with pytest.warns(FutureWarning, match=repr(today).replace(".", r"\.")):
        assert Configuration().set_string(spelling, value).key_set() == {today}


def test_warning_points_at_the_line_that_used_the_spelling():
    with pytest.warns(FutureWarning) as caught:
        Configuration().set_string("state.backend", "hashmap")
    assert caught[0].filename == __file__


def test_same_option_in_two_spellings_with_two_values_is_refused():
    options = {"state.checkpoints.num-retained": 2, "execution.checkpointing.num-retained": 3}
    with pytest.warns(FutureWarning), pytest.raises(ConfigurationError, match="keep one"):
        Configuration.from_mapping(options)
    options["execution.checkpointing.num-retained"] = "2"
    assert Configuration.from_mapping(options).get(CHECKPOINT_NUM_RETAINED) == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, r"is not set, which means none: set it to fixed-delay, or remove the former"),
        ({"execution.checkpointing.interval": "1 s"}, "is not set, which means exponential-delay"),
        ({"restart-strategy.type": "failure-rate"}, "is failure-rate: set it to fixed-delay"),
    ],
)
def test_option_of_a_strategy_that_is_not_chosen_contradicts(options, words):
    configuration = Configuration.from_mapping({**options, "restart-strategy.fixed-delay.attempts": 3})
    with pytest.raises(
        ConfigurationError, match=r"'restart-strategy\.fixed-delay\.attempts' is set but"
    ) as raised:
        job_settings(configuration)
    assert words in str(raised.value)


def test_first_wait_longer_than_the_longest_contradicts():
    with pytest.raises(
        ConfigurationError, match=r"initial-backoff' is 120000 ms and .*max-backoff' is 60000 ms"
    ):
        settings_of(
            execution__checkpointing__interval="1 s",
            **{"restart-strategy__exponential-delay__initial-backoff": "2 min"},
        )


EXPONENTIAL = {
    "execution.checkpointing.interval": "1 s",
    "restart-strategy.exponential-delay.initial-backoff": "2 s",
    "restart-strategy.exponential-delay.max-backoff": "3 s",
    "restart-strategy.exponential-delay.backoff-multiplier": "2.5",
    "restart-strategy.exponential-delay.reset-backoff-threshold": "4 s",
    "restart-strategy.exponential-delay.jitter-factor": "0.5",
    "restart-strategy.exponential-delay.attempts-before-reset-backoff": "6",
}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, NoRestarts()),
        ({"execution.checkpointing.interval": "1 s"}, ExponentialDelayRestarts()),
        ({"execution.checkpointing.interval-records": 10}, ExponentialDelayRestarts()),
        ({"execution.checkpointing.interval": "1 s", "restart-strategy.type": "off"}, NoRestarts()),
        (EXPONENTIAL, ExponentialDelayRestarts(2000, 3000, 2.5, 4000, 0.5, 6)),
        ({"restart-strategy.type": "exponentialdelay"}, ExponentialDelayRestarts()),
        ({"restart-strategy.type": "failurerate"}, FailureRateRestarts()),
        (
            {
                "restart-strategy.type": "failure-rate",
                "restart-strategy.failure-rate.max-failures-per-interval": 3,
                "restart-strategy.failure-rate.failure-rate-interval": "5 min",
                "restart-strategy.failure-rate.delay": "10 s",
            },
            FailureRateRestarts(3, 300_000, 10_000),
        ),
        ({"restart-strategy.type": "fixeddelay"}, FixedDelayRestarts(1, 1000)),
        (
            {
                "restart-strategy.type": "fixed-delay",
                "restart-strategy.fixed-delay.attempts": 7,
                "restart-strategy.fixed-delay.delay": "50 ms",
            },
            FixedDelayRestarts(7, 50),
        ),
    ],
)
def test_restart_strategy_and_its_defaults(options, expected):
    assert job_settings(Configuration.from_mapping(options)).restarts == expected


def test_interval_is_raised_to_the_min_pause():
    assert (
        settings_of(
            execution__checkpointing__interval="1 s", **{"execution__checkpointing__min-pause": "3 s"}
        ).interval_ms
        == 3000
    )


def test_pyflinks_accessors():
    configuration = Configuration()
    assert configuration.set_integer("parallelism.default", 4) is configuration
    configuration.set_boolean("pipeline.operator-chaining.enabled", False)
    configuration.set_float("restart-strategy.exponential-delay.jitter-factor", 0.25)
    assert configuration.get_float("restart-strategy.exponential-delay.jitter-factor", 0.0) == 0.25
    assert configuration.get_float("parallelism.default", 0.5) == 4.0
    assert configuration.get_float("restart-strategy.exponential-delay.backoff-multiplier", 0.5) == 0.5
    with pytest.raises(ConfigurationError, match="which is not a number"):
        configuration.get_float("pipeline.operator-chaining.enabled", 0.0)
    configuration.set_string("execution.checkpointing.interval", "10 s")
    assert configuration.get_integer("parallelism.default", 1) == 4
    assert configuration.get_integer("execution.checkpointing.interval", 0) == 10_000
    assert configuration.get_string("execution.checkpointing.interval", "") == "10 s"
    assert configuration.get_string("pipeline.name", "none") == "none"
    assert configuration.get_boolean("pipeline.operator-chaining.enabled", True) is False
    assert configuration.contains_key("parallelism.default")
    assert configuration.key_set() == configuration.to_dict().keys()
    assert configuration.remove_config("parallelism.default")
    assert not configuration.remove_config("parallelism.default")
    with pytest.raises(ConfigurationError, match="not a whole number"):
        configuration.get_integer("pipeline.operator-chaining.enabled", 0)
    with pytest.raises(ConfigurationError, match="not true or false"):
        configuration.get_boolean("execution.checkpointing.interval", True)


def test_copy_is_independent_and_add_all_takes_over():
    first = Configuration().set_integer("parallelism.default", 4)
    second = Configuration(first).set_integer("parallelism.default", 5)
    assert first.get_integer("parallelism.default", 0) == 4
    first.add_all(second)
    assert first == second


def test_a_dict_becomes_a_configuration_and_is_filled_from_one():
    configuration = Configuration.from_dict({"parallelism.default": "3", "pipeline.object-reuse": "true"})
    target = {"parallelism.default": "1", "other": "stays"}
    configuration.add_all_to_dict(target)
    assert target == {"parallelism.default": "3", "pipeline.object-reuse": "true", "other": "stays"}
