"""The model of Kafka's transactions answers as a real broker does: the same random calls on both."""

from __future__ import annotations

import os
from random import Random

import pytest

from onceproof.engine.connectors.kafka.broker_transactions import BrokerTransactions, OpenTransaction
from onceproof.engine.connectors.kafka.transactions import (
    ProducerRecord,
    TransactionalProducer,
    TransactionHandle,
    Transactions,
)
from onceproof.harness.model.history import TRANSACTION_VISIBLE, History
from onceproof.harness.services.kafka_broker import KafkaBroker
from onceproof.harness.systems.simulation.agenda import Clock
from onceproof.harness.systems.simulation.external_system import TransactionalSystem
from onceproof.harness.systems.simulation.kafka_transactions import ModelTransactions
from tests.engine.connectors.kafka.topics import committed_rows, new_topic

IDS = ("a", "b", "ab")
KINDS = ("write", "write", "begin", "commit", "commit", "commit", "abort", "open")
SEQUENCES = 4
CALLS = 18
TIMEOUT_MS = 60_000


class Calls:
    """Makes calls of one cluster. What two clusters call otherwise, producers and handles, goes by number."""

    def __init__(self, cluster: Transactions, topic: str, prefix: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._prefix = prefix
        self._producers: list[TransactionalProducer] = []
        self._handles: list[TransactionHandle] = []

    def answer(self, kind: str, name: str, number: int) -> object:
        match kind:
            case "write":
                producer = self._begin(name)
                rows = [f"{number}.{row}".encode() for row in range(2)]
                producer.produce([ProducerRecord(self._topic, row, None, 0) for row in rows])
                self._handles.append(producer.pre_commit())
                return "written"
            case "begin":
                self._begin(name)
                return self._open()
            case "open":
                return self._open()
            case "commit" if self._handles:
                return self._cluster.commit(self._handles[number % len(self._handles)])
            case "abort" if self._handles:
                self._cluster.abort(self._handles[number % len(self._handles)])
                return self._open()
        return None

    def close(self) -> None:
        for producer in self._producers:
            producer.close()
        for handle in self._cluster.open_transactions(self._prefix):
            self._cluster.abort(handle)
        self._cluster.close()

    def _open(self) -> list[str]:
        found = self._cluster.open_transactions(self._prefix)
        return sorted(handle.transactional_id for handle in found)

    def _begin(self, name: str) -> TransactionalProducer:
        producer = self._cluster.begin(f"{self._prefix}{name}", TIMEOUT_MS)
        self._producers.append(producer)
        # The real one takes its id in a thread.
        if isinstance(producer, OpenTransaction):
            producer.wait_until_begun()
        return producer


def calls_of(seed: int) -> list[tuple[str, str, int]]:
    random = Random(seed)

    def choose(items: tuple[str, ...]) -> str:
        return items[int(random.random() * len(items))]

    return [(choose(KINDS), choose(IDS), int(random.random() * 1000)) for _ in range(CALLS)]


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_model_and_broker_give_the_same_answers(kafka_broker: KafkaBroker, seed: int) -> None:
    servers = kafka_broker.address
    topic = new_topic(servers, 1)
    prefix = f"model-{os.getpid()}-{seed}-"
    history = History()
    model = Calls(ModelTransactions(TransactionalSystem(history, Clock())), topic, prefix)
    real = Calls(BrokerTransactions({"bootstrap.servers": servers, "linger.ms": 0}), topic, prefix)
    try:
        for place, call in enumerate(calls_of(seed)):
            assert model.answer(*call) == real.answer(*call), (place, call)
    finally:
        model.close()
        real.close()
    seen = visible(history)
    assert sorted(committed_rows(servers, topic, len(seen))) == seen


def visible(history: History) -> list[str]:
    shown = [event[3]["rows"] for event in history.events if event[1] == TRANSACTION_VISIBLE]
    return sorted(row.decode() for rows in shown for row in rows)


def test_sequences_have_every_kind_of_answer() -> None:
    answers = set()
    for seed in range(SEQUENCES):
        model = Calls(ModelTransactions(TransactionalSystem(History(), Clock())), "t", "p-")
        answers |= {str(model.answer(*call)) for call in calls_of(seed)}
    for needed in ("COMMITTED", "ABORTED", "FENCED", "written", "[]"):
        assert any(needed in answer for answer in answers), needed
