"""Every option on every runtime: it changes the job that the runtime gets, or something says why not."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from onceproof import engine
from onceproof.engine import Configuration, ConfigurationError, StreamExecutionEnvironment, Types
from onceproof.engine.configuration import CHECKPOINTS_AFTER_TASKS_FINISH, OPTIONS, CheckpointSettings
from onceproof.engine.configuration.runtimes import (
    REFUSED,
    WITHOUT_EFFECT,
    Runtime,
    options_without_effect,
    runtime_of,
)
from onceproof.engine.connectors.file_sink import FileSink
from onceproof.engine.graph import InvalidJob
from onceproof.engine.runtime.local import execute as execute_locally
from onceproof.engine.runtime.spark.target import spark_storage
from onceproof.engine.runtime.spark_settings import spark_options
from onceproof.engine.runtime.workers import protocol
from onceproof.engine.runtime.workers.protocol import refuse_what_needs_one_process
from onceproof.engine.runtime.workers.worker_coordinator import execute as execute_in_workers
from tests.engine.option_samples import SAMPLES, others_for
from tests.engine.runtime.conftest import Job
from tests.engine.runtime.spark.conftest import here  # noqa: F401 (a fixture)

CHOICE = {
    Runtime.LOCAL: {},
    Runtime.WORKERS: {"taskmanager.numberOfTaskSlots": 2},
    Runtime.SPARK: {"execution.target": "spark"},
}


def described(runtime, given):
    """Return the environment and the graph of a job, refused as the runtime would."""
    basic = {"execution.checkpointing.interval-records": 5, "execution.checkpointing.dir": "checkpoints"}
    options = {**basic, **CHOICE[runtime], **given}
    configuration = Configuration.from_mapping(options)
    env = StreamExecutionEnvironment(configuration)
    numbers = env.from_collection([(1, 2)], Types.TUPLE([Types.LONG(), Types.LONG()]))
    summed = numbers.map(lambda value: value).key_by(lambda value: value[0]).reduce(lambda a, b: a)
    encoder = engine.Encoder.simple_string_encoder()
    summed.sink_to(FileSink.for_row_format("out", encoder).build())
    graph = env.get_job_graph()
    if runtime_of(configuration) is Runtime.SPARK:
        spark_storage(graph)
    elif runtime_of(configuration) is Runtime.WORKERS:
        refuse_what_needs_one_process(graph)
    return env, graph


def seen(env, graph):
    """Return all that the runtime gets to see of the options."""
    retries = [getattr(node.create, "args", ())[1:] for vertex in graph.vertices for node in vertex.operators]
    vertices = [replace(vertex, inputs=(), outputs=(), operators=()) for vertex in graph.vertices]
    without_functions = replace(graph, vertices=tuple(vertices))
    creators = [type(node.create) for vertex in graph.vertices for node in vertex.operators]
    options = spark_options(env.get_configuration())
    spark = (options.master, sorted(options.configuration.items()))
    return without_functions, creators, retries, spark, runtime_of(env.get_configuration())


def has_no_effect(runtime, key):
    return any(option.key == key for options in WITHOUT_EFFECT[runtime].values() for option in options)


def test_there_is_a_value_for_every_option():
    assert list(SAMPLES) == [option.key for option in OPTIONS]
    for option in OPTIONS:
        if option is not CHECKPOINTS_AFTER_TASKS_FINISH:
            assert option.parse(SAMPLES[option.key]) != option.default, option.key
    with pytest.raises(ValueError, match="not supported yet"):
        CHECKPOINTS_AFTER_TASKS_FINISH.parse(False)


@pytest.mark.parametrize("key", SAMPLES)
@pytest.mark.parametrize("runtime", Runtime, ids=lambda runtime: runtime.name.lower())
def test_option_counts_or_is_refused_or_logged_with_a_reason(runtime, key, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # Another test of this process may have opened a database, behind which it forks no workers.
    monkeypatch.setattr(protocol, "has_opened", lambda: False)
    given = {**others_for(key), key: SAMPLES[key]}
    others = {name: value for name, value in given.items() if name != key}
    said = ""
    try:
        env, graph = described(runtime, given)
    except (ConfigurationError, InvalidJob) as error:
        said = str(error)
    if said:
        assert key in said
        assert ": " in said
        assert not has_no_effect(runtime, key)
        return
    logged = dict(options_without_effect(env.get_configuration()))
    if has_no_effect(runtime_of(env.get_configuration()), key):
        assert logged[key]
        return
    assert key not in logged
    without = Runtime.LOCAL if key in CHOICE[runtime] else runtime
    assert seen(env, graph) != seen(*described(without, others)), "the runtime does not see it"


def test_options_of_one_runtime_are_refused_on_another():
    for runtime, options in REFUSED.items():
        for option, harmless in options:
            given = {**CHOICE[runtime], option.key: SAMPLES[option.key]}
            with pytest.raises(ConfigurationError, match=re.escape(option.key)):
                engine.configuration.job_settings(Configuration.from_mapping(given))
            for value in filter(None, harmless):
                engine.configuration.job_settings(Configuration.from_mapping({**given, option.key: value}))


def test_start_of_a_job_logs_what_has_no_effect_there(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    env, _ = described(Runtime.LOCAL, {"heartbeat.interval": "1 s", "heartbeat.timeout": "50 s"})
    with caplog.at_level(logging.WARNING):
        env.execute("quick")
    said = [record.getMessage() for record in caplog.records if "no effect" in record.getMessage()]
    assert said == [
        "job 'quick': option heartbeat.interval has no effect: the job has no workers; see"
        " docs/troubleshooting.md#has-no-effect"
    ]


def test_page_of_options_shows_what_has_no_effect_where():
    page = Path(engine.__file__).parent.joinpath("docs", "options.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| `([^`]+)` \| .+ No effect on (.+)\. \|$", page, re.MULTILINE)
    assert {(key, runtime) for key, runtimes in shown for runtime in runtimes.split(" or ")} == {
        (option.key, runtime.value)
        for runtime, reasons in WITHOUT_EFFECT.items()
        for options in reasons.values()
        for option in options
    }


# What a runtime reads of the settings.

READ_BEFORE = {"forces_unaligned", "monitor", "workers"}
"""The fields that are read when the graph is built and the runtime chosen."""
READ_ELSEWHERE = {"checkpoints_after_tasks_finish", "max_memory_state_bytes", "retention"}
"""Read where some tasks have finished, where checkpoints stay in memory, and where a job does not finish."""
NOT_READ = {
    Runtime.LOCAL: {"heartbeat_interval_ms", "heartbeat_timeout_ms"},
    Runtime.WORKERS: set(),
    Runtime.SPARK: {
        "heartbeat_interval_ms",
        "heartbeat_timeout_ms",
        "channel_buffers",
        "buffer_timeout_ms",
        "lease_timeout_ms",
        "mode",
        "unaligned",
        "aligned_timeout_ms",
    },
}
_reads = {"file": -1}


class WatchedSettings(CheckpointSettings, frozen=True):
    """Settings that write down which of their fields are read, in any process."""

    def __getattribute__(self, name):
        if name in CheckpointSettings.__struct_fields__:
            os.write(_reads["file"], f"{name}\n".encode())
        return super().__getattribute__(name)


@pytest.fixture
def read(tmp_path):
    """Run a job of watched settings with a function; returns the fields that were read."""
    path = tmp_path / "read"
    _reads["file"] = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def run(graph, execute):
        fields = {name: getattr(graph.settings, name) for name in CheckpointSettings.__struct_fields__}
        execute(replace(graph, settings=WatchedSettings(**fields)))
        return set(path.read_text().split())

    yield run
    os.close(_reads["file"])


@pytest.mark.parametrize("runtime", Runtime, ids=lambda runtime: runtime.name.lower())
def test_runtime_reads_every_setting_that_counts_there(runtime, read, tmp_path, here):  # noqa: F811
    job = Job(tmp_path)
    workers = {"execution__local__workers": 2} if runtime is Runtime.WORKERS else {}
    graph = job.graph(**workers)
    execute = {Runtime.LOCAL: execute_locally, Runtime.WORKERS: execute_in_workers, Runtime.SPARK: here}
    found = read(graph, execute[runtime])
    assert job.rows() == job.counts
    fields = set(CheckpointSettings.__struct_fields__)
    assert fields - found - READ_BEFORE - READ_ELSEWHERE <= NOT_READ[runtime]
