"""Options of Flink that mean nothing here: kept, logged at the start, refused where they protect data."""

from __future__ import annotations

import logging
from importlib.resources import files

import pytest

from onceproof.engine import Configuration, ConfigurationError, StreamExecutionEnvironment
from onceproof.engine.configuration import OPTIONS, find_option
from onceproof.engine.configuration.flink_keys import FILE, flink_keys, has_no_effect

KEY = "taskmanager.memory.process.size"


def test_the_keys_are_sorted_and_none_is_an_option_of_the_engine():
    keys = sorted(flink_keys())
    assert len(keys) > 800
    assert not {option.key for option in OPTIONS} & flink_keys()
    assert not {key for option in OPTIONS for key in option.deprecated} & flink_keys()
    lines = files("onceproof.engine.configuration").joinpath(FILE).read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == keys


@pytest.mark.parametrize(
    "key",
    [
        KEY,
        "rest.bind-port",
        "yarn.tags",
        "metrics.reporter.prom.filterLabelValueCharacters",
        "akka.ask.timeout",
    ],
)
def test_an_option_that_means_nothing_here_is_kept_as_it_was_written(key):
    configuration = Configuration.from_mapping({key: "4 gb"})
    assert configuration.get_string(key, "") == "4 gb"
    assert configuration.to_dict() == {key: "4 gb"}
    assert has_no_effect(key)


def test_each_option_without_effect_is_logged_when_the_job_starts(caplog, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("parallelism.default: 1\ntaskmanager:\n  memory.process.size: 4 gb\n")
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_yaml_file(path))
    env.get_configuration().set_boolean("pipeline.object-reuse", True)
    env.from_collection([1]).print()
    with caplog.at_level(logging.WARNING):
        assert not caplog.records
        env.execute("with a whole file")
    assert [each.getMessage() for each in caplog.records] == [
        "job 'with a whole file': option pipeline.object-reuse of Flink has no effect here",
        f"job 'with a whole file': option {KEY} ({path}:3) of Flink has no effect here",
    ]


@pytest.mark.parametrize("key", ["security.ssl.internal.enabled", "taskmanager.data.ssl.enabled"])
def test_an_option_that_would_protect_data_is_refused_with_the_mend(key):
    with pytest.raises(ConfigurationError, match=r"protects data on its way.*: remove it"):
        Configuration.from_mapping({key: "true"})


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("taskmanager.memory.proces.size", KEY),
        ("execution.checkpointing.intervall", "execution.checkpointing.interval"),
        ("pipeline.object-resue", "pipeline.object-reuse"),
    ],
)
def test_a_misspelt_key_is_refused_with_the_nearest_one(misspelt, meant):
    with pytest.raises(ConfigurationError, match=f"did you mean {meant!r}"):
        Configuration.from_mapping({misspelt: "1"})


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("execution.buffer-timeout", "execution.buffer-timeout.interval"),
        ("state.backend.fs.checkpointdir", "execution.checkpointing.dir"),
        ("savepoints.state.backend.fs.dir", "execution.checkpointing.savepoint-dir"),
        ("high-availability.zookeeper.path.namespace", "high-availability.cluster-id"),
    ],
)
def test_a_former_name_that_means_something_here_is_still_that_option(before, now):
    with pytest.warns(FutureWarning, match=now):
        assert find_option(before).key == now
