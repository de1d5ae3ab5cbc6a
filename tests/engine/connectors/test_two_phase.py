"""The two-phase commit base class, in cases that the conformance vectors do not cover."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from onceproof.engine.connectors.two_phase import (
    CommitFailed,
    Recovery,
    TwoPhaseCommitSinkFunction,
)
from onceproof.engine.types import Types


class Outside:
    """Transactions by name: open, prepared, committed or aborted."""

    def __init__(self) -> None:
        self.rows: dict[Any, list[Any]] = {}
        self.status: dict[Any, str] = {}
        self.calls: list[str] = []
        self.failing: set[Any] = set()

    @property
    def visible(self) -> list[Any]:
        return [row for name, rows in self.rows.items() if self.status[name] == "committed" for row in rows]


class Sink(TwoPhaseCommitSinkFunction):
    def __init__(self, outside: Outside, **settings: Any) -> None:
        super().__init__(**settings)
        self.outside = outside

    def begin_transaction(self) -> Any:
        name = f"{self.subtask}/{self.epoch}/{self.attempt}"
        self.outside.rows[name] = []
        self.outside.status[name] = "open"
        return name

    def invoke_transaction(self, transaction: Any, value: Any, context: Any) -> None:
        self.outside.rows[transaction].append(value)

    def pre_commit(self, transaction: Any) -> None:
        self.outside.calls.append(f"pre_commit {transaction}")
        self.outside.status[transaction] = "prepared"

    def commit(self, transaction: Any) -> None:
        self.outside.calls.append(f"commit {transaction}")
        if transaction in self.outside.failing:
            raise OSError(f"{transaction} does not answer")
        self.outside.status[transaction] = "committed"

    def abort(self, transaction: Any) -> None:
        self.outside.calls.append(f"abort {transaction}")
        self.outside.status[transaction] = "aborted"


class SweepingSink(Sink):
    def abort_unknown(self, recovery: Recovery) -> None:
        for name in sorted(self.outside.status):
            subtask, epoch, attempt = name.split("/")
            unsettled = self.outside.status[name] in ("open", "prepared")
            if unsettled and recovery.may_abort(int(subtask), int(epoch), attempt, self.owner):
                self.abort(name)


def test_a_commit_that_fails_does_not_stop_the_others_and_is_named_in_the_error(sink_job):
    outside = Outside()
    job = sink_job(lambda: Sink(outside))
    job.start()
    for checkpoint_id in (1, 2, 3):
        job.functions[0].invoke(checkpoint_id, None)
        job.snapshot(checkpoint_id)
    outside.failing = {"0/0/1.1", "0/1/1.1"}
    with pytest.raises(CommitFailed, match=r"'0/0/1\.1', pre-committed for checkpoint 1.*does not answer"):
        job.notify(3)
    assert outside.status["0/2/1.1"] == "committed"
    assert "\n" not in str(CommitFailed("x"))


def test_failed_commit_is_repeated_by_the_restore(sink_job):
    outside = Outside()
    job = sink_job(lambda: Sink(outside))
    job.start().invoke("a", None)
    job.snapshot(1)
    outside.failing = {"0/0/1.1"}
    with pytest.raises(CommitFailed):
        job.notify(1)
    outside.failing = set()
    job.start(restored=1)
    assert outside.visible == ["a"]


def test_a_transaction_of_an_aborted_checkpoint_commits_with_the_next_one(sink_job):
    outside = Outside()
    job = sink_job(lambda: Sink(outside))
    sink = job.start()
    sink.invoke("a", None)
    job.snapshot(1)
    sink.notify_checkpoint_aborted(1)
    sink.invoke("b", None)
    job.snapshot(2)
    job.notify(2)
    assert outside.visible == ["a", "b"]


def test_the_epoch_is_that_of_the_last_snapshot_and_of_the_restored_checkpoint(sink_job):
    outside = Outside()
    job = sink_job(lambda: Sink(outside))
    sink = job.start()
    assert sink.current_transaction() == "0/0/1.1"
    job.snapshot(7)
    assert sink.current_transaction() == "0/7/1.1"
    restored = job.start(restored=7)
    assert restored.current_transaction() == "0/7/1.2"


def test_transactions_begun_after_the_restored_checkpoint_are_aborted(sink_job):
    outside = Outside()
    job = sink_job(lambda: SweepingSink(outside))
    sink = job.start()
    sink.invoke("kept", None)
    job.snapshot(1)  # pre-commits 0/0, begins 0/1
    sink.invoke("lost with the attempt", None)
    job.snapshot(2)  # pre-commits 0/1, begins 0/2; checkpoint 2 never completes
    job.start(restored=1)
    assert outside.status == {
        "0/0/1.1": "committed",
        "0/1/1.1": "aborted",
        "0/2/1.1": "aborted",
        "0/1/1.2": "open",
    }


def test_pending_transactions_of_other_subtasks_are_not_aborted(sink_job):
    outside = Outside()
    job = sink_job(lambda: SweepingSink(outside))
    job.start(parallelism=3)
    for function in job.functions:
        function.invoke(function.subtask, None)
    job.snapshot(1)
    # The first new subtask sweeps before the second has committed what it was dealt.
    job.start(parallelism=2, restored=1)
    assert outside.visible == [0, 1, 2]
    begun = sorted(name for name, status in outside.status.items() if status == "open")
    assert begun == ["0/1/1.2", "1/1/1.2"]


@pytest.mark.parametrize("old", range(1, 5))
@pytest.mark.parametrize("new", range(1, 5))
def test_each_old_subtask_has_exactly_one_sweeper(old, new):
    for subtask in range(old):
        sweepers = [
            s for s in range(new) if Recovery(s, new, "1.2", 4, "us").may_abort(subtask, 4, "1.1", "us")
        ]
        assert len(sweepers) == 1


@pytest.mark.parametrize(
    ("restored", "epoch", "attempt", "allowed"),
    [
        (None, 0, "1.1", True),
        (None, 3, "1.1", True),
        (None, 0, "1.2", False),
        (4, 4, "1.1", True),
        (4, 5, "1.1", True),
        (4, 3, "1.1", False),
        (4, 4, "1.2", False),
        (4, 5, "1.11", True),
        (4, 5, "2.1", False),
    ],
)
def test_may_abort_by_subtask_epoch_and_attempt(restored, epoch, attempt, allowed):
    recovery = Recovery(0, 1, "1.2", restored, "us")
    assert recovery.may_abort(0, epoch, attempt, "us") is allowed
    assert not recovery.may_abort(0, epoch, attempt, "another sink")


def test_the_points_of_a_checkpoint_and_its_commit_are_passed_in_order(sink_job):
    job = sink_job(lambda: Sink(Outside()))
    job.start()
    job.snapshot(1)
    job.snapshot(2)
    job.notify(2)
    assert job.passed == [
        ("pre_committed", 1),
        ("pre_committed", 2),
        ("committing", 2),
        ("committed", 2),
        ("committing", 2),
        ("committed", 2),
    ]


def test_the_points_of_a_restore_and_of_a_close_are_passed_in_order(sink_job):
    job = sink_job(lambda: Sink(Outside()))
    job.start()
    job.snapshot(1)
    job.passed.clear()
    job.start(restored=1).close()
    assert job.passed == [("committing", 1), ("committed", 1), ("aborted", 1), ("aborted", 1)]


class Killed(BaseException):
    pass


def test_a_task_that_dies_between_two_commits_commits_the_rest_on_restore(sink_job):
    outside = Outside()
    job = sink_job(lambda: Sink(outside))
    sink = job.start()
    for checkpoint_id in (1, 2):
        sink.invoke(checkpoint_id, None)
        job.snapshot(checkpoint_id)
    commits = []

    def die_at_the_second(point, checkpoint_id):
        if point == "committing":
            commits.append(checkpoint_id)
            if len(commits) == 2:
                raise Killed

    job.probe = die_at_the_second
    with pytest.raises(Killed):
        job.notify(2)
    assert outside.visible == [1]
    job.probe = lambda point, checkpoint_id: None
    job.start(restored=2)
    assert outside.visible == [1, 2]


def test_a_sink_that_takes_no_batches_gets_values_one_by_one(sink_job):
    assert sink_job(lambda: Sink(Outside())).start().invoke_batch([1, 2]) is False


def test_task_commits_nothing_and_ends_with_its_snapshot_if_the_driver_commits(sink_job):
    outside = Outside()
    job = sink_job(lambda: SweepingSink(outside))
    job.start().invoke("first", None)
    job.snapshot(3)
    outside.calls.clear()
    sink = job.start(restored=3, settled=True)
    assert outside.calls == [], "the driver commits what checkpoint 3 lists, and aborts what it does not"
    assert sink.current_transaction() == "0/3/1.2"
    sink.invoke("second", None)
    job.snapshot(4)
    assert outside.calls == ["pre_commit 0/3/1.2"]
    assert sink.current_transaction() is None
    sink.close()
    assert outside.status == {"0/0/1.1": "prepared", "0/3/1.1": "open", "0/3/1.2": "prepared"}


def test_driver_commits_listed_transactions_and_aborts_all_others(sink_job):
    outside = Outside()
    job = sink_job(lambda: SweepingSink(outside))
    job.settle(None, parallelism=2)
    for epoch in (None, 1, 2):
        # Of the first attempt everything but the acknowledgement is there.
        for _ in ("lost", "taken"):
            job.start(parallelism=2, restored=epoch, settled=True)
            for function in job.functions:
                function.invoke((epoch, function.subtask), None)
            job.snapshot((epoch or 0) + 1)
        job.settle((epoch or 0) + 1, parallelism=2)
        assert {*outside.status.values()} == {"committed", "aborted"}, "nothing is left open"
    assert sorted(outside.visible, key=str) == [(1, 0), (1, 1), (2, 0), (2, 1), (None, 0), (None, 1)]


def test_a_driver_that_settles_begins_nothing_and_may_do_so_again(sink_job):
    outside = Outside()
    job = sink_job(lambda: SweepingSink(outside))
    job.start(settled=True).invoke("row", None)
    job.snapshot(1)
    for _ in range(2):
        job.settle(1)
        assert outside.status == {"0/0/1.1": "committed"}
    assert outside.visible == ["row"]


class ContextSink(Sink):
    def initialize_user_context(self) -> Any:
        return {"producer ids": [4, 5]}

    def finish_recovering_context(self, handled_transactions: Any) -> None:
        self.outside.calls.append(f"handled {list(handled_transactions)}")


def test_user_context_survives_a_restore_and_gets_handled_transactions(sink_job):
    outside = Outside()
    job = sink_job(lambda: ContextSink(outside))
    job.start()
    job.snapshot(1)
    restored = job.start(restored=1)
    assert restored.get_user_context() == {"producer ids": [4, 5]}
    assert "handled ['0/0/1.1', '0/1/1.1']" in outside.calls


class ListSink(Sink):
    """Its transactions are lists, completed at pre-commit."""

    def begin_transaction(self) -> Any:
        return [f"{self.epoch}", None]

    def invoke_transaction(self, transaction: Any, value: Any, context: Any) -> None:
        pass

    def pre_commit(self, transaction: Any) -> None:
        transaction[1] = "done"

    def commit(self, transaction: Any) -> None:
        self.outside.calls.append(f"commit {transaction}")

    def abort(self, transaction: Any) -> None:
        self.outside.calls.append(f"abort {transaction}")


def test_transaction_may_change_until_pre_commit_but_not_in_older_snapshots(sink_job):
    outside = Outside()
    job = sink_job(lambda: ListSink(outside))
    job.start()
    job.snapshot(1)
    job.snapshot(2)
    job.start(restored=1)
    assert outside.calls == ["commit ['0', 'done']", "abort ['1', None]"]
    outside.calls.clear()
    job.start(restored=2)
    assert outside.calls == ["commit ['0', 'done']", "commit ['1', 'done']", "abort ['2', None]"]


class PairSink(ListSink):
    def begin_transaction(self) -> Any:
        return (self.epoch, "name")

    def pre_commit(self, transaction: Any) -> None:
        pass


def test_transactions_of_a_declared_type_come_back_as_that_type(sink_job):
    outside = Outside()
    kind = Types.TUPLE([Types.LONG(), Types.STRING()])
    job = sink_job(lambda: PairSink(outside, transaction_type=kind))
    job.start()
    job.snapshot(1)
    job.start(restored=1)
    assert outside.calls == ["commit (0, 'name')", "abort (1, 'name')"]


def test_a_commit_near_the_timeout_is_warned_of(sink_job, caplog):
    sink = Sink(Outside()).set_transaction_timeout(1000).enable_transaction_timeout_warnings(0.5)
    job = sink_job(lambda: sink)
    job.start()
    job.snapshot(1)
    job.now_ms = 501
    with caplog.at_level(logging.WARNING):
        job.notify(1)
    assert "has been open for 501 ms of its timeout of 1000 ms" in caplog.text


@pytest.mark.parametrize("ratio", [-0.1, 1.1])
def test_a_warning_ratio_outside_of_0_to_1_is_refused(ratio):
    with pytest.raises(ValueError, match="must be from 0 to 1"):
        Sink(Outside()).enable_transaction_timeout_warnings(ratio)


def test_a_negative_timeout_is_refused():
    with pytest.raises(ValueError, match="must not be negative"):
        Sink(Outside()).set_transaction_timeout(-1)


def test_user_context_is_restored_if_the_driver_commits(sink_job):
    outside = Outside()
    job = sink_job(lambda: ContextSink(outside))
    before = job.start().get_user_context()
    job.snapshot(1)
    sink = job.start(restored=1, settled=True)
    assert sink.get_user_context() == before
    assert not [call for call in outside.calls if call.startswith("handled")]
