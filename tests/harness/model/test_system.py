"""Systems by name, and the faults that each supports."""

from __future__ import annotations

import subprocess
import sys

import pytest

from onceproof.harness.model import fault_answers
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.fault_answers import CarriedOut
from onceproof.harness.model.fault_kinds import FAULT_KINDS, MESSAGES_ALONE, POINTS
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import Fault, Operation
from onceproof.harness.model.system import (
    UnknownSystem,
    answers_of,
    applicable,
    can_strike,
    capabilities_of,
    find_system,
    prepared,
    reason_against,
    requests_left,
)
from onceproof.harness.model.system_homes import system_names
from onceproof.harness.systems.local.system import LocalSystem


def test_every_system_is_found_by_its_name():
    for name in system_names():
        system = find_system(name)
        assert system.name == name
        assert system.capabilities <= set(Capability)
        assert all(point in (*POINTS, *MESSAGES_ALONE) for _, point in system.missing)


@pytest.mark.parametrize(
    ("name", "said"),
    [("lokal", "did you mean local?"), ("storm", "there are simulated, simulated-rocksdb, local")],
)
def test_unknown_system_is_refused_in_one_line(name, said):
    with pytest.raises(UnknownSystem, match=said) as caught:
        find_system(name)
    assert "\n" not in str(caught.value)


def test_every_kind_of_fault_needs_a_capability():
    assert tuple(FAULTS) == FAULT_KINDS


@pytest.mark.parametrize("name", system_names())
def test_every_system_answers_every_kind_with_a_method_or_a_reason(name):
    system, answers = find_system(name), answers_of(name)
    assert tuple(answers) == FAULT_KINDS
    for kind, answer in answers.items():
        points = tuple(point for point in FAULTS[kind].points if can_strike(system, kind, point))
        if isinstance(answer, CarriedOut):
            assert answer.points == points
            assert callable(answer.method)
        else:
            assert points == ()
        assert str(answer).endswith("."), "one sentence, for reports and docs"
    assert all(reason.endswith(".") for reason in system.missing.values())


@pytest.mark.parametrize(
    ("name", "family", "reason"),
    [
        ("structured_streaming", "word_count", ""),
        ("structured_streaming", "postgres_rows", "the family has no job for structured_streaming"),
        ("simulated", "postgres_rows", ""),
        ("local", "postgres_rows", ""),
        ("spark", "postgres_rows", "it starts no server, and the family needs postgres"),
        ("bytewax", "word_count", ""),
        ("bytewax", "postgres_rows", "the family has no job for bytewax"),
        ("quix", "word_count", ""),
        ("quix", "page_views", "the family has no job for quix"),
        ("command", "word_count", "it runs programs: give a FILE.toml"),
        ("command", "scenarios/programs/totals/totals.toml", ""),
        ("local", "scenarios/programs/totals/totals.toml", "a program runs on the system command"),
    ],
)
def test_system_says_why_it_cannot_run_a_family(name, family, reason):
    assert reason_against(name, load_family(family)) == reason


def test_capability_without_a_method_is_refused():
    with pytest.raises(KeyError):
        fault_answers.answers(frozenset({Capability.PAUSES}), {})


def test_each_capability_that_a_fault_needs_has_a_reason_for_its_absence():
    answers = fault_answers.answers(frozenset(), {})
    assert tuple(answers) == FAULT_KINDS
    assert all(str(answer).endswith(".") for answer in answers.values())


def test_unsupported_faults_are_counted_and_not_planned():
    kill = Fault("kill_process", "completed")
    lost = Fault("lose_message", "notified")
    torn = Fault("tear_write", "metadata_written")
    taken, left = applicable((kill, lost, torn, lost), LocalSystem.capabilities)
    assert taken == (kill,)
    assert left == {("lose_message", "notified"): 2, ("tear_write", "metadata_written"): 1}


def test_fault_of_a_server_that_the_family_lacks_is_not_planned():
    fault, kinds = Fault("cut_connection", "committed", server="kafka"), frozenset({Capability.SERVER_FAULTS})
    assert applicable((fault,), kinds, servers=["kafka"])[0] == (fault,)
    for capabilities, servers in ((kinds, ["postgres"]), (frozenset(), ["kafka"])):
        assert applicable((fault,), capabilities, servers=servers) == ((), {(fault.kind, fault.point): 1})


def test_fault_at_a_point_that_the_system_never_passes_is_not_planned():
    system = find_system("spark")
    commits, aligned = Fault("kill_task", "committing"), Fault("kill_task", "aligned")
    taken, left = applicable((commits, aligned), system.capabilities, system.missing)
    assert (taken, left) == ((aligned,), {("kill_task", "committing"): 1})
    assert can_strike(system, "kill_task", "aligned")
    assert not can_strike(system, "kill_task", "committing")
    assert not can_strike(system, "lose_message", "notified")


def test_kill_with_a_rescale_needs_both_capabilities():
    kill = Fault("kill_task", "completed", rescale_to=2)
    assert applicable((kill,), frozenset({Capability.KILL_TASK}))[0] == ()
    assert applicable((kill,), frozenset({Capability.KILL_TASK, Capability.RESCALE}))[0] == (kill,)


@pytest.mark.parametrize("started", ["systems.local.run", "trials.worker", "trials.supervised_checks"])
def test_process_starts_without_what_it_may_never_need(started):
    code = f"import onceproof.harness.{started}, sys; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    heavy = {"hypothesis", "pyspark", "typer", "rich", "numpy", "pandas", "pyarrow", "jinja2", "chaospy"}
    assert heavy.isdisjoint(modules.split())
    # A fifth of the start altogether: asynchronous requests, states in databases, other processes.
    assert {"asyncio", "rocksdict", "psutil"}.isdisjoint(modules.split())


def test_rescale_of_a_running_job_is_left_out_and_counted_where_none_can_be(make_scenario):
    rescale = Operation("rescale", "element", parallelism=2)
    drawn = make_scenario(operations=(rescale, Operation("savepoint", "completed"), rescale))
    left = {name for name in system_names() if Capability.RESCALE_RUNNING not in capabilities_of(name)}
    assert set(system_names()) - left == {"simulated", "simulated-rocksdb", "local-workers"}
    as_run = prepared(find_system("local"), drawn)
    assert as_run.asked == (Operation("savepoint", "completed"),)
    assert requests_left(drawn, as_run) == {("rescale", "element"): 2}
    assert prepared(find_system("simulated"), drawn) == drawn
