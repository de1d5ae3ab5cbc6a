"""Object stores in the simulation: a put that its writer has given up, or died in, is performed later."""

from __future__ import annotations

import pytest

from onceproof.engine.runtime.storage import MissingFile
from onceproof.harness.checkers.situations import situations_of
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.simulation.agenda import Agenda, Clock
from onceproof.harness.systems.simulation.checkpoint_storages import (
    LatePutStorage,
    put_is_given_up,
    put_late,
    storage_for,
)
from onceproof.harness.systems.simulation.simulated_storage import SimulatedStorage, StorageUnavailable
from onceproof.harness.systems.simulation.world import World
from onceproof.harness.trials.trial import try_scenario
from tests.harness.systems.words import scenario_with
from tests.planted.catalogue import find_mutant

WORD_COUNT = load_family("word_count")
POINTS = ("snapshotted", "metadata_written")


def late_put(point, checkpoint=2, delay=40, **details):
    return Fault("late_put", point, checkpoint=checkpoint, delay=delay, **details)


@pytest.fixture
def agenda():
    return Agenda(Clock())


@pytest.fixture
def store(agenda):
    return LatePutStorage(agenda._clock, agenda)


def perform_due(agenda, now):
    agenda._clock.now = now
    assert list(agenda.take_due()) == []
    for action in agenda.pending:
        action.perform(action.argument)
    agenda.pending.clear()


def test_only_a_scenario_with_a_late_put_has_an_object_store(agenda):
    clock = Clock()
    kill = Fault("kill_process", "completed")
    assert type(storage_for(scenario_with(kill), clock, agenda)) is SimulatedStorage
    upload = Fault("write_error_after_success", "snapshotted")
    for faults in ((upload,), (Fault("power_cut", "completed"), late_put("snapshotted"))):
        assert type(storage_for(scenario_with(*faults), clock, agenda)) is LatePutStorage


def test_late_put_is_performed_when_its_time_has_come(store, agenda):
    assert put_late(store, 5, lambda: store.write("chk-1/a", b"1"))
    assert store.write("chk-1/b", b"2") is None
    assert store.files == {"chk-1/b": b"2"}
    perform_due(agenda, 5)
    assert store.files == {"chk-1/a": b"1", "chk-1/b": b"2"}


def test_writer_that_puts_nothing_has_no_put_on_its_way(store):
    assert not put_late(store, 5, lambda: store.list("chk-1"))
    store.write("chk-1/a", b"1")
    assert store.files == {"chk-1/a": b"1"}


def test_late_exclusive_put_replaces_nothing(store, agenda):
    assert put_late(store, 5, lambda: store.create_exclusive("chk-1/_metadata", b"of the dead"))
    assert store.create_exclusive("chk-1/_metadata", b"of the living")
    perform_due(agenda, 5)
    assert store.files == {"chk-1/_metadata": b"of the living"}


def test_what_a_late_put_brings_is_known_to_have_come_by_itself(store, agenda):
    store.write("savepoint-1/_metadata", b"of the living")
    put_late(store, 5, lambda: store.write("savepoint-1/_metadata", b"of the dead"))
    put_late(store, 5, lambda: store.write("chk-2/a", b"2"))
    store.write("chk-2/a", b"1")
    store.delete("savepoint-1/_metadata")
    assert store.undeleted == set()
    perform_due(agenda, 5)
    assert store.undeleted == {"savepoint-1/_metadata"}


def test_put_that_is_given_up_fails_once_and_no_read_before_it_fails(store):
    store.fault_of = lambda what, path: Fault("fail_read", "restoring")
    with put_is_given_up(store):
        assert store.list("incarnation-") == []
        with pytest.raises(StorageUnavailable, match="no answer"):
            store.create_exclusive("chk-1/_metadata")
        assert store.create_exclusive("history-1-1")
        with pytest.raises(StorageUnavailable):
            store.list("incarnation-")


def test_object_that_was_put_in_parts_and_not_completed_is_not_there(store):
    store.tear("chk-1/a", b"12")
    assert store.files == {}


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize(("dies", "delay"), [("kill_process", 15), ("kill_master", 60), ("kill_all", 5000)])
def test_job_goes_on_exactly_whenever_a_put_comes(point, dies, delay):
    faults = (
        late_put(point, delay=delay),
        Fault(dies, "acknowledged", checkpoint=2, occurrence=6, after=2),
        late_put(point, 3, delay),
        Fault("kill_process", "completed", checkpoint=3),
    )
    trial = try_scenario(WORD_COUNT, scenario_with(*faults, tolerable_failures=9))
    assert trial.verdict.violations == ()
    assert trial.history.statistics.coverage["late_put", point] == 2


def test_put_that_is_under_way_as_its_process_dies_comes_under_the_next_one(monkeypatch):
    """The metadata of checkpoint 2 come when another process has taken a checkpoint of that number."""
    create = SimulatedStorage.create_exclusive
    created = []

    def watched(self, path, data=b""):
        is_new = create(self, path, data)
        if path == "chk-2/_metadata":
            created.append(is_new)
        return is_new

    monkeypatch.setattr(SimulatedStorage, "create_exclusive", watched)
    runs = set()
    for after in range(1, 9):
        created.clear()
        kill = Fault("kill_process", "acknowledged", checkpoint=2, occurrence=6, after=after)
        World(WORD_COUNT, scenario_with(late_put("metadata_written", delay=60), kill)).run()
        runs.add(tuple(created))
    assert (True, False) in runs, "the late put is refused"


def test_file_that_is_deleted_late_was_listed_to_the_process_that_reads_it(store, agenda):
    store.write("chk-1/_metadata", b"1")
    store.fault_of = lambda what, path: Fault("late_delete", "completed", delay=5)
    with pytest.raises(StorageUnavailable, match="has no answer"):
        store.delete("chk-1/_metadata")
    store.fault_of = lambda what, path: None
    assert store.list("chk-1/") == ["chk-1/_metadata"]
    perform_due(agenda, 5)
    assert store.list("chk-1/") == []
    with pytest.raises(MissingFile, match="chk-1/_metadata"):
        store.read("chk-1/_metadata")


def test_put_that_is_answered_with_an_error_took_place(store):
    store.answers_with_an_error = True
    with pytest.raises(StorageUnavailable, match="answered with an error"):
        store.write("chk-1/a", b"1")
    assert store.files == {"chk-1/a": b"1"}
    store.write("chk-1/b", b"2")


def test_upload_that_is_discarded_is_stored_again_and_restored():
    """Nothing of it is left, also not of the files of a database that others may share."""
    upload = [Fault("write_error_after_success", "snapshotted", "count-0", each) for each in (1, 2)]
    scenario = scenario_with(
        *upload,
        Fault("kill_process", "completed", checkpoint=3),
        tolerable_failures=9,
        state_backend="rocksdb",
        incremental=True,
    )
    trial = try_scenario(WORD_COUNT, scenario, continued=False)
    assert trial.verdict.violations == ()
    assert trial.history.statistics.coverage["write_error_after_success", "snapshotted"] == 2
    assert "upload discarded, then completed" in situations_of(scenario, trial.history)


def test_job_that_has_finished_does_not_begin_again_when_a_deletion_comes_late():
    """The process has deleted the mark of an earlier end as it began; there was none."""
    late = Fault("late_delete", "completed", delay=100_000)
    with find_mutant("the-file-finished-decides").applied():
        [violation] = try_scenario(WORD_COUNT, scenario_with(late), continued=False).verdict.violations
    assert (violation.property, violation.anomaly) == ("no_leaks", "deleted mark of its end")
    assert try_scenario(WORD_COUNT, scenario_with(late), continued=False).verdict.passed
