"""Queries of Structured Streaming under real SIGKILLs, judged by the same checkers and the same oracles.

One driver serves all tests but the last, which kills it: a start of Spark is the dearest part of them. The
query of a user's own is the one of harness/docs/structured-streaming.md, as it stands there.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from onceproof.harness.explanation.explanation import explain
from onceproof.harness.explanation.visible_run import recovery_text, visible_trace
from onceproof.harness.model.family import FamilyError, load_family
from onceproof.harness.model.history import ATTEMPT_STARTED, JOB_FINISHED, ROWS_WRITTEN, TRANSACTION_VISIBLE
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.structured.structured_system import StructuredStreamingSystem
from onceproof.harness.trials.real_shrinking import RealRuns, shrink
from onceproof.harness.trials.trial import scenario_of, try_scenario

pytestmark = [pytest.mark.spark, pytest.mark.local_kill]

PAGE = Path(__file__).parents[4] / "harness" / "docs" / "structured-streaming.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the runs leave what they have."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def system(folder):
    with closing(StructuredStreamingSystem(folder)) as system:
        yield system


def blocks(language):
    """The blocks of the page, with the file that the text before them names last."""
    text = PAGE.read_text(encoding="utf-8")
    for before, content in re.findall(rf"(.*?)```{language}\n(.*?)```\n", text, re.DOTALL):
        yield re.findall(r"`(\w+\.py)`", before)[-1], content


@pytest.fixture
def payments(tmp_path):
    """The family of the page, over the sound query."""
    for file, content in blocks("python"):
        (tmp_path / file).write_text(content, encoding="utf-8")
    return tmp_path / "payments_family.py"


@pytest.fixture
def careless_payments(payments):
    """The same family, over the query with the mistake, under names of its own."""
    [(_, change)] = blocks("diff")
    lines = change.splitlines(keepends=True)
    old, new = ("".join(line[1:] for line in lines if line[0] in signs) for signs in (" -", " +"))
    query = payments.with_name("payments.py").read_text(encoding="utf-8")
    assert query.count(old) == 1
    payments.with_name("careless.py").write_text(query.replace(old, new), encoding="utf-8")
    family = payments.read_text(encoding="utf-8").replace(
        "import payments\n", "import careless as payments\n"
    )
    path = payments.with_name("careless_family.py")
    path.write_text(family, encoding="utf-8")
    return path


def with_faults(family, seed, *faults):
    """A scenario of a family with other faults than were drawn for it, for one task of each kind."""
    drawn = scenario_of(family, seed)
    return msgspec.structs.replace(
        drawn, faults=faults, mode=msgspec.UNSET, parallelism=1, source_parallelism=1
    )


def survived(system, name, seed, *faults):
    """Return the history of a run in which every fault has struck, and nothing is wrong."""
    family = load_family(name)
    trial = try_scenario(family, with_faults(family, seed, *faults), system=system)
    assert trial.verdict.violations == ()
    assert trial.history.statistics.coverage == Counter([(fault.kind, fault.point) for fault in faults])
    assert payloads(trial.history, JOB_FINISHED) == [{}]
    return trial.history


def payloads(history, kind):
    return [payload for _, each, _, payload in history.events if each == kind]


def parallelisms(history):
    return [payload["parallelism"] for payload in payloads(history, ATTEMPT_STARTED)]


def restored(history):
    return [payload["restored"] for payload in payloads(history, ATTEMPT_STARTED)]


def test_transform_with_state_in_pandas_survives_rescales_the_death_of_all_workers_and_of_the_sink(
    system, folder
):
    history = survived(
        system,
        "page_views",
        16,
        Fault("kill_all", "element", occurrence=2, rescale_to=3),
        Fault("kill_task", "committed", occurrence=2, rescale_to=2),
    )
    # After the first batch the query is stopped, and its state dealt out anew. The second kill leaves a batch
    # that Spark does not know to be over: it is run again as it was planned.
    assert parallelisms(history) == [1, 3, 3, 2]
    assert [each["epoch"] for each in payloads(history, TRANSACTION_VISIBLE)] == [0, 2, 4, 5]
    [run] = folder.iterdir()
    assert sorted(path.name for path in (run / "checkpoints" / "state" / "0").glob("[0-9]*")) == [
        "0",
        "1",
        "2",
    ]


def test_apply_in_pandas_with_state_survives_the_death_of_a_writer_and_a_refused_commit(system):
    history = survived(
        system,
        "running_sum",
        12,
        Fault("kill_task", "pre_committed", occurrence=2),
        Fault("fail_commit", "committing", checkpoint=2),
    )
    # Spark gives the writer's work to another worker; the refused commit ends the query.
    assert restored(history) == [None, 2]


def test_the_file_sink_survives_the_death_of_the_source(system):
    history = survived(system, "flights", 56, Fault("kill_task", "notified"))
    assert len(restored(history)) == 2


def test_an_aggregation_may_write_rows_of_a_table_again(system):
    history = survived(system, "word_table", 6, Fault("kill_task", "committed", checkpoint=1))
    # The first batch had not been noted as over, so the query begins anew; the same rows change nothing.
    assert restored(history) == [None, None]
    assert len(payloads(history, ROWS_WRITTEN)) == 3


def test_a_family_without_a_query_is_told_in_a_line(system):
    with pytest.raises(FamilyError, match="'tickets' has no query for Structured Streaming: give it"):
        system.run(load_family("tickets"), with_faults(load_family("tickets"), 6))


def test_the_query_of_the_readme_survives_what_its_careless_twin_does_not(
    system, payments, careless_payments
):
    # The second of them is enough.
    faults = (
        Fault("kill_task", "restoring"),
        Fault("kill_task", "committed", checkpoint=1),
    )
    survived(system, str(payments), 3, *faults)
    family = load_family(str(careless_payments))
    scenario = with_faults(family, 3, *faults)
    runs = RealRuns(lambda each: try_scenario(family, each, system=system), most_runs=5)
    shrunk = shrink(scenario, runs, system)
    assert shrunk.signature == shrunk.trial.verdict.signature == ("exactly_once", "duplicated")
    assert runs.runs == 5
    assert shrunk.scenario.faults == faults[1:]
    assert 0 < shrunk.scenario.record_count() < scenario.record_count()
    history = shrunk.trial.history
    explanation = explain(shrunk.scenario, history, None, shrunk.trial.verdict)
    assert "is visible twice instead of once, committed by batch-0" in explanation.sentence
    assert "sink was killed at the point committed" in explanation.cause
    assert "Attempt 2.1, which started from checkpoint 1" in explanation.cause
    trace = visible_trace(history)
    assert trace["lanes"] == ["job", "sink", "query", "output"]
    [kill] = trace["kills"]
    assert kill["lanes"] == ["sink"]
    shown = [mark["step"] for mark in trace["marks"] if mark["label"] == "batch-0"]
    assert shown[0] < kill["step"] < shown[1]
    [recovery] = map(recovery_text, history.statistics.recoveries)
    assert "started again from checkpoint 1" in recovery
    assert "new rows became visible after" in recovery


def test_a_query_survives_the_death_of_all_workers_when_hardly_any_are_left(system, payments):
    faults = (
        Fault("kill_all", "element", occurrence=2),
        Fault("kill_all", "pre_committed", occurrence=2),
    )
    survived(system, str(payments), 3, *faults)
    # Spark still has who forks workers, and so the same driver does work again.
    survived(system, str(payments), 3)


def test_transform_with_state_survives_the_death_of_the_driver_before_spark_knows_of_the_commit(system):
    history = survived(system, "word_count", 6, Fault("kill_process", "committed", checkpoint=1))
    # The batch was planned and shown; the next driver runs it again, and nobody sees that.
    assert restored(history) == [None, 1]
    assert [each["epoch"] for each in payloads(history, TRANSACTION_VISIBLE)] == [0, 1]
