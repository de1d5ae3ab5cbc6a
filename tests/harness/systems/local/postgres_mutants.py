"""A bug planted into the sink of PostgreSQL, which only a reader during the run sees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine.connectors.jdbc.exactly_once_function import ExactlyOnceFunction
from onceproof.harness.model.mutants import Reached, mutant, replaced


@mutant(
    id="pre-commit-commits",
    breaks="consistent_cut",
    summary="rows are committed with the snapshot, before the checkpoint is complete",
)
def pre_commit_commits(reached: Reached) -> Iterator[None]:
    """An undisturbed run ends with the right rows; a reader sees them too early."""
    pre_commit = ExactlyOnceFunction.pre_commit

    def too_early(self: ExactlyOnceFunction, transaction: list[Any]) -> None:
        pre_commit(self, transaction)
        if transaction[1]:
            reached()
            self._with_committer(lambda session: session.commit_prepared(transaction[0]))

    with replaced(ExactlyOnceFunction, "pre_commit", too_early):
        yield
