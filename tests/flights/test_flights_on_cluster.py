"""The year of flights on executors: the planned kills, and the report and exit code of the command."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager

import pytest

from onceproof.harness.checkers.verdict import Verdict
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import History, Recovery
from onceproof.harness.systems.spark.system import CLUSTER_MEANS, MISSING
from onceproof.scenarios._year_of_flights import ROWS
from tests.flights import __main__ as flights_command
from tests.flights.__main__ import main, summary_lines
from tests.flights.flights_oracle import YearComparison
from tests.flights.plans import CLUSTER, CLUSTER_RESCALES, DEATHS
from tests.flights.real_input import objection_of
from tests.flights.year import FlightsTrial

SEEDS = range(200)
EPOCHS = ROWS // CLUSTER.interval_records


def test_every_plan_has_twenty_kills_of_six_kinds_and_three_rescales():
    assert sum(DEATHS.values()) == 20
    for seed in SEEDS:
        plan = CLUSTER.faults(seed, ROWS)
        assert plan == CLUSTER.faults(seed, ROWS)
        assert Counter((fault.kind, fault.means) for fault in plan) == DEATHS
        assert tuple(fault.rescale_to for fault in plan if fault.rescale_to) == CLUSTER_RESCALES
        for fault in plan:
            assert fault.point in FAULTS[fault.kind].points
            assert (fault.kind, fault.point) not in MISSING
            assert not fault.means or fault.means in CLUSTER_MEANS & set(FAULTS[fault.kind].means)
    assert len({CLUSTER.faults(seed, ROWS) for seed in SEEDS}) == len(SEEDS)


def test_every_kill_at_a_checkpoint_has_an_epoch_of_its_own():
    for seed in SEEDS:
        plan = [fault for fault in CLUSTER.faults(seed, ROWS) if fault.point != "element"]
        # A kill at a point that restores causes takes place in the epoch after that checkpoint.
        epochs = [fault.checkpoint + (fault.point in ("restoring", "restored")) for fault in plan]
        assert epochs == sorted(set(epochs))
        assert epochs[0] > 1
        assert epochs[-1] < EPOCHS


def test_kills_strike_at_every_point_at_which_they_can():
    found = {(fault.kind, fault.point) for seed in SEEDS for fault in CLUSTER.faults(seed, ROWS)}
    wanted = {
        (kind, point)
        for kind, _ in DEATHS
        for point in FAULTS[kind].points
        if (kind, point) not in MISSING and point != "end_of_data"
    }
    assert found == wanted


def trial_of(plan, parallelisms, missed=0):
    """Return what gives a trial in which all planned kills struck, but for the last ``missed``."""
    history = History()
    for step, parallelism in enumerate(parallelisms):
        history.attempt_started(step, f"1.{step}", parallelism, None)
        history.checkpoint_completed(step, step + 1, f"1.{step}", {}, [])
    history.statistics.recoveries = [
        Recovery(
            fault.kind,
            fault.point,
            "table-0",
            2,
            restored=number,
            parallelism_after=fault.rescale_to or 2,
            seconds=number / 2,
            means=fault.means,
        )
        for number, fault in enumerate(plan[: len(plan) - missed])
    ]
    verdict = Verdict(())
    return lambda plan_of_run, files, folder, seed, progress: FlightsTrial(
        history, verdict, plan, tuple(files), folder, ROWS, "a cluster", "the driver", 12.0
    )


PLAN = CLUSTER.faults(0, ROWS)


@pytest.fixture
def flown(monkeypatch, tmp_path):
    """Run the command over given trial and comparison, without Spark and without reading the year."""

    @contextmanager
    def no_session(name):
        yield None

    def run(trial, comparison, *arguments):
        monkeypatch.setattr(flights_command, "run_plan", trial)
        monkeypatch.setattr(flights_command, "find_java", dict)
        monkeypatch.setattr(flights_command, "write_year", lambda folder: [])
        monkeypatch.setattr(flights_command, "spark_session", no_session)
        monkeypatch.setattr(flights_command, "compare_year", lambda *given: comparison)
        return main(["--out", str(tmp_path / "out"), *arguments])

    return run


EQUAL = YearComparison(ROWS, ROWS, 0, 0, ())


def test_an_equal_year_is_reported_kill_by_kill(flown, capsys):
    assert flown(trial_of(PLAN, (2, 2, 4, 1, 1, 3)), EQUAL) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if "  kill of " in line]) == 20
    kinds = lines[lines.index("kills  median s  worst s  of") + 1 : -3]
    assert [line.split()[0] for line in kinds] == ["6", "1", "4", "1", "4", "4"]
    assert kinds[-1].endswith("the Java of the driver")
    assert lines[-2] == (
        "20 kills, 3 rescales (parallelism 2 -> 4 -> 1 -> 3), 6 checkpoints, 0 records read again, 12 s"
    )
    assert lines[-1] == "flights on a cluster: 336,776 records under 20 kills, equal to the row"


def test_rows_that_differ_kills_that_missed_and_rescales_that_never_came_fail(flown, capsys):
    whole = (2, 4, 1, 3)
    different = YearComparison(ROWS, ROWS - 1, 1, 0, ())
    assert flown(trial_of(PLAN, whole), different) == 1
    assert "1 row differ from the oracle" in capsys.readouterr().out
    assert flown(trial_of(PLAN, whole, missed=1), EQUAL) == 1
    assert "only 19 of 20 planned kills struck" in capsys.readouterr().out
    assert flown(trial_of(PLAN, (2, 4, 1)), EQUAL, "--json") == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["error"] == "only 2 of 3 planned rescales came about"
    assert "20 kills, 2 rescales" in printed.err


def test_a_kill_that_showed_nothing_new_has_no_time(tmp_path):
    trial = trial_of(PLAN, (2, 4, 1, 3))(CLUSTER, [], tmp_path, 0, None)
    for recovery in trial.history.statistics.recoveries:
        recovery.seconds = None
    lines = list(summary_lines(trial))
    assert lines[0].endswith("; no new rows")
    assert any(line.split()[:3] == ["6", "-", "-"] for line in lines)
    assert objection_of(trial) == ""


def test_a_system_without_the_year_is_refused_in_one_line(capsys):
    assert main(["--system", "simulated"]) == 4
    assert (
        capsys.readouterr().err
        == "onceproof: --system simulated: the year of flights runs on local, spark, spark-cluster\n"
    )
