"""A YAML file with Flink's keys; every error names the file and the line."""

from __future__ import annotations

import os

import pytest

from onceproof.engine.configuration import (
    CHECKPOINT_DIRECTORY,
    CHECKPOINT_NUM_RETAINED,
    Configuration,
    ConfigurationError,
    FixedDelayRestarts,
    job_settings,
)
from onceproof.engine.configuration import configuration as module

NESTED = """\
# As in Flink's conf/config.yaml.
execution:
  checkpointing:
    interval: 10 s
    num-retained: 3   # three
    externalized-checkpoint-retention: "RETAIN_ON_CANCELLATION"
restart-strategy:
  type: fixed-delay
  fixed-delay:
    attempts: 7
    delay: 500 ms
parallelism.default: 2
"""
FLAT = """\
execution.checkpointing.interval: 10 s
execution.checkpointing.num-retained: 3
execution.checkpointing.externalized-checkpoint-retention: RETAIN_ON_CANCELLATION
restart-strategy.type: fixed-delay
restart-strategy.fixed-delay.attempts: 7
restart-strategy.fixed-delay.delay: 500 ms
parallelism: {default: 2}
"""


@pytest.fixture(autouse=True)
def nothing_warned(monkeypatch):
    monkeypatch.setattr(module, "_warned", set())


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "config.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.mark.parametrize("text", [NESTED, FLAT], ids=["nested", "joined by dots"])
def test_options_are_read_nested_or_joined_by_dots(write, text):
    configuration = Configuration.from_yaml_file(write(text))
    settings = job_settings(configuration)
    assert settings.interval_ms == 10_000
    assert settings.num_retained == 3
    assert settings.retention == "RETAIN_ON_CANCELLATION"
    assert settings.restarts == FixedDelayRestarts(7, 500)
    assert configuration.get_integer("parallelism.default", 1) == 2


def test_file_of_comments_sets_nothing(write):
    assert Configuration.from_yaml_file(write("# nothing\n")).to_dict() == {}


def test_values_are_the_text_that_is_written(write):
    """YAML would take ``off`` for false and 0x10 for sixteen; the options say what they mean."""
    text = "restart-strategy.type: off\nexecution.checkpointing.dir: 0x10\n"
    configuration = Configuration.from_yaml_file(write(text))
    assert configuration.get_string("restart-strategy.type", "") == "off"
    assert configuration.get(CHECKPOINT_DIRECTORY) == "0x10"


def test_spelling_of_the_tutorials_is_accepted_and_warned_of_with_its_place(write):
    path = write("parallelism.default: 2\nstate.checkpoints.num-retained: 4\n")
    with pytest.warns(
        FutureWarning, match=r"config\.yaml:2: option 'state\.checkpoints\.num-retained' is now"
    ):
        configuration = Configuration.from_yaml_file(path)
    assert configuration.get(CHECKPOINT_NUM_RETAINED) == 4


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\n", 1, "unknown option 'a'"),
        (
            "execution:\n  checkpointing:\n    intervall: 1 s\n",
            3,
            "'execution.checkpointing.intervall': did you mean 'execution.checkpointing.interval'?",
        ),
        ("\nparallelism.default: many\n", 2, "option 'parallelism.default' cannot be 'many': a whole number"),
        ("execution.checkpointing.unaligned.enabled: maybe\n", 1, "true or false is needed"),
        ("parallelism.default:\n", 1, "option 'parallelism.default' has no value"),
        ("parallelism.default: ~\n", 1, "option 'parallelism.default' has no value"),
        ("parallelism.default: [1]\n", 1, "option 'parallelism.default' has a list"),
        ("parallelism:\n  default:\n    x: 1\n", 3, "unknown option 'parallelism.default.x'"),
        ("- parallelism.default\n", 1, "the file must be a mapping"),
        ("just text\n", 1, "the file must be a mapping"),
        ("? [a]\n: 1\n", 1, "a key must be a text"),
        ("parallelism:\n  default: 1\nparallelism.default: 2\n", 3, "stands in line 2 already"),
        ("parallelism.default: 1\nparallelism.default: 1\n", 2, "stands in line 1 already"),
        ("parallelism: {default: 1\n", 2, "not YAML: "),
        ("parallelism.default: 1\n---\nparallelism.default: 2\n", 2, "not YAML: "),
        ("parallelism.default: &one 1\n", 1, "anchors, aliases and tags mean nothing here"),
        ("x: &x\n  y: *x\n", 1, "anchors, aliases and tags mean nothing here"),
        ("x: !!python/object/apply:os.abort []\n", 1, "anchors, aliases and tags mean nothing here"),
    ],
)
def test_error_names_file_and_line(write, text, line, words):
    path = write(text)
    with pytest.raises(ConfigurationError) as raised:
        Configuration.from_yaml_file(path)
    message = str(raised.value)
    assert message.startswith(f"{path}:{line}: ")
    assert words in message
    assert "\n" not in message


def test_two_spellings_with_two_values_fail_with_the_line_of_the_second(write):
    path = write("execution.checkpointing.num-retained: 2\nstate.checkpoints.num-retained: 3\n")
    with pytest.warns(FutureWarning), pytest.raises(ConfigurationError, match=r"yaml:2: options .* keep one"):
        Configuration.from_yaml_file(path)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (
            "restart-strategy:\n  type: none\n  fixed-delay:\n    attempts: 3\n",
            4,
            "'restart-strategy.fixed-delay.attempts' is set but 'restart-strategy.type' is none",
        ),
        (
            "execution.checkpointing.interval: 1 s\nrestart-strategy.exponential-delay.max-backoff: 10 ms\n",
            2,
            "initial-backoff' is 1000 ms and",
        ),
    ],
)
def test_contradiction_found_when_the_job_is_built_names_its_line(write, text, line, words):
    path = write(text)
    taken_over = Configuration()
    taken_over.add_all(Configuration.from_yaml_file(path))
    with pytest.raises(ConfigurationError) as raised:
        job_settings(taken_over)
    assert str(raised.value).startswith(f"{path}:{line}: ")
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("content", "words"), [(None, "cannot be read: No such file"), (b"\xff\xfe\xff", "it is not UTF-8 text")]
)
def test_file_that_cannot_be_read_is_named(tmp_path, content, words):
    path = tmp_path / "config.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError) as raised:
        Configuration.from_yaml_file(os.fspath(path))
    assert str(raised.value).startswith(f"{path}: ")
    assert words in str(raised.value)


def test_control_characters_are_no_yaml(write):
    with pytest.raises(ConfigurationError, match=r"config\.yaml: not YAML: .*not allowed"):
        Configuration.from_yaml_file(write("a: \x00\n"))


def test_flat_file_splits_each_line_at_its_first_colon_with_a_space(tmp_path):
    path = tmp_path / "flink-conf.yaml"
    path.write_text(
        "pipeline.name: a: b\npipeline.global-job-parameters: rate:5\n  rest.port: 0\n"
        "env.java.opts.all: -XX:+UseG1GC -Dx={a}\nhigh-availability.cluster-id: 'quoted'\n"
    )
    found = Configuration.from_flat_file(path)
    assert found.to_dict() == {
        "pipeline.name": "a: b",
        "pipeline.global-job-parameters": "rate:5",
        "rest.port": "0",
        "env.java.opts.all": "-XX:+UseG1GC -Dx={a}",
        "high-availability.cluster-id": "'quoted'",
    }
    assert found.origins()["rest.port"] == ("0", f"{path}:3")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# none\nparallelism.default\n", ":2: not an option: write KEY: VALUE, or remove the line"),
        ("parallelism.default:\n", ":1: not an option"),
        (
            "parallelism.default: 1\nparallelism.default: 2",
            ":2: option 'parallelism.default' stands",
        ),
        ("paralelism.default: 1", ":1: unknown option 'paralelism.default': did you mean"),
        ("parallelism.default: many", ":1: option 'parallelism.default' cannot be 'many'"),
    ],
)
def test_line_of_a_flat_file_that_is_wrong_is_named(tmp_path, text, said):
    path = tmp_path / "flink-conf.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        Configuration.from_flat_file(path)
    assert str(caught.value).startswith(f"{path}{said}")
