"""The verdict on the event log of a query: each way to show a batch wrongly breaks its property."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.verdict import judge
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.fault_clock import ClockState
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.structured.history import (
    LOOKED,
    QUERY_STOPPED,
    RESCALE,
    StructuredHistory,
)
from onceproof.harness.systems.structured.rescale import RESCALE_REFUSED
from onceproof.harness.systems.structured.sinks import PLANNED, SHOWN, WRITTEN

RECORDS = {"words-0": ((0, "ant"), (1, "ant"), (2, "bee"))}
LENGTHS = {"words-0": 3}
FIRST, SECOND = {"words-0": 2}, {"words-0": 3}
FIRST_ROWS, SECOND_ROWS = [["ant", 1], ["ant", 2]], [["bee", 1]]
KILL = Fault("kill_task", "committed")


def scenario_of(name):
    drawn = generate(load_family(name), 0)
    return msgspec.structs.replace(drawn, records=RECORDS, faults=(KILL,), mode=msgspec.UNSET)


class Query:
    """A stand-in for a query: the test writes its events, its checkpoint location and its output."""

    def __init__(self, folder, name="word_count", table_keys=0):
        self.checkpoints, self.output = folder / "checkpoints", folder / "output"
        for path in (self.checkpoints / "offsets", self.checkpoints / "commits", self.output):
            path.mkdir(parents=True)
        spec = Spec(
            family=name,
            job_name=name,
            checkpoints=str(self.checkpoints),
            output=str(self.output),
            events="",
            faults=(KILL,),
        )
        self.family, self.scenario = load_family(name), scenario_of(name)
        self.builder = StructuredHistory(spec, LENGTHS, table_keys)
        self.events = []

    def log(self, kind, **payload):
        self.events.append({"at": len(self.events), "kind": kind, **payload})

    def started(self, restored=None, over=0):
        self.log(event_log.ATTEMPT_STARTED, attempt="", parallelism=1, restored=restored, over=over)

    def planned(self, batch, cut):
        encoded = msgspec.json.encode(cut).decode()
        (self.checkpoints / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{encoded}")
        self.log(PLANNED, batch=batch, cut=cut)

    def wrote(self, name, rows):
        lines = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
        (self.output / name).write_bytes(lines)

    def shown(self, batch, rows):
        self.wrote(f"batch-{batch}.jsonl", rows)
        self.log(SHOWN, batch=batch, new=rows, gone=[])

    def killed(self):
        waiting = msgspec.to_builtins(ClockState((0,)))
        self.log(event_log.FAULT_STRUCK, number=0, task="sink", waiting=waiting, points={}, read={})

    def judged(self):
        """Finish the job, and return the broken properties with their anomalies."""
        self.log(event_log.JOB_FINISHED, points={})
        self.builder.add_process_log(self.events)
        self.builder.at_rest(self.checkpoints)
        verdict = judge(self.scenario, self.builder.run.history, PythonOracle(self.family, self.scenario))
        return {(each.property, each.anomaly) for each in verdict.violations}


@pytest.fixture
def query(tmp_path):
    query = Query(tmp_path)
    query.started()
    return query


def test_batches_planned_and_shown_in_turn_break_no_property(query):
    query.planned(0, FIRST)
    query.shown(0, FIRST_ROWS)
    query.planned(1, SECOND)
    query.shown(1, SECOND_ROWS)
    assert query.judged() == set()


def test_batch_run_again_without_new_rows_breaks_no_property(query):
    query.planned(0, FIRST)
    query.shown(0, FIRST_ROWS)
    query.killed()
    query.started(restored=1)
    query.planned(0, FIRST)
    query.log(SHOWN, batch=0, new=[], gone=[])
    query.planned(1, SECOND)
    query.shown(1, SECOND_ROWS)
    assert query.judged() == set()


def test_repartition_batch_without_rows_breaks_no_property(query):
    query.planned(0, FIRST)
    query.shown(0, FIRST_ROWS)
    query.log(QUERY_STOPPED)
    query.planned(1, FIRST)
    query.started(restored=2)
    query.planned(2, SECOND)
    query.shown(2, SECOND_ROWS)
    assert query.judged() == set()


def test_rows_repeated_by_a_rescale_are_duplicated(query):
    query.planned(0, FIRST)
    query.shown(0, FIRST_ROWS)
    query.log(QUERY_STOPPED)
    query.planned(1, FIRST)
    query.started(restored=2)
    query.shown(1, FIRST_ROWS)
    query.planned(2, SECOND)
    query.shown(2, SECOND_ROWS)
    assert ("exactly_once", "duplicated") in query.judged()


def test_rescale_that_spark_refuses_is_counted_as_not_applicable(query):
    query.planned(0, SECOND)
    query.shown(0, [*FIRST_ROWS, *SECOND_ROWS])
    query.killed()
    query.log(RESCALE_REFUSED, operators=["globalLimit"])
    query.started(restored=1)
    assert query.judged() == set()
    assert query.builder.run.history.statistics.not_applicable == {RESCALE: 1}


def test_unlogged_rows_become_visible_when_the_process_dies(query):
    query.planned(0, FIRST)
    query.wrote("batch-0.jsonl", FIRST_ROWS)
    query.builder.add_process_log(query.events)
    visible = [event for event in query.builder.run.history.events if event[1] == "transaction_visible"]
    assert [(subject, Counter(payload["rows"])) for _, _, subject, payload in visible] == [
        ("batch-0", Counter([("ant", 1), ("ant", 2)]))
    ]


def test_batch_appended_again_is_visible_twice(query):
    query.planned(0, FIRST)
    query.shown(0, FIRST_ROWS)
    query.killed()
    query.started(restored=1)
    query.planned(0, FIRST)
    query.wrote("again.jsonl", FIRST_ROWS)
    query.log(SHOWN, batch=0, new=FIRST_ROWS, gone=[])
    query.planned(1, SECOND)
    query.shown(1, SECOND_ROWS)
    assert {("exactly_once", "duplicated"), ("fencing", "visible twice")} <= query.judged()


def test_omitted_batch_is_lost_and_a_skipped_commit(query):
    query.planned(0, FIRST)
    query.killed()
    query.started(restored=1)
    query.planned(1, SECOND)
    query.shown(1, SECOND_ROWS)
    assert {("exactly_once", "lost"), ("consistent_cut", "skipped commit")} <= query.judged()


def test_batch_shown_before_it_is_planned_is_an_early_commit(query):
    query.shown(0, FIRST_ROWS)
    query.planned(0, FIRST)
    query.planned(1, SECOND)
    query.shown(1, SECOND_ROWS)
    assert query.judged() == {("consistent_cut", "early commit")}


def test_rows_of_records_outside_the_planned_batch_are_a_wrong_cut(query):
    query.planned(0, FIRST)
    query.shown(0, [["ant", 1], ["bee", 1]])
    query.planned(1, SECOND)
    query.shown(1, [["ant", 2]])
    assert query.judged() == {("consistent_cut", "wrong cut")}


def test_rows_removed_after_they_were_visible_are_hidden(query):
    query.planned(0, FIRST)
    query.shown(0, FIRST_ROWS)
    query.planned(1, SECOND)
    query.shown(1, SECOND_ROWS)
    (query.output / "batch-1.jsonl").unlink()
    query.log(LOOKED, planned=[], over=[], rows=[[None, FIRST_ROWS]])
    assert ("fencing", "hidden") in query.judged()


def test_unfinished_file_of_a_sink_is_an_open_transaction(query):
    query.planned(0, SECOND)
    query.shown(0, [*FIRST_ROWS, *SECOND_ROWS])
    query.wrote(".batch-1.jsonl", [])
    assert query.judged() == {("no_leaks", "open transaction")}


def test_table_may_repeat_a_batch_but_not_show_rows_behind_the_cut(tmp_path):
    query = Query(tmp_path, "word_table", 1)
    query.started()
    query.planned(0, FIRST)
    query.log(WRITTEN, batch=0, rows=[["ant", 2]])
    query.planned(1, SECOND)
    query.log(WRITTEN, batch=1, rows=[["bee", 1]])
    query.wrote("table.jsonl", [["ant", 2], ["bee", 1]])
    query.killed()
    query.started(restored=2, over=1)
    query.planned(1, SECOND)
    query.log(WRITTEN, batch=1, rows=[["bee", 1]])
    assert query.judged() == set()

    stale = Query(tmp_path / "stale", "word_table", 1)
    stale.started()
    stale.planned(0, FIRST)
    stale.log(WRITTEN, batch=0, rows=[["ant", 1]])
    stale.planned(1, SECOND)
    stale.log(WRITTEN, batch=1, rows=[["bee", 1], ["ant", 2]])
    stale.wrote("table.jsonl", [["ant", 2], ["bee", 1]])
    assert stale.judged() == {("consistent_cut", "behind the cut")}
