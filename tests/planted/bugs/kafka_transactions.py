"""Mutants of Kafka at both ends: offsets, ids, the abort of lingering transactions, answers to commits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine.connectors.kafka.kafka_errors import KafkaUnavailable
from onceproof.engine.connectors.kafka.kafka_source import KafkaSource
from onceproof.engine.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from onceproof.engine.connectors.kafka.transaction_function import KafkaTransactionFunction
from onceproof.engine.connectors.kafka.transactions import CommitAnswer, TransactionalId, TransactionHandle
from onceproof.engine.connectors.two_phase import Recovery
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant
from onceproof.harness.systems.simulation.kafka_transactions import ModelTransactions
from onceproof.harness.systems.simulation.simulated_io import SimulatedTopic

FAMILIES = ("kafka_rows",)
WITH_INPUT = ("kafka_to_kafka",)


@mutant(
    id="one-transactional-id-for-all-checkpoints",
    breaks="no_error",
    summary="a subtask uses one transactional id for all its checkpoints",
    families=FAMILIES,
)
def one_transactional_id_for_all_checkpoints(reached: Reached) -> Iterator[None]:
    """The producer that takes the id again aborts what is pre-committed under it."""
    begin = KafkaTransactionFunction.begin_transaction

    def same_name(self: KafkaTransactionFunction) -> list[Any]:
        epoch, self.epoch = self.epoch, 0
        try:
            transaction = begin(self)
        finally:
            self.epoch = epoch
        if epoch and self.pending_transactions():
            reached()
        return transaction

    with replaced(KafkaTransactionFunction, "begin_transaction", same_name):
        yield


@mutant(
    id="lingering-transactions-of-missing-subtasks-stay",
    breaks="no_leaks",
    summary="a subtask aborts lingering transactions of its own number only, also after a rescale",
    families=FAMILIES,
)
def lingering_transactions_of_missing_subtasks_stay(reached: Reached) -> Iterator[None]:
    """Readers of committed rows wait for them until their timeout."""
    may_abort = Recovery.may_abort

    def of_the_same_number(self: Recovery, subtask: int, epoch: int, attempt: str, owner: str) -> bool:
        allowed = may_abort(self, subtask, epoch, attempt, owner)
        if allowed and subtask != self.subtask:
            reached()
            return False
        return allowed

    with replaced(Recovery, "may_abort", of_the_same_number):
        yield


@mutant(
    id="transactional-prefix-of-the-owner-is-enough",
    breaks="no_error",
    summary="a restored subtask aborts every open transaction whose id begins with prefix and owner",
    families=FAMILIES,
)
def transactional_prefix_of_the_owner_is_enough(reached: Reached) -> Iterator[None]:
    """Another subtask has yet to commit those that the checkpoint lists."""

    def all_of_the_owner(self: KafkaTransactionFunction, recovery: Recovery) -> None:
        cluster = self._cluster()
        for handle in cluster.open_transactions(f"{self._prefix}-{recovery.owner}-"):
            name = TransactionalId.parse(handle.transactional_id)
            if name is not None and not recovery.may_abort(
                name.subtask, name.epoch, name.attempt, name.owner
            ):
                reached()
            cluster.abort(handle)

    with replaced(KafkaTransactionFunction, "abort_unknown", all_of_the_owner):
        yield


@mutant(
    id="commit-repeated-as-a-new-transaction",
    breaks="no_error",
    summary="a commit that may have been carried out is repeated under the id taken anew",
    families=FAMILIES,
)
def commit_repeated_as_a_new_transaction(reached: Reached) -> Iterator[None]:
    """To take the id aborts the transaction, or makes a committed one look like a lost one."""
    recover = KafkaTransactionFunction.commit

    def anew(self: KafkaTransactionFunction, transaction: list[Any]) -> None:
        if transaction[3]:
            reached()
            self._cluster().begin(transaction[0], self._transaction_timeout_ms)
        recover(self, transaction)

    with replaced(KafkaTransactionFunction, "recover_and_commit", anew):
        yield


@mutant(
    id="aborted-transaction-taken-for-committed",
    breaks="exactly_once",
    summary="an answer that a transaction was aborted is taken for an earlier success, and it was aborted",
    families=FAMILIES,
)
def aborted_transaction_taken_for_committed(reached: Reached) -> Iterator[None]:
    """As a broker whose timeouts are short, every third transaction of a restore has timed out."""
    commit = ModelTransactions.commit
    seen = [0]

    def late(self: ModelTransactions, handle: TransactionHandle) -> CommitAnswer:
        seen[0] += 1
        if seen[0] % 3 == 0:
            self.abort(handle)
        answer = commit(self, handle)
        if answer is CommitAnswer.ABORTED:
            reached()
        return CommitAnswer.COMMITTED

    with replaced(ModelTransactions, "commit", late):
        yield


@mutant(
    id="lingering-transactions-stay",
    breaks="no_leaks",
    summary="a start aborts nothing that dead attempts have left open at the broker",
    families=FAMILIES,
)
def lingering_transactions_stay(reached: Reached) -> Iterator[None]:
    """Readers of committed rows wait for them until their timeout."""

    def nothing(self: KafkaTransactionFunction, recovery: Recovery) -> None:
        if self._cluster().open_transactions(f"{self._prefix}-{recovery.owner}-"):
            reached()

    with replaced(KafkaTransactionFunction, "abort_unknown", nothing):
        yield


@mutant(
    id="transactional-prefix-without-the-owner",
    breaks="no_leaks",
    summary="a start aborts every open transaction with its prefix and subtask, also of another job",
    families=FAMILIES,
)
def transactional_prefix_without_the_owner(reached: Reached) -> Iterator[None]:
    """Two jobs may have one prefix: what the other one has pre-committed is lost."""

    def of_any_owner(self: KafkaTransactionFunction, recovery: Recovery) -> None:
        cluster = self._cluster()
        for handle in cluster.open_transactions(f"{self._prefix}-"):
            name = TransactionalId.parse(handle.transactional_id)
            if name is None:
                continue
            if recovery.may_abort(name.subtask, name.epoch, name.attempt, recovery.owner):
                if name.owner != recovery.owner:
                    reached()
                cluster.abort(handle)

    with replaced(KafkaTransactionFunction, "abort_unknown", of_any_owner):
        yield


@mutant(
    id="offsets-from-the-group-instead-of-state",
    breaks="exactly_once",
    summary="a restored source reads on at the offsets of its consumer group, not at those of the checkpoint",
    families=WITH_INPUT,
)
def offsets_from_the_group_instead_of_state(reached: Reached) -> Iterator[None]:
    """A checkpoint may be complete without its offsets in the group, and an older one may be restored."""
    open_model, open_real = SimulatedTopic.open_split, KafkaSource.open_split
    reset = KafkaOffsetResetStrategy.EARLIEST

    def of_the_model(self: SimulatedTopic, split: str, position: int | None) -> Any:
        offset = position if position is None else self.log.group.get(split, 0)
        if offset != position:
            reached()
        return open_model(self, split, offset)

    def of_the_brokers(self: KafkaSource, split: str, position: Any | None) -> Any:
        if position is None:
            return open_real(self, split, None)
        reached()
        return self._open(split, None, KafkaOffsetsInitializer.committed_offsets(reset))

    with (
        replaced(SimulatedTopic, "open_split", of_the_model),
        replaced(KafkaSource, "open_split", of_the_brokers),
    ):
        yield


@mutant(
    id="silent-brokers-count-as-committed",
    breaks="exactly_once",
    summary="a commit that no broker answers is taken for one that was repeated, and is left",
    families=FAMILIES,
)
def silent_brokers_count_as_committed(reached: Reached) -> Iterator[None]:
    """Only the error of Kafka's own client is taken so: any other one still fails the task."""
    commit = KafkaTransactionFunction.commit

    def trusting(self: KafkaTransactionFunction, transaction: list[Any]) -> None:
        try:
            commit(self, transaction)
        except KafkaUnavailable:
            reached()

    with replaced(KafkaTransactionFunction, "commit", trusting):
        yield
