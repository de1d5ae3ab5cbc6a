"""Families with their files and checkpoints in an object store, in real processes over a real server.

The server is moto, unless versitygw is on the PATH: then it is killed as well.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.connectors.part_files import Mark
from onceproof.engine.connectors.part_objects import object_name
from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.verdict import Verdict, judge
from onceproof.harness.model.family import S3, FamilyError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import (
    ERROR,
    FAULT_FIRED,
    JOB_FINISHED,
    LEAK,
    TASK_FAILED,
    TRANSACTION_VISIBLE,
    History,
)
from onceproof.harness.model.scenario import Fault, Scenario
from onceproof.harness.services.object_store_server import BUCKET, ObjectStoreServer
from onceproof.harness.systems.fault_clock import ClockState
from onceproof.harness.systems.kit.job_history import JobHistory
from onceproof.harness.systems.local.system import LocalSystem, LocalWorkersSystem
from onceproof.harness.systems.process.file_io import CountedSource
from onceproof.harness.systems.process.job_assembly import ProcessIO
from onceproof.harness.systems.process.job_specification import Spec, TrialObjects
from onceproof.harness.systems.process.object_io import NEIGHBOUR_PART, ObjectOutput, ObjectWatch, StoreReader
from onceproof.harness.systems.process.trial_servers import TrialObjectStore
from onceproof.harness.systems.recording.event_log import ROWS_GONE, ROWS_SEEN, SERVER_AWAY, EventLog
from tests.harness.systems.words import WORDS, scenario_with
from tests.planted.catalogue import with_bug

pytestmark = pytest.mark.local_kill

COMMIT_FAULTS = sorted(
    kind for kind, row in FAULTS.items() if row.strikes == "commit" and row.delay == "none"
)
STRIKES = (
    Fault("cut_connection", "committing", occurrence=2, means="answer", server=S3),
    Fault("cut_connection", "pre_committed", occurrence=2, server=S3),
    Fault("pause_server", "completed", occurrence=2, delay=300, server=S3),
)
KILL = Fault("kill_server", "pre_committed", occurrence=4, delay=50, server=S3)
FEW_RECORDS = {name: tuple((time, word) for time, word in enumerate(WORDS)) for name in ("x", "y")}
"""A request to the store costs a hundredth of a second of its processor, and a record three of them."""
numbers = itertools.count()


@pytest.fixture
def store(object_store_server: ObjectStoreServer) -> Iterator[TrialObjectStore]:
    store = TrialObjectStore(object_store_server)
    yield store
    store.close()


@pytest.fixture
def objects(object_store_server: ObjectStoreServer) -> TrialObjects:
    """A place of a scenario that ran nowhere."""
    environment = object_store_server.environment
    return TrialObjects(BUCKET, f"test{os.getpid()}x{next(numbers)}", environment, environment)


def tried(system: LocalSystem, scenario: Scenario) -> tuple[History, Verdict]:
    family = load_family(scenario.family)
    history = system.run(family, scenario)
    return history, judge(scenario, history, PythonOracle(family, scenario))


def test_job_and_store_killed_paused_and_cut_off_lose_and_repeat_no_rows(store: TrialObjectStore) -> None:
    errors = [Fault(kind, "committing", occurrence=number) for number, kind in enumerate(COMMIT_FAULTS, 2)]
    kill = Fault("kill_process", "committing", occurrence=3, rescale_to=1)
    scenario = scenario_with(kill, *STRIKES, KILL, *errors, family="objects_rolling", records=FEW_RECORDS)
    history, verdict = tried(LocalSystem(objects=store), scenario)
    assert verdict.violations == ()
    statistics = history.statistics
    struck = {kind for kind, _ in statistics.coverage}
    assert struck | {kind for kind, _ in statistics.not_applicable} == {
        fault.kind for fault in scenario.faults
    }
    assert ("kill_server" in struck) == store.survives_kills
    checkpoints = sum(kind == "checkpoint_completed" for _, kind, _, _ in history.events)
    files = [event for event in history.events if event[1] == TRANSACTION_VISIBLE and event[3]["rows"]]
    assert len(files) > checkpoints


def test_workers_over_a_store_that_is_paused_and_cut_off_lose_and_repeat_no_rows(
    store: TrialObjectStore,
) -> None:
    kill = Fault("kill_task", "committing", occurrence=3)
    scenario = scenario_with(kill, *STRIKES, family="objects_parquet", records=FEW_RECORDS)
    history, verdict = tried(LocalWorkersSystem(objects=store), scenario)
    assert verdict.violations == ()
    assert {fault.kind for fault in scenario.faults} == {kind for kind, _ in history.statistics.coverage}


def test_output_in_a_store_stays_and_the_fault_does_not_apply(store: TrialObjectStore) -> None:
    scenario = scenario_with(Fault("move_output", "committed"), family="objects_rolling", records=FEW_RECORDS)
    history, _ = tried(LocalSystem(objects=store), scenario)
    assert history.statistics.not_applicable == {("move_output", "committed"): 1}
    assert "move_output" not in [subject for _, kind, subject, _ in history.events if kind == FAULT_FIRED]
    assert JOB_FINISHED in [kind for _, kind, _, _ in history.events]


@pytest.mark.parametrize(
    ("mutant", "broken"),
    [
        ("multipart-completed-at-pre-commit", "consistent_cut"),
        ("uploads-of-another-job-aborted", "no_leaks"),
    ],
)
def test_planted_bugs_are_seen_during_the_run_and_at_rest(
    store: TrialObjectStore, mutant: str, broken: str
) -> None:
    records = {"x": FEW_RECORDS["x"][:6]}
    scenario = scenario_with(family="objects_rolling", records=records, checkpoint_interval_ms=10)
    _, verdict = tried(LocalSystem(**with_bug(mutant), objects=store), scenario)
    assert broken in {violation.property for violation in verdict.violations}


@pytest.mark.parametrize(("struck", "has_given_up"), [(False, False), (True, True)])
def test_process_without_its_server_is_an_error_unless_a_fault_has_struck_it(
    tmp_path: Path, struck: bool, has_given_up: bool
) -> None:
    builder = JobHistory((KILL,), {}, tmp_path, ".jsonl", lambda path: [], 1)
    if struck:
        builder.run.waiting = ClockState(left=(0,))
    away = {"kind": SERVER_AWAY, "where": "process", "type": "x", "function": "list", "text": "no answer"}
    builder.add_process_log([{**away, "at": 1}])
    assert builder.run.has_given_up == has_given_up
    assert builder.run.is_over != has_given_up
    assert [event[1] for event in builder.run.history.events] == [TASK_FAILED if has_given_up else ERROR]


def part(owner: str = "0" * 16, subtask: int = 1, number: int = 0) -> str:
    return object_name("part", Mark(owner, subtask, 3, "1.2"), number, ".jsonl")


def put(objects: TrialObjects, name: str, content: bytes) -> None:
    client = StoreReader(objects)._client
    client.put_object(Bucket=BUCKET, Key=f"{objects.prefix}/output/{name}", Body=content)


def test_watch_sees_objects_and_misses_those_that_go_or_change(objects: TrialObjects) -> None:
    watch = ObjectWatch(objects)

    def seen() -> list[tuple[str, str]]:
        watch.look()
        return [(event["kind"], event["transaction"]) for event in watch.take_events()]

    first, second = part(number=0), f"one/{part(number=1)}"
    assert seen() == []
    put(objects, first, b'["a", 1]\n')
    assert seen() == [(ROWS_SEEN, first)]
    put(objects, second, b'["b", 1]\n')
    put(objects, first, b'["a", 2]\n')
    assert sorted(seen()) == [(ROWS_GONE, first), (ROWS_SEEN, os.path.basename(second))]
    assert seen() == []
    StoreReader(objects).drop()
    assert sorted(seen()) == sorted([(ROWS_GONE, first), (ROWS_GONE, os.path.basename(second))])


def test_objects_are_read_with_their_writers_and_foreign_ones_are_found(objects: TrialObjects) -> None:
    put(objects, f"two/inner/{part(subtask=4)}", b'["a", 1]\n["b", 2]\n')
    put(objects, "stray", b'["c", 1]\n')
    output = ObjectOutput(objects)
    assert output.names() == [part(subtask=4), "stray"]
    assert output.rows(part(subtask=4)) == [("a", 1), ("b", 2)]
    assert output.writer(part(subtask=4)) == (4, 3, "1.2")
    assert output.owns("stray")
    assert output.writer("stray") == (0, 0, "unknown")
    before = output.identity("stray")
    put(objects, "stray", b'["d", 1]\n')
    output.names()
    assert output.identity("stray") != before
    StoreReader(objects).drop()


def test_uploads_that_a_process_knew_of_and_those_of_no_sink_are_left_behind(objects: TrialObjects) -> None:
    reader = StoreReader(objects)
    reader.begin_upload("output", part(number=1))
    output = ObjectOutput(objects)
    output.upload_begun(reader.begin_upload("output", part(number=2)))
    reader.begin_upload("checkpoints", "chk-1/large")
    assert sorted(output.unfinished()) == sorted([part(number=2), "large"])
    assert not output.is_neighbour_there()
    reader.begin_upload("output", NEIGHBOUR_PART)
    assert output.is_neighbour_there()
    reader.drop()


def test_files_of_checkpoints_that_stay_in_the_store_are_leaks(objects: TrialObjects, tmp_path: Path) -> None:
    reader = StoreReader(objects)
    for name in ("job/chk-7/x", "job/finished", "job/shared/y"):
        reader._client.put_object(Bucket=BUCKET, Key=f"{objects.prefix}/checkpoints/{name}", Body=b"x")
    builder = JobHistory((), {}, tmp_path, ".jsonl", lambda path: [], 1, objects=objects)
    builder.at_rest(tmp_path)
    leaks = [event[3]["name"] for event in builder.run.history.events if event[1] == LEAK]
    assert leaks == ["an upload", "job/chk-7/x", "job/shared/y"]
    reader.drop()


def test_system_without_the_store_says_which_one_has_it(tmp_path: Path) -> None:
    spec = Spec(family="objects_rolling", job_name="job", checkpoints="", output="", events="")
    source = CountedSource(CollectionSource({"x": []}))
    io = ProcessIO(spec, source, 1, EventLog(str(tmp_path / "log")), lambda task: None, {"word": "STRING"})
    with pytest.raises(FamilyError, match=r"objects_rolling: a sink at s3:// needs options .*'s3'.*local"):
        io.object_sink("counts")
