"""The textbook's programs from end to end: over a real broker, and a socket of this machine.

No test depends on how fast the machine is. A test waits for what it has caused, until ``PATIENCE_SECONDS``.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from onceproof.engine import (
    CheckpointedFunction,
    CheckpointingMode,
    Configuration,
    ExternalizedCheckpointRetention,
    JobClient,
    MapFunction,
)
from onceproof.harness.services.kafka_broker import KafkaBroker
from onceproof.scenarios.textbook import (
    _kafka_topics,
    kafka_pass_through,
    kafka_windows,
    page_views,
    poisoned_record,
    socket_to_kafka,
)
from tests.engine.connectors.kafka.topics import committed_rows, fill, new_topic
from tests.patience import PATIENCE_SECONDS

INTERVAL_MS = 100


@pytest.fixture
def servers(kafka_broker: KafkaBroker) -> str:
    return kafka_broker.address


def wait_until(is_so: Callable[[], bool], waits_for: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, waits_for
        time.sleep(0.05)


def environment(folder: Path, restored: str | None = None, **options: str) -> Any:
    """Return the programs' environment, with checkpoints in a folder of the test."""
    given = {"execution.checkpointing.dir": str(folder), **options}
    if restored is not None:
        given["execution.state-recovery.path"] = restored
    return _kafka_topics.environment(Configuration.from_mapping(given), INTERVAL_MS)


def end(client: JobClient) -> None:
    """Cancel a job that reads without end, and wait until it is gone."""
    client.cancel().result(PATIENCE_SECONDS)
    with suppress(Exception):
        client.get_job_execution_result().result(PATIENCE_SECONDS)


def rows_of(servers: str, topic: str, isolation: str) -> list[str]:
    """Return the rows of a topic that a reader of this isolation level sees now."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "outside",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    rows = []
    while True:
        message = consumer.poll(PATIENCE_SECONDS)
        assert message is not None, f"the end of {topic} does not come"
        if message.error() is not None:
            break
        rows.append(message.value().decode())
    consumer.close()
    return rows


def committed_offset(servers: str, group: str, topic: str) -> int:
    """Return the offset that a group has committed for the only partition of a topic."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    (place,) = consumer.committed([TopicPartition(topic, 0)], PATIENCE_SECONDS)
    consumer.close()
    return place.offset


# Pass-through.


def test_the_programs_have_the_settings_of_the_textbook() -> None:
    env = _kafka_topics.environment(interval_ms=5_000)
    settings = env.get_checkpoint_config()
    assert settings.get_checkpoint_interval() == 5_000
    assert settings.get_checkpointing_mode() == CheckpointingMode.EXACTLY_ONCE
    assert settings.get_min_pause_between_checkpoints() == 500
    assert settings.get_checkpoint_timeout() == 60_000
    assert settings.get_max_concurrent_checkpoints() == 1
    kept = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    assert settings.get_externalized_checkpoint_retention() == kept
    configuration = env.get_configuration()
    assert configuration.get_string("state.backend.type", "") == "rocksdb"
    assert configuration.get_boolean("execution.checkpointing.incremental", False)


def test_texts_pass_once_before_and_after_the_job_is_cancelled(servers: str, tmp_path: Path) -> None:
    read, written = new_topic(servers, 1), new_topic(servers, 1)
    fill(servers, read, ["a", "b", "c"], 1)
    env = environment(tmp_path)
    kafka_pass_through.build(env, servers, read, written)
    client = env.execute_async("pass-through")
    assert committed_rows(servers, written, 3) == ["a", "b", "c"]
    wait_until(
        lambda: committed_offset(servers, kafka_pass_through.JOB, read) == 3,
        "the offset is committed to the group",
    )
    end(client)
    retained = max(tmp_path.glob("*/chk-*"), key=lambda path: int(path.name.removeprefix("chk-")))
    fill(servers, read, ["d"], 1)
    env = environment(tmp_path, str(retained))
    kafka_pass_through.build(env, servers, read, written)
    client = env.execute_async("pass-through")
    assert committed_rows(servers, written, 4) == ["a", "b", "c", "d"]
    end(client)


def test_a_transaction_of_an_hour_is_refused_as_the_job_starts(servers: str, tmp_path: Path) -> None:
    read, written = new_topic(servers, 1), new_topic(servers, 1)
    env = environment(tmp_path)
    kafka_pass_through.build(env, servers, read, written, transaction_timeout_ms=3_600_000)
    with pytest.raises(Exception, match=r"transaction\.timeout\.ms.*transaction\.max\.timeout\.ms"):
        env.execute("pass-through")


# The poisoned record.


def test_a_record_that_fails_once_is_replayed_and_seen_once(servers: str, tmp_path: Path) -> None:
    read, written = new_topic(servers, 1), new_topic(servers, 1)
    records = [{"id": number, "name": f"name{number}"} for number in range(1, 8)]
    fill(servers, read, map(json.dumps, records), 1)
    env = environment(tmp_path)
    poisoned_record.build(env, servers, read, written)
    client = env.execute_async("poisoned record")
    assert list(map(json.loads, committed_rows(servers, written, len(records)))) == records
    end(client)


# From Kafka by windows into two topics.


def views_in(servers: str) -> str:
    """Return a topic of five partitions with the views of the example."""
    topic = new_topic(servers, page_views.PARTITIONS)
    texts = [",".join(map(str, view)) for view in page_views.views_of_partition()]
    in_turn = [text for text in texts for _ in range(page_views.PARTITIONS)]
    fill(servers, topic, in_turn, page_views.PARTITIONS)
    return topic


class FailingWithItsPart(MapFunction, CheckpointedFunction):
    """Stands before the second sink, and fails with its part of the first checkpoint that has rows.

    Args:
        servers: the brokers.
        topic_a: the topic of the first sink.
    """

    def __init__(self, servers: str, topic_a: str) -> None:
        self._servers = servers
        self._topic_a = topic_a
        self._rows = 0

    def map(self, value: str) -> str:
        self._rows += 1
        return value

    def initialize_state(self, context: object) -> None:
        pass

    def snapshot_state(self, context: object) -> None:
        if self._rows:
            # The barrier comes from the task of the first sink, which has done its part.
            written = rows_of(self._servers, self._topic_a, "read_uncommitted")
            raise RuntimeError(f"the second sink fails, the first one has written {sorted(written)}")


def test_neither_topic_shows_what_the_second_sink_could_not_write(servers: str, tmp_path: Path) -> None:
    read, a, b = views_in(servers), new_topic(servers, 1), new_topic(servers, 1)
    first_hour = ["pv(app1,50)", "pv(app2,25)"]
    env = environment(tmp_path, **{"restart-strategy.fixed-delay.attempts": "0"})
    kafka_windows.build(env, servers, read, a, b, FailingWithItsPart(servers, a))
    with pytest.raises(Exception, match=re.escape(f"the first one has written {first_hour}")):
        env.execute("page views")
    for topic in (a, b):
        assert rows_of(servers, topic, "read_committed") == []
    # The next start aborts what the first sink has written, which stands before the rows that come now.
    env = environment(tmp_path)
    kafka_windows.build(env, servers, read, a, b)
    client = env.execute_async("page views")
    # Event time begins anew after a restore: it takes one more view of each partition to close the hour.
    fill(
        servers,
        read,
        [f"{page_views.HOUR_MS + 60_000},app1,user1"] * page_views.PARTITIONS,
        page_views.PARTITIONS,
    )
    for topic in (a, b):
        assert sorted(committed_rows(servers, topic, 2)) == first_hour
    end(client)
    for topic in (a, b):
        assert sorted(rows_of(servers, topic, "read_committed")) == first_hour


# From a socket into Kafka.


@pytest.fixture
def serve() -> Iterator[Callable[..., int]]:
    """Return a function that serves parts, one connection after another; it returns the port.

    A part is sent as soon as its event is set. The last connection stays open until the test ends.
    """
    over = threading.Event()
    servers: list[tuple[socket.socket, threading.Thread]] = []

    def start(*connections: Sequence[tuple[threading.Event, str]]) -> int:
        listening = socket.create_server(("127.0.0.1", 0))
        listening.settimeout(PATIENCE_SECONDS)

        def answer() -> None:
            for number, parts in enumerate(connections):
                connection, _ = listening.accept()
                with connection:
                    for event, text in parts:
                        event.wait(PATIENCE_SECONDS)
                        connection.sendall(text.encode())
                    # The client closes a connection that has failed.
                    if number + 1 < len(connections):
                        connection.settimeout(PATIENCE_SECONDS)
                        with suppress(ConnectionError):
                            while connection.recv(1):
                                pass
                    else:
                        over.wait(PATIENCE_SECONDS)

        thread = threading.Thread(target=answer)
        thread.start()
        servers.append((listening, thread))
        return int(listening.getsockname()[1])

    yield start
    over.set()
    for listening, thread in servers:
        thread.join(PATIENCE_SECONDS)
        listening.close()


def test_texts_of_a_socket_are_lost_at_most_since_the_checkpoint_and_never_repeated(
    servers: str, tmp_path: Path, serve: Callable[..., int], caplog: pytest.LogCaptureFixture
) -> None:
    written = new_topic(servers, 1)
    at_once, is_complete = threading.Event(), threading.Event()
    at_once.set()
    port = serve([(at_once, "a\nb\n"), (is_complete, "c\nboom\n")], [(at_once, "d\ne\n")])

    def fail(text: str) -> str:
        if text == "boom":
            raise RuntimeError("the job fails once")
        return text

    env = environment(tmp_path)
    socket_to_kafka.build(env, "127.0.0.1", port, servers, written, fail)
    client = env.execute_async("socket to Kafka")
    assert committed_rows(servers, written, 2) == ["a", "b"]
    # A checkpoint holds a and b; c and boom come behind it.
    is_complete.set()
    wait_until(
        lambda: {"d", "e"} <= set(rows_of(servers, written, "read_committed")), "the next connection is read"
    )
    end(client)
    rows = rows_of(servers, written, "read_committed")
    assert rows in (["a", "b", "d", "e"], ["a", "b", "c", "d", "e"])
    (warning,) = [each.getMessage() for each in caplog.records if "cannot be replayed" in each.getMessage()]
    assert "source 'socket' cannot be replayed" in warning
    assert "sink 'topic'" in warning


@pytest.mark.parametrize("program", [kafka_pass_through, kafka_windows, poisoned_record, socket_to_kafka])
def test_missing_arguments_get_one_line(program: Any) -> None:
    with pytest.raises(SystemExit, match=r"^give .*SERVERS"):
        program.main([])
