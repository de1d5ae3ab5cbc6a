"""The Kafka sink against a real broker, with attempts that a crash has ended left as they are."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from onceproof.engine import (
    DeliveryGuarantee,
    FlinkKafkaProducer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    Semantic,
    SimpleStringSchema,
    TransactionLost,
)
from onceproof.engine.connectors.kafka.broker_transactions import REQUEST_TIMEOUT_S, BrokerTransactions
from onceproof.engine.connectors.kafka.kafka_errors import (
    KafkaUnavailable,
    MissingTopic,
    RejectedRow,
    UnusableSetting,
)
from onceproof.engine.connectors.kafka.kafka_sink import KafkaSinkBuilder
from onceproof.engine.connectors.kafka.transaction_function import KafkaTransactionFunction
from onceproof.engine.connectors.kafka.transactions import ProducerRecord, TransactionalId
from onceproof.engine.connectors.kafka.wire_protocol import BrokerConnection
from onceproof.engine.connectors.two_phase import CommitFailed
from onceproof.engine.functions import RuntimeContext
from onceproof.harness.services.kafka_broker import KafkaBroker
from onceproof.harness.services.service import free_port
from tests.engine.connectors.kafka.topics import committed_messages, committed_rows, fill, new_topic
from tests.patience import PATIENCE_SECONDS


class Time:
    """The context of a record with a time."""

    def __init__(self, timestamp_ms: int | None = None) -> None:
        self.timestamp = lambda: timestamp_ms


def serializer(topic: str) -> KafkaRecordSerializationSchema:
    schema = SimpleStringSchema()
    return (
        KafkaRecordSerializationSchema.builder()
        .set_topic(topic)
        .set_value_serialization_schema(schema)
        .build()
    )


def builder(servers: str, topic: str, **properties: Any) -> KafkaSinkBuilder:
    properties = {"transaction.timeout.ms": 60_000, **properties}
    chosen = KafkaSink.builder().set_bootstrap_servers(servers).set_record_serializer(serializer(topic))
    chosen.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix("app-1")
    for name, value in properties.items():
        chosen.set_property(name, value)
    return chosen


def open_ids(servers: str, text: str = "app-1") -> list[str]:
    cluster = BrokerTransactions({"bootstrap.servers": servers})
    found = [handle.transactional_id for handle in cluster.open_transactions(text)]
    cluster.close()
    return found


@pytest.fixture
def servers(kafka_broker: KafkaBroker) -> str:
    return kafka_broker.address


class Created:
    """Makes functions, and closes all of them at the end, also those that a crash has ended."""

    def __init__(self, sink: KafkaSink) -> None:
        self._sink = sink
        self.functions: list[Any] = []

    def __call__(self) -> Any:
        self.functions.append(self._sink.create_function())
        return self.functions[-1]


@pytest.fixture
def started(sink_job: Any) -> Iterator[Callable[..., Any]]:
    """Makes a job of a sink."""
    all_created = []

    def make(sink: KafkaSink, job_id: str = "") -> Any:
        created = Created(sink)
        all_created.append(created)
        return sink_job(created, job_id)

    yield make
    for created in all_created:
        for function in created.functions:
            function.close()


@pytest.fixture
def job(servers: str, started: Any) -> Callable[..., Any]:
    """Makes a job whose sink writes to a topic."""
    return lambda topic, **properties: started(builder(servers, topic, **properties).build(), topic)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def write(function: Any, *values: str) -> None:
    for value in values:
        function.invoke(value, Time())


def test_rows_are_visible_with_their_checkpoint(servers: str, job: Any) -> None:
    topic = new_topic(servers, 1)
    made = job(topic)
    function = made.start()
    write(function, "a", "b")
    made.snapshot(1)
    assert committed_rows(servers, topic) == []
    write(function, "c")
    made.notify(1)
    assert committed_rows(servers, topic, 2) == ["a", "b"]
    made.snapshot(2)
    made.notify(2)
    assert committed_rows(servers, topic, 3) == ["a", "b", "c"]


def test_idle_subtask_begins_no_transaction(servers: str, job: Any) -> None:
    topic = new_topic(servers)
    made = job(topic)
    made.start()
    made.snapshot(1)
    made.notify(1)
    assert [name for name in open_ids(servers) if made.functions[0].owner in name] == []


def test_crash_before_the_commit_is_committed_by_the_next_attempt(servers: str, job: Any) -> None:
    topic = new_topic(servers, 1)
    made = job(topic)
    write(made.start(2), "a")
    write(made.functions[1], "b")
    made.snapshot(1)
    write(made.functions[0], "never committed")
    made.start(1, restored=1)
    assert sorted(committed_rows(servers, topic, 2)) == ["a", "b"]
    # Again, as after a crash that came right behind the commits.
    made.start(2, restored=1)
    assert sorted(committed_rows(servers, topic, 2)) == ["a", "b"]


def test_smaller_parallelism_aborts_what_all_old_subtasks_left_open(servers: str, job: Any) -> None:
    topic = new_topic(servers, 1)
    made = job(topic)
    made.start(3)
    made.snapshot(1)
    made.notify(1)
    for function in made.functions:
        write(function, *["lingering"] * 300)
    owner = made.functions[0].owner
    wait_until(lambda: len([name for name in open_ids(servers) if owner in name]) == 3)
    made.start(1, restored=1)
    assert [name for name in open_ids(servers) if owner in name] == []
    fill(servers, topic, ["behind them"], 1)
    assert committed_rows(servers, topic, 1) == ["behind them"]


def test_restart_leaves_transactions_of_other_jobs_and_subtasks_alone(
    servers: str, job: Any, started: Any
) -> None:
    topic = new_topic(servers, 1)
    made = job(topic)
    neighbour = started(builder(servers, topic).build(), "another job with this prefix")
    longer = started(builder(servers, topic).set_transactional_id_prefix("app-1-2").build(), topic)
    for other in (neighbour, longer):
        write(other.start(), "of a neighbour")
        other.snapshot(1)
    made.start(2)
    write(made.functions[1], "pre-committed by subtask 1")
    made.snapshot(1)
    # Of two new subtasks, 0 restores what 1 has written, and 1 must not take it for unlisted.
    made.start(2, restored=1)
    neighbour.notify(1)
    longer.notify(1)
    assert sorted(committed_rows(servers, topic, 3)) == [
        "of a neighbour",
        "of a neighbour",
        "pre-committed by subtask 1",
    ]


def test_zombie_that_goes_on_writing_adds_nothing(servers: str, job: Any) -> None:
    topic = new_topic(servers, 1)
    made = job(topic)
    zombie = made.start()
    write(zombie, "a")
    made.snapshot(1)
    made.start(1, restored=1)
    # It was only slow, and writes when the next attempt has begun: behind a checkpoint that is aborted.
    write(zombie, "of a dead attempt")
    try:
        zombie.pre_commit(zombie.current_transaction())
    except KafkaUnavailable:
        # The next attempt has aborted its transaction before it could write: it is fenced.
        assert committed_rows(servers, topic, 1) == ["a"]
    else:
        assert [name for name in open_ids(servers) if zombie.owner in name] != []
    made.snapshot(2)
    made.notify(2)
    assert [name for name in open_ids(servers) if zombie.owner in name] == []
    assert committed_rows(servers, topic, 1) == ["a"]


def test_killed_broker_keeps_what_is_pre_committed(kafka_broker: KafkaBroker, job: Any) -> None:
    topic = new_topic(kafka_broker.address, 1)
    made = job(topic, **{"request.timeout.ms": 3000})
    write(made.start(), "a")
    made.snapshot(1)
    kafka_broker.kill()
    with pytest.raises(CommitFailed, match="no Kafka broker answers"):
        made.notify(1)
    kafka_broker.start()
    made.start(1, restored=1)
    assert committed_rows(kafka_broker.address, topic, 1) == ["a"]


def test_timed_out_transaction_is_an_error_that_names_its_rows(servers: str, job: Any) -> None:
    topic = new_topic(servers, 1)
    made = job(topic, **{"transaction.timeout.ms": 1000})
    write(made.start(), "first", "second", "third")
    made.snapshot(1)
    first = f"{made.functions[0].owner}-0-0-"
    wait_until(lambda: not any(first in name for name in open_ids(servers)))
    said = rf"3 rows for {topic} of subtask 0 after checkpoint 0 are lost, from b'first' to b'third'"
    with pytest.raises(CommitFailed, match=said):
        made.notify(1)
    with pytest.raises(TransactionLost, match=r"transaction\.timeout\.ms passed before the commit"):
        made.start(1, restored=1)
    assert committed_rows(servers, topic) == []


def test_transaction_taken_by_another_producer_is_an_error(servers: str, job: Any) -> None:
    topic = new_topic(servers, 1)
    made = job(topic)
    write(made.start(), "a")
    made.snapshot(1)
    [transaction] = made.functions[0].pending_transactions()
    cluster = BrokerTransactions({"bootstrap.servers": servers})
    usurper = cluster.begin(transaction[0], 60_000)
    usurper.produce([ProducerRecord(topic, b"never committed")])
    handle = usurper.pre_commit()
    with pytest.raises(CommitFailed, match="another producer has taken its id"):
        made.notify(1)
    cluster.abort(handle)
    usurper.close()
    cluster.close()


def test_transaction_that_ends_too_early_fails_its_checkpoint(servers: str, job: Any) -> None:
    topic = new_topic(servers, 1)
    made = job(topic)
    function = made.start()
    write(function, *["row"] * 300)
    cluster = BrokerTransactions({"bootstrap.servers": servers})
    wait_until(lambda: any(function.owner in name for name in open_ids(servers)))
    [handle] = cluster.open_transactions(f"app-1-{function.owner}-")
    cluster.abort(handle)
    with pytest.raises(KafkaUnavailable, match=r"fenced|not open any more"):
        made.snapshot(1)
    cluster.close()


@pytest.mark.parametrize(
    ("properties", "error", "said"),
    [
        (
            {"transaction.timeout.ms": 3_600_000},
            UnusableSetting,
            r"transaction\.timeout\.ms is 3600000, above the broker's maximum of 900000",
        ),
        ({"security.protocol": "SASL_SSL"}, UnusableSetting, r"call set_write_ahead\(True\)"),
        ({"bootstrap.servers": "here"}, UnusableSetting, "give host:port"),
    ],
    ids=["a timeout above the broker's maximum", "a broker behind SASL", "no port"],
)
def test_bad_setting_is_a_line_before_the_first_record(
    servers: str, job: Any, properties: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        job(new_topic(servers), **properties).start()


def test_unknown_property_is_named(servers: str, job: Any) -> None:
    made = job(new_topic(servers), **{"linger.mss": 5})
    function = made.start()
    with pytest.raises(UnusableSetting, match=r"property 'linger\.mss' = 5 of the Kafka client is refused"):
        write(function, *["row"] * 300)


def test_missing_topic_is_named_before_the_first_record(servers: str, job: Any) -> None:
    with pytest.raises(MissingTopic, match=r"topic 'nowhere' does not exist at 127\.0\.0\.1"):
        job("nowhere").start()


def test_server_that_is_down_is_a_line_at_once(started: Any) -> None:
    port = free_port()
    for guarantee in DeliveryGuarantee:
        sink = builder(f"127.0.0.1:{port}", "any").set_delivery_guarantee(guarantee).build()
        with pytest.raises(KafkaUnavailable, match=f"no Kafka broker answers at 127.0.0.1:{port}"):
            started(sink).start()


def test_row_that_is_too_large_is_shown(servers: str, job: Any) -> None:
    topic = new_topic(servers, 1, {"max.message.bytes": "1000"})
    made = job(topic)
    write(made.start(), "x" * 5000)
    with pytest.raises(RejectedRow, match=f"of 5000 bytes for topic '{topic}'.*make rows smaller"):
        made.snapshot(1)


def test_rows_of_a_write_ahead_sink_are_written_once(servers: str, started: Any) -> None:
    topic = new_topic(servers, 1)
    sink = builder(servers, topic).set_write_ahead().build()
    made = started(sink)
    function = made.start()
    write(function, "a", "b")
    made.snapshot(1)
    assert committed_rows(servers, topic) == []
    made.notify(1)
    assert committed_rows(servers, topic, 2) == ["a", "b"]
    # The checkpoint still lists the batch: the crash came before the next one.
    restored = made.start(1, restored=1)
    assert restored.pending_batches() == []
    write(restored, "c")
    made.snapshot(2)
    [batch] = restored.pending_batches()
    assert restored.send_batch(batch)
    # A process that has lost the job sends it, too.
    assert restored.send_batch(batch)
    made.notify(2)
    assert committed_rows(servers, topic, 3) == ["a", "b", "c"]


def test_at_least_once_waits_for_rows_at_the_checkpoint(servers: str, started: Any) -> None:
    topic = new_topic(servers, 1)
    sink = builder(servers, topic).set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE).build()
    made = started(sink)
    function = made.start()
    write(function, *map(str, range(500)))
    made.snapshot(1)
    assert committed_rows(servers, topic, 500) == list(map(str, range(500)))


def test_rows_have_keys_headers_times_and_topics(servers: str, started: Any) -> None:
    topics = {name: new_topic(servers, 2) for name in ("even", "odd")}
    schema = (
        KafkaRecordSerializationSchema.builder()
        .set_topic_selector(lambda value: topics["odd" if int(value) % 2 else "even"])
        .set_key_serialization_schema(SimpleStringSchema())
        .set_value_serialization_schema(SimpleStringSchema())
        .set_header_provider(lambda value: (("length", str(len(value)).encode()), ("none", None)))
        .build()
    )
    sink = builder(servers, "").set_record_serializer(schema).build()
    made = started(sink)
    function = made.start()
    for number in range(20):
        function.invoke(str(number), Time(1_000_000 + number))
    made.snapshot(1)
    made.notify(1)
    messages = committed_messages(servers, topics["odd"], 10)
    assert sorted(int(message.value()) for message in messages) == list(range(1, 20, 2))
    for message in messages:
        assert message.key() == message.value()
        assert message.timestamp()[1] == 1_000_000 + int(message.value())
        assert message.headers() == [("length", str(len(message.value())).encode()), ("none", None)]


def test_older_sink_promises_what_its_semantic_says(servers: str, started: Any) -> None:
    topic = new_topic(servers, 1)
    with pytest.warns(DeprecationWarning, match="use KafkaSink"):
        producer = FlinkKafkaProducer(
            topic,
            SimpleStringSchema(),
            {"bootstrap.servers": servers, "transaction.timeout.ms": "60000"},
            semantic=Semantic.EXACTLY_ONCE,
        )
    producer.set_write_timestamp_to_kafka(True).ignore_failures_after_transaction_timeout()
    made = started(producer.as_sink())
    function = made.start()
    function.invoke("a", Time(77_000))
    made.snapshot(1)
    assert committed_rows(servers, topic) == []
    made.notify(1)
    [message] = committed_messages(servers, topic, 1)
    assert (message.value(), message.timestamp()[1]) == (b"a", 77_000)


class CountedSweeps(KafkaTransactionFunction):
    """Counts how often it looks for open transactions of earlier attempts."""

    sweeps = 0

    def abort_unlisted(self) -> None:
        self.sweeps += 1


def test_broker_that_has_not_registered_yet_counts_as_away(
    servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a broker answers for a moment after its start, before its cluster knows it.
    monkeypatch.setattr(BrokerConnection, "_metadata", lambda self, topics: ([], []))
    cluster = BrokerTransactions({"bootstrap.servers": servers})
    for ask in (lambda: cluster.check((), 1000), lambda: cluster.open_transactions("any")):
        with pytest.raises(KafkaUnavailable, match="has registered yet"):
            ask()
    cluster.close()


def test_clock_that_is_set_back_does_not_put_off_the_search_for_open_transactions() -> None:
    now_ms = [10_000_000]
    cluster = BrokerTransactions({"bootstrap.servers": "127.0.0.1:1"})
    serializer = KafkaRecordSerializationSchema.builder().set_topic("t")
    schema = serializer.set_value_serialization_schema(SimpleStringSchema()).build()
    function = CountedSweeps(lambda: cluster, schema, "prefix", 600_000)
    function.set_runtime_context(
        RuntimeContext(
            task_name="sink",
            subtask=0,
            parallelism=1,
            max_parallelism=1,
            attempt="1.1",
            clock=lambda: now_ms[0],
            pass_point=lambda point, checkpoint_id: None,
        )
    )
    sweeps = []
    for passed_ms in (0, 1_000, 30_000, -3_600_000, 1_000):
        now_ms[0] += passed_ms
        function.notify_checkpoint_complete(1)
        sweeps.append(function.sweeps)
    assert sweeps == [1, 1, 2, 3, 3]


def test_thread_that_waits_for_a_broker_ends_when_its_task_is_dropped() -> None:
    cluster = BrokerTransactions({"bootstrap.servers": f"127.0.0.1:{free_port()}", "log_level": 0})
    transaction = cluster.begin("dropped-0", 600_000)
    [thread] = [each for each in threading.enumerate() if each.name == "begin dropped-0"]
    del transaction
    gc.collect()
    begun = time.monotonic()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()
    # Not only when the request is given up.
    assert time.monotonic() - begun < REQUEST_TIMEOUT_S / 2


@pytest.mark.parametrize("prefix", ["app-1", "app", "x-0123456789abcdef-3-4-1.1"])
def test_transactional_id_is_read_by_its_whole_form(prefix: str) -> None:
    name = TransactionalId(prefix, "0123456789abcdef", 10, 7, "3.2")
    assert TransactionalId.parse(str(name)) == name


@pytest.mark.parametrize("text", ["app-1", "app-1-0123456789abcde-1-1-1.1", "app-0123456789abcdef-1-x-1.1"])
def test_id_of_another_form_is_none_of_the_sink(text: str) -> None:
    assert TransactionalId.parse(text) is None


@pytest.mark.parametrize("missing", ["servers", "serializer", "topic", "schema"])
def test_builder_says_what_is_missing(missing: str) -> None:
    calls = {
        "servers": KafkaSink.builder().build,
        "serializer": KafkaSink.builder().set_bootstrap_servers("localhost:9092").build,
        "topic": KafkaRecordSerializationSchema.builder().build,
        "schema": KafkaRecordSerializationSchema.builder().set_topic("t").build,
    }
    with pytest.raises(UnusableSetting, match="call set_"):
        calls[missing]()
