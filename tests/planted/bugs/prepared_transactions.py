"""Mutants of the exactly-once sink into a database: prepared transactions, the ledger, recovery."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from onceproof.engine.connectors.jdbc.exactly_once_function import ExactlyOnceFunction
from onceproof.engine.connectors.jdbc.two_phase_database import (
    DatabaseUnavailable,
    SessionName,
    TwoPhaseSession,
    owner_prefix,
    transaction_name_of,
)
from onceproof.engine.connectors.two_phase import Recovery
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant
from onceproof.harness.systems.simulation.prepared_transactions import ModelSession

FAMILIES = ("postgres_rows",)


@mutant(
    id="prepared-before-the-last-rows",
    breaks="exactly_once",
    summary="a transaction is prepared before its last batch of rows is sent",
    families=FAMILIES,
)
def prepared_before_the_last_rows(reached: Reached) -> Iterator[None]:
    """The last batch begins a transaction of its own, which no checkpoint lists."""
    pre_commit = ExactlyOnceFunction.pre_commit

    def hasty(self: ExactlyOnceFunction, transaction: list[Any]) -> None:
        last, self._rows = self._rows, []
        pre_commit(self, transaction)
        self._rows = last
        if last and transaction[1]:
            reached()
        self.flush(transaction)

    with replaced(ExactlyOnceFunction, "pre_commit", hasty):
        yield


@mutant(
    id="second-commit-prepared-is-a-failure",
    breaks="no_error",
    summary="a transaction that is not prepared any more is taken for lost, though the ledger has its entry",
    families=FAMILIES,
)
def second_commit_prepared_is_a_failure(reached: Reached) -> Iterator[None]:
    """A restore commits what the checkpoint lists, again if need be."""

    def never(self: ExactlyOnceFunction, session: TwoPhaseSession, name: str) -> bool:
        if session.is_recorded(name):
            reached()
        return False

    with replaced(ExactlyOnceFunction, "was_committed", never):
        yield


@mutant(
    id="prefix-of-the-owner-is-enough",
    breaks="no_error",
    summary="a restored subtask rolls back every prepared transaction whose name begins with the owner",
    families=FAMILIES,
)
def prefix_of_the_owner_is_enough(reached: Reached) -> Iterator[None]:
    """Another subtask has yet to commit those that the checkpoint lists."""
    unlisted = ExactlyOnceFunction.unlisted

    def all_of_the_owner(self: ExactlyOnceFunction, names: list[str], recovery: Recovery) -> list[str]:
        found = sorted(name for name in names if name.startswith(owner_prefix(recovery.owner)))
        if found != unlisted(self, names, recovery):
            reached()
        return found

    with replaced(ExactlyOnceFunction, "unlisted", all_of_the_owner):
        yield


@mutant(
    id="prepared-ones-of-missing-subtasks-stay",
    breaks="no_leaks",
    summary="a subtask rolls back prepared transactions of its own number only, also after a rescale",
    families=FAMILIES,
)
def prepared_ones_of_missing_subtasks_stay(reached: Reached) -> Iterator[None]:
    """With fewer subtasks than before, some transactions belong to none, and hold their locks for ever."""
    unlisted = ExactlyOnceFunction.unlisted

    def of_the_same_number(self: ExactlyOnceFunction, names: list[str], recovery: Recovery) -> list[str]:
        mine = []
        for text in unlisted(self, names, recovery):
            name = transaction_name_of(text)
            if name is not None and name.subtask == recovery.subtask:
                mine.append(text)
            else:
                reached()
        return mine

    with replaced(ExactlyOnceFunction, "unlisted", of_the_same_number):
        yield


@mutant(
    id="sessions-of-dead-attempts-live-on",
    breaks="no_leaks",
    summary="a restored sink does not end the sessions of dead attempts",
    families=FAMILIES,
)
def sessions_of_dead_attempts_live_on(reached: Reached) -> Iterator[None]:
    """The server keeps their transactions open, until it notices that the client is gone."""

    def live_on(self: ModelSession, may_end: Callable[[SessionName], bool]) -> None:
        reached()

    with replaced(ModelSession, "end_sessions", live_on):
        yield


@mutant(
    id="lost-connection-counts-as-committed",
    breaks="exactly_once",
    summary="a commit whose connection is lost is taken for one that took place",
    families=FAMILIES,
)
def lost_connection_counts_as_committed(reached: Reached) -> Iterator[None]:
    """The branch that leaves a broken session behind leaves the transaction behind as well."""
    commit = ExactlyOnceFunction.commit

    def trusting(self: ExactlyOnceFunction, transaction: list[Any]) -> None:
        try:
            commit(self, transaction)
        except DatabaseUnavailable:
            reached()

    with replaced(ExactlyOnceFunction, "commit", trusting):
        yield
