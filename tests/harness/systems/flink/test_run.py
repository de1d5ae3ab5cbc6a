"""A run on Flink decides what a job is about where Flink does not say so."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from onceproof.harness.systems.flink.cluster import FlinkAway
from onceproof.harness.systems.flink.run import FlinkRun, _Savepoint
from tests.harness.systems.words import scenario_with


@pytest.fixture
def run(tmp_path):
    folders = {name: tmp_path / name for name in ("output", "checkpoints", "kept", "stops")}
    for folder in folders.values():
        folder.mkdir()
    order = SimpleNamespace(
        **folders,
        log=tmp_path / "log",
        row_of=lambda: tuple,
        sink_topic=lambda: None,
        check_sink_topic=lambda history: None,
    )
    return FlinkRun(scenario_with(), (), order, SimpleNamespace())


def test_job_whose_latest_checkpoint_is_deleted_has_finished(run):
    happened = []
    run._history = SimpleNamespace(
        latest=7,
        history=None,
        attempts_without_a_cause=0,
        look=lambda *seen: [],
        job_finished=lambda: happened.append("finished"),
        job_started=lambda *how: happened.append("started"),
    )
    run._submit()
    assert happened == ["finished"]
    assert run._is_over


def test_finished_job_owes_an_answer_for_some_seconds_only(run):
    run._state = "RUNNING"
    assert run._owes_an_answer(100.0)
    run._state = "FINISHED"
    assert run._owes_an_answer(100.0)
    assert run._owes_an_answer(105.0)
    assert not run._owes_an_answer(111.0)
    run._state = "RUNNING"
    assert run._owes_an_answer(112.0)
    run._state = "FINISHED"
    assert run._owes_an_answer(113.0)


def test_run_that_is_cut_off_says_what_it_waited_for(run):
    def away(*request):
        raise FlinkAway

    run._cluster = SimpleNamespace(request=away)
    assert run._what_it_does() == "the job is without an answer"
    run._cluster = SimpleNamespace(request=lambda *request: {"state": "RUNNING"})
    run._savepoint = _Savepoint("1", None)
    assert run._what_it_does() == "the job is RUNNING, and a drain has no answer"
