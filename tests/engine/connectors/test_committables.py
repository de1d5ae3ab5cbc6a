"""Committables by checkpoint; the answers of Flink's classes are in the conformance vectors."""

from __future__ import annotations

import pytest

from onceproof.engine.connectors.committables import (
    CommitFailedUnexpectedly,
    CommitGivenUp,
    CommittableCollector,
    CommittableSummary,
    CommittableWithLineage,
    DuplicateSummary,
    IncompleteCommittables,
    UnexpectedCommittable,
)
from onceproof.engine.connectors.sink_writer import Committer


class ScriptedCommitter(Committer):
    """Commits, and signals for each committable the scripted outcomes, one for each call."""

    def __init__(self, **says):
        self.says = {committable: list(words) for committable, words in says.items()}
        self.calls = []

    def commit(self, committables):
        self.calls.append([request.get_committable() for request in committables])
        for request in committables:
            words = self.says.get(request.get_committable())
            if words:
                words.pop(0)(request)


def collector(**batches):
    """``c3s1=("a",)``: subtask 1 gave "a" for checkpoint 3."""
    made = CommittableCollector()
    for name, committables in batches.items():
        checkpoint_id, subtask = map(int, name[1:].split("s"))
        made.add_summary(CommittableSummary(subtask, checkpoint_id, len(committables)))
        for committable in committables:
            made.add(CommittableWithLineage(subtask, checkpoint_id, committable))
    return made


def retry(request):
    request.retry_later()


def test_committables_of_one_checkpoint_go_in_one_call():
    made = collector(c2s0=("c",), c1s0=("a",), c1s1=("b",))
    committer = ScriptedCommitter()
    assert made.due(1) == [1]
    assert made.commit(1, committer).successful == ("a", "b")
    assert committer.calls == [["a", "b"]]
    assert made.pending() == ["c"]
    assert made.due(7) == [2]


def test_checkpoint_without_committables_is_done_with_without_a_call_and_forgotten():
    made = collector(c1s0=())
    committer = ScriptedCommitter()
    assert made.commit(1, committer).successful == ()
    assert committer.calls == []
    assert made.due(7) == []


def test_only_postponed_requests_are_retried_and_count_their_retries():
    retries = []

    def twice(request):
        retries.append(request.get_number_of_retries())
        request.retry_later()

    committer = ScriptedCommitter(
        a=[twice, twice, lambda request: retries.append(request.get_number_of_retries())]
    )
    assert collector(c1s0=("a", "b")).commit(1, committer).successful == ("a", "b")
    assert committer.calls == [["a", "b"], ["a"], ["a"]]
    assert retries == [0, 1, 2]


@pytest.mark.parametrize("max_retries", [0, 1, 10])
def test_commit_fails_after_all_retries_and_keeps_pending_committables(max_retries):
    made = collector(c1s0=("a", "b"))
    committer = ScriptedCommitter(a=[retry] * 20)
    with pytest.raises(CommitGivenUp, match=rf"1 committables failed after {max_retries} retries: \['a'\]"):
        made.commit(1, committer, max_retries)
    assert len(committer.calls) == max_retries + 1
    assert made.pending() == ["a", "b"], "the restore commits both again"


def test_updated_committable_is_retried():
    committer = ScriptedCommitter(ab=[lambda request: request.update_and_retry_later("b")])
    assert collector(c1s0=("ab",)).commit(1, committer).successful == ("b",)
    assert committer.calls == [["ab"], ["b"]]


def test_already_committed_request_is_a_success():
    committer = ScriptedCommitter(a=[lambda request: request.signal_already_committed()])
    assert collector(c1s0=("a",)).commit(1, committer).successful == ("a",)


def test_committable_with_known_failure_is_dropped_and_reported():
    reason = ValueError("gone")
    committer = ScriptedCommitter(a=[lambda request: request.signal_failed_with_known_reason(reason)])
    made = collector(c1s0=("a", "b"))
    committed = made.commit(1, committer)
    assert (committed.successful, committed.failed) == (("b",), ("a",))
    assert made.pending() == []


def test_unknown_failure_fails_the_job_with_its_reason_and_nothing_is_forgotten():
    reason = ValueError("who knows")
    committer = ScriptedCommitter(a=[lambda request: request.signal_failed_with_unknown_reason(reason)])
    made = collector(c1s0=("a",))
    with pytest.raises(CommitFailedUnexpectedly, match="commit of 'a' failed: who knows") as raised:
        made.commit(1, committer)
    assert raised.value.__cause__ is reason
    assert made.pending() == ["a"]


def test_incomplete_batch_is_not_committed():
    made = CommittableCollector()
    made.add_summary(CommittableSummary(0, 1, 2))
    made.add(CommittableWithLineage(0, 1, "a"))
    committer = ScriptedCommitter()
    with pytest.raises(IncompleteCommittables, match="announced 2 committables for checkpoint 1, 1"):
        made.commit(1, committer)
    assert committer.calls == []


def test_committable_without_summary_is_refused():
    made = collector(c1s0=("a",))
    for subtask, checkpoint_id in ((0, 1), (1, 1), (0, 2)):
        with pytest.raises(UnexpectedCommittable, match="was not announced"):
            made.add(CommittableWithLineage(subtask, checkpoint_id, "b"))
    with pytest.raises(DuplicateSummary, match="a second summary of subtask 0 for checkpoint 1"):
        made.add_summary(CommittableSummary(0, 1, 1))


def test_restored_committables_of_several_subtasks_come_together():
    stored = [*collector(c1s0=("a",), c2s0=("b",)).stored(), *collector(c1s1=("c",), c1s0=()).stored()]
    made = CommittableCollector()
    made.restore(stored)
    made.restore(collector(c1s0=("d",)).stored())
    assert made.due(9) == [1, 2]
    assert made.commit(1, ScriptedCommitter()).successful == ("a", "d", "c")
    assert made.commit(2, ScriptedCommitter()).successful == ("b",)


def test_stored_committables_do_not_change_with_the_collector():
    made = collector(c1s0=("a",))
    stored = made.stored()
    made.commit(1, ScriptedCommitter())
    assert stored == [[1, 0, 1, ["a"]]]
