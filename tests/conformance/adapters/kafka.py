"""Transactional ids of Kafka: drives the exactly-once sink over brokers with open transactions.

Flink numbers the ids of a pool and aborts those that an earlier run may have used; the engine aborts those
that the brokers list. So the brokers list all of them, and an aborted one is named by Flink's number for it.
"""

from collections.abc import Sequence
from typing import Any

from onceproof.engine.connectors.kafka.transaction_function import KafkaTransactionFunction
from onceproof.engine.connectors.kafka.transactions import (
    CommitAnswer,
    TransactionalId,
    TransactionalProducer,
    TransactionHandle,
    Transactions,
)
from onceproof.engine.connectors.two_phase import Recovery
from onceproof.engine.owner_ids import OWNER_DIGITS

OWNER = "0" * OWNER_DIGITS
EARLIER, NOW = "1.1", "2.1"
TIMEOUT_MS = 60_000


class ListingBrokers(Transactions):
    """Brokers with open transactions, which note what is aborted."""

    def __init__(self, left_open: Sequence[str] = ()) -> None:
        self.left_open = list(left_open)
        self.aborted: list[str] = []

    def check(self, topics: Sequence[str], timeout_ms: int) -> None:
        raise AssertionError("no subtask starts")

    def begin(self, transactional_id: str, timeout_ms: int) -> TransactionalProducer:
        raise AssertionError("no row is written")

    def commit(self, handle: TransactionHandle) -> CommitAnswer:
        raise AssertionError("no checkpoint lists a transaction")

    def abort(self, handle: TransactionHandle) -> None:
        self.aborted.append(handle.transactional_id)

    def open_transactions(self, prefix: str) -> list[TransactionHandle]:
        return [TransactionHandle(name, 1, 0) for name in self.left_open if name.startswith(prefix)]

    def close(self) -> None:
        raise AssertionError("no subtask ends")


def sink(prefix: str, brokers: ListingBrokers) -> KafkaTransactionFunction:
    return KafkaTransactionFunction(lambda: brokers, None, prefix, TIMEOUT_MS)  # type: ignore[arg-type]


def transactional_ids(given: dict[str, Any]) -> dict[str, Any]:
    """Answer which id a subtask uses next, or which it aborts at a start without state."""
    if "safe_scale_down_factor" in given:
        return {"ids": aborted_ids(given)}
    function = sink(given["prefix"], ListingBrokers(given.get("ongoing", ())))
    function.owner, function.subtask, function.attempt = OWNER, given["subtask"], NOW
    function.epoch = given.get("last_checkpoint_id", 0)
    return {"used": function.begin_transaction()[0]}


def aborted_ids(given: dict[str, Any]) -> list[str]:
    """Return what a subtask aborts of a run with more subtasks, in Flink's numbers."""
    prefix, pool = given["prefix"], given["pool_size"]
    earlier_parallelism = given["parallelism"] * given["safe_scale_down_factor"]
    brokers = ListingBrokers(
        [
            str(TransactionalId(prefix, OWNER, subtask, number, EARLIER))
            for subtask in range(earlier_parallelism)
            for number in range(pool)
        ]
    )
    recovery = Recovery(given["subtask"], given["parallelism"], NOW, None, OWNER)
    sink(prefix, brokers).abort_unknown(recovery)
    found = [TransactionalId.parse(name) for name in brokers.aborted]
    return [f"{prefix}-{each.subtask * pool + each.epoch}" for each in found if each is not None]


def departure(given: dict[str, Any]) -> str | None:
    """Return the sentence of compared.md that says why an id is named otherwise than in Flink."""
    if "safe_scale_down_factor" in given:
        return None
    return "A transactional id of `KafkaSink` is used for one transaction"


ADAPTERS = {"kafka.transactional_ids": transactional_ids}
DEPARTURES = {"kafka.transactional_ids": departure}
