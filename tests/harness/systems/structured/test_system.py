"""Queries of Structured Streaming under real SIGKILLs, judged by the same checkers and the same oracles.

One driver serves all tests but the last, which kills it, because a start of Spark takes longer than a test.
The user's query is read from harness/docs/structured-streaming.md.
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
from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import ATTEMPT_STARTED, JOB_FINISHED, ROWS_WRITTEN, TRANSACTION_VISIBLE
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.structured.system import StructuredStreamingSystem
from onceproof.harness.trials.examination import examine
from onceproof.harness.trials.real_shrinking import RealRuns, shrink
from onceproof.harness.trials.trial import scenario_of, try_scenario

pytestmark = [pytest.mark.spark, pytest.mark.local_kill]

PAGE = Path(__file__).parents[4] / "harness" / "docs" / "structured-streaming.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of the runs' files."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def system(folder):
    with closing(StructuredStreamingSystem(folder)) as system:
        yield system


def blocks(language):
    """Yield (file, content) of the code blocks of the page. The text before a block names its file last."""
    text = PAGE.read_text(encoding="utf-8")
    for before, content in re.findall(rf"(.*?)```{language}\n(.*?)```\n", text, re.DOTALL):
        yield re.findall(r"`(\w+\.py)`", before)[-1], content


@pytest.fixture
def payments(tmp_path):
    """Return the file of the family on the page, with the correct query."""
    for file, content in blocks("python"):
        (tmp_path / file).write_text(content, encoding="utf-8")
    return tmp_path / "payments_family.py"


@pytest.fixture
def careless_payments(payments):
    """Return the file of the same family with the mistaken query."""
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
    """Return a drawn scenario with these faults and with parallelism 1."""
    drawn = scenario_of(family, seed)
    return msgspec.structs.replace(
        drawn, faults=faults, mode=msgspec.UNSET, parallelism=1, source_parallelism=1
    )


def survived(system, name, seed, *faults):
    """Check that a run passes and that each fault strikes once; return its history."""
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


def test_transform_with_state_in_pandas_survives_kills_with_rescales(system, folder):
    history = survived(
        system,
        "page_views",
        16,
        Fault("kill_all", "element", occurrence=2, rescale_to=3),
        Fault("kill_task", "committed", occurrence=2, rescale_to=2),
    )
    # The query is stopped after the first batch, and its state is repartitioned.
    # The second kill strikes before the commit log lists the batch, so Spark runs it again as it was planned.
    assert parallelisms(history) == [1, 3, 3, 2]
    assert [each["epoch"] for each in payloads(history, TRANSACTION_VISIBLE)] == [0, 2, 4, 5]
    [run] = folder.iterdir()
    assert sorted(path.name for path in (run / "checkpoints" / "state" / "0").glob("[0-9]*")) == [
        "0",
        "1",
        "2",
    ]


def test_apply_in_pandas_with_state_survives_a_kill_and_a_failed_commit(system):
    history = survived(
        system,
        "running_sum",
        12,
        Fault("kill_task", "pre_committed", occurrence=2),
        Fault("fail_commit", "committing", checkpoint=2),
    )
    # Spark gives the writer's work to another worker. The failed commit ends the query.
    assert restored(history) == [None, 2]


def test_the_file_sink_survives_the_death_of_the_source(system):
    history = survived(system, "flights", 56, Fault("kill_task", "notified"))
    assert len(restored(history)) == 2


def test_aggregation_may_write_the_same_table_rows_again(system):
    history = survived(system, "word_table", 6, Fault("kill_task", "committed", checkpoint=1))
    # The commit log does not list the first batch, so the query starts afresh. Equal rows change nothing.
    assert restored(history) == [None, None]
    first, again, *_ = payloads(history, ROWS_WRITTEN)
    assert (bool(first["rows"]), again["rows"]) == (True, [])


def test_family_without_a_query_is_refused_in_one_line(system):
    with pytest.raises(FamilyError, match="'tickets' has no job for structured_streaming: give it"):
        system.run(load_family("tickets"), with_faults(load_family("tickets"), 6))


def test_documented_query_survives_kills_that_its_mistaken_variant_does_not(
    system, payments, careless_payments
):
    # The second fault alone is enough for the failure.
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


REPLACED = Path(__file__).with_name("replaced_rows.py")


def changed(tmp_path, name, *changes):
    """Return the file of the family that replaces rows, with some parts of it changed."""
    text = REPLACED.read_text(encoding="utf-8")
    for part, other in changes:
        assert part in text
        text = text.replace(part, other)
    path = tmp_path / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_function_that_replaces_rows_by_key_survives_a_kill(system):
    kill = Fault("kill_task", "committed", checkpoint=2)
    history = survived(system, str(REPLACED), 6, kill)
    assert len(restored(history)) == 2
    assert len(payloads(history, ROWS_WRITTEN)) >= 3


def test_function_that_loses_the_keys_of_other_batches_is_caught(system, tmp_path):
    losing = changed(tmp_path, "losing", ("if path.exists() else []", "if False else []"))
    family = load_family(losing)
    # A split that ends before the other has no row in the last batches.
    drawn = with_faults(family, 6)
    records = {"ann": drawn.records["ann"][:1], "bob": (*drawn.records["bob"], *drawn.records["bob"])}
    trial = try_scenario(family, msgspec.structs.replace(drawn, records=records), system=system)
    assert ("fencing", "hidden") in [each.signature() for each in trial.verdict.violations]


def test_replaced_rows_where_added_ones_are_expected_are_said_so(system, tmp_path):
    added = changed(
        tmp_path,
        "added",
        ("io.table(totals, 1, merged(io.output))", "io.for_each_batch(totals, merged(io.output), 'update')"),
        ("table_keys=1, versions=versions, ", ""),
        ("versions", "running_totals"),
    )
    family = load_family(added)
    examined = examine(system, family, with_faults(family, 6), None, 60.0)
    mistake = examined.mistake
    assert mistake is not None
    assert (mistake.member, mistake.title) == ("table_keys", "rows are replaced, not added")
    assert "return io.table(rows, keys, store) from the query" in mistake.sentence


def test_query_survives_repeated_deaths_of_all_workers(system, payments):
    faults = (
        Fault("kill_all", "element", occurrence=2),
        Fault("kill_all", "pre_committed", occurrence=2),
    )
    survived(system, str(payments), 3, *faults)
    # The daemon that forks workers is still alive, so the same driver can run another job.
    survived(system, str(payments), 3)


def test_transform_with_state_survives_a_driver_kill_before_the_commit_log(system):
    history = survived(system, "word_count", 6, Fault("kill_process", "committed", checkpoint=1))
    # The batch was planned and shown. The next driver runs it again without new visible rows.
    assert restored(history) == [None, 1]
    epochs = [each["epoch"] for each in payloads(history, TRANSACTION_VISIBLE)]
    assert len(epochs) > 1
    assert epochs == [*range(len(epochs))]
