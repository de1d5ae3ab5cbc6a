"""The simulated outside judges each call as a real transactional system would."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from onceproof.harness.model.history import COMMIT_FAILED, TRANSACTION_VISIBLE, History
from onceproof.harness.model.injected_error import InjectedError
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.simulation.agenda import Clock
from onceproof.harness.systems.simulation.external_system import TransactionalSystem, TransactionError
from onceproof.harness.systems.simulation.neighbour import NEIGHBOUR, move_in
from onceproof.harness.systems.simulation.simulated_io import SimulatedLog
from onceproof.harness.systems.simulation.simulated_sinks import SimulatedSink
from onceproof.harness.systems.simulation.simulated_storage import FileMissing, SimulatedStorage


@pytest.fixture
def history() -> History:
    return History()


@pytest.fixture
def system(history: History) -> TransactionalSystem:
    clock = Clock()
    clock.step = 5
    return TransactionalSystem(history, clock)


def visible(history: History) -> list[tuple[str, list[Any]]]:
    return [
        (subject, payload["rows"])
        for _, kind, subject, payload in history.events
        if kind == TRANSACTION_VISIBLE
    ]


def test_rows_become_visible_with_the_first_commit_and_only_then(
    system: TransactionalSystem, history: History
) -> None:
    name = system.begin(1, 4, "2.1")
    system.write(name, ("bee", 1))
    system.prepare(name)
    system.prepare(name)
    assert visible(history) == []
    system.commit(name)
    system.commit(name)
    assert visible(history) == [("1/4/2.1", [("bee", 1)])]
    assert system.unsettled() == []


def test_the_external_system_refuses_invalid_calls(system: TransactionalSystem) -> None:
    name = system.begin(0, 0, "1.1")
    with pytest.raises(TransactionError, match="exists already"):
        system.begin(0, 0, "1.1")
    with pytest.raises(TransactionError, match="was never prepared, it cannot be committed"):
        system.commit(name)
    system.prepare(name)
    with pytest.raises(TransactionError, match="is prepared, no row can be added"):
        system.write(name, ("bee", 1))
    with pytest.raises(TransactionError, match="unknown"):
        system.commit("unknown")
    system.commit(name)
    with pytest.raises(TransactionError, match="was committed, it cannot be aborted"):
        system.abort(name)
    with pytest.raises(TransactionError, match="is committed, it cannot be prepared"):
        system.prepare(name)


def test_an_aborted_transaction_stays_aborted(system: TransactionalSystem, history: History) -> None:
    name = system.begin(0, 0, "1.1")
    system.abort(name)
    system.abort(name)
    system.abort("never begun")
    with pytest.raises(TransactionError, match="was aborted, it cannot be committed"):
        system.commit(name)
    assert visible(history) == []


def test_a_commit_may_fail_and_succeed_when_it_is_repeated(
    system: TransactionalSystem, history: History
) -> None:
    name = system.begin(0, 0, "1.1")
    system.prepare(name)
    system.commit_fault = lambda: Fault("fail_commit", "committing")
    with pytest.raises(InjectedError):
        system.commit(name)
    assert [kind for _, kind, _, _ in history.events] == [COMMIT_FAILED]
    system.commit_fault = lambda: None
    system.commit(name)
    assert visible(history) == [(name, [])]


def test_a_commit_may_take_place_and_answer_with_an_error(
    system: TransactionalSystem, history: History
) -> None:
    name = system.begin(0, 0, "1.1")
    system.prepare(name)
    system.commit_fault = lambda: Fault("commit_error_after_success", "committing")
    with pytest.raises(InjectedError):
        system.commit(name)
    assert visible(history) == [(name, [])]
    assert [kind for _, kind, _, _ in history.events] == [TRANSACTION_VISIBLE, COMMIT_FAILED]


def test_copies_for_subtasks_share_the_outside(system: TransactionalSystem) -> None:
    sink = SimulatedSink(system)
    assert copy.deepcopy(sink)._system is system
    assert copy.deepcopy(sink) is not sink
    log = SimulatedLog({"split": ((3, "bee"), (4, "owl"))})
    assert copy.deepcopy(log) is log


def test_a_split_is_read_on_from_any_position() -> None:
    log = SimulatedLog({"split": ((3, "bee"), (4, "owl"))})
    reader = log.open_split("split", None)
    assert reader.read(1) == [("bee", 3)]
    again = log.open_split("split", reader.position)
    assert (again.read(5), again.exhausted, again.position) == ([("owl", 4)], True, 2)


def test_storage_keeps_confirmed_writes_and_may_tear_others() -> None:
    storage = SimulatedStorage(Clock())
    storage.write("chk-1/a", b"12345678")
    storage.tear("chk-1/b", b"12345678")
    assert storage.read("chk-1/a") == b"12345678"
    assert storage.read("chk-1/b") == b"1234"
    assert storage.list("chk-1/") == ["chk-1/a", "chk-1/b"]
    assert storage.create_exclusive("incarnation-1")
    assert not storage.create_exclusive("incarnation-1")
    storage.delete("chk-1/a")
    storage.delete("chk-1/a")
    with pytest.raises(FileMissing, match="chk-1/a is not there"):
        storage.read("chk-1/a")


def test_neighbour_has_what_the_job_on_trial_would_have_under_the_same_names(
    system: TransactionalSystem, history: History
) -> None:
    move_in(system)
    states = list(system.neighbours.values())
    assert states.count("prepared") == states.count("committed") == 16
    assert states.count("open") == 2
    assert {each.name.partition("/")[0] for each in system.transactions.values()} == {NEIGHBOUR}
    assert {(each.subtask, each.epoch) for each in system.transactions.values() if each.waits} == {
        (subtask, checkpoint) for subtask in range(2) for checkpoint in range(1, 9)
    }
    assert history.events == []
    assert not system.remembers_batch("of another sink", 0, 1)
