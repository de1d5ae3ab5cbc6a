"""The year of flights on Spark: the planned kills, and the verdict on a part of the year."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.systems.spark.points import DRIVER_POINTS, MISSING
from onceproof.reports.headline import real_input_failed, real_input_text
from onceproof.scenarios._year_of_flights import ROWS, write_year
from tests.flights.flights_oracle import compare_year
from tests.flights.plans import SPARK, WORKER_KILLS, run_plan
from tests.flights.real_input import real_input_of

SEEDS = range(40)
EPOCHS = ROWS // SPARK.interval_records


def test_every_plan_has_the_deaths_of_five_workers_and_one_driver():
    for seed in SEEDS:
        plan = SPARK.faults(seed, ROWS)
        assert plan == SPARK.faults(seed, ROWS)
        [driver] = [fault for fault in plan if fault.kind == "kill_process"]
        workers = [fault for fault in plan if fault is not driver]
        assert len(workers) == WORKER_KILLS
        assert driver.point in DRIVER_POINTS
        assert driver.rescale_to == 3
        # After a pre-commit, between snapshot and upload, in the middle of a write, and all at once.
        assert {
            ("kill_task", "pre_committed"),
            ("kill_task", "snapshotted"),
            ("tear_write", "snapshotted"),
        } <= {(fault.kind, fault.point) for fault in workers}
        assert [fault.kind for fault in workers].count("kill_all") == 1
        assert all(fault.point in FAULTS[fault.kind].points for fault in plan)
        assert not {(fault.kind, fault.point) for fault in plan} & MISSING.keys()


def test_every_plan_is_spread_over_the_year_in_the_order_of_time():
    for seed in SEEDS:
        plan = SPARK.faults(seed, ROWS)
        checkpoints = [fault.checkpoint for fault in plan if fault.checkpoint]
        assert checkpoints == sorted(set(checkpoints))
        assert checkpoints[0] >= 1
        assert checkpoints[-1] < EPOCHS
        assert checkpoints[-1] - checkpoints[0] >= EPOCHS // 2
        # There is a checkpoint to restore when the driver dies.
        assert plan[0].kind != "kill_process"
    assert len({SPARK.faults(seed, ROWS) for seed in SEEDS}) == len(SEEDS)


@pytest.mark.spark
@pytest.mark.local_kill
def test_a_part_of_the_year_comes_out_right_under_all_deaths(spark, tmp_path):
    (tmp_path / "part").mkdir()
    files = []
    for path in write_year(tmp_path / "whole"):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        files.append(tmp_path / "part" / path.name)
        files[-1].write_text("".join(lines[:3001]), encoding="utf-8")
    seen = []
    trial = run_plan(
        replace(SPARK, interval_records=700, buffer_records=20),
        files,
        tmp_path / "run",
        1,
        progress=lambda history: seen.append(len(history.events)),
    )
    assert trial.verdict.violations == ()
    assert (trial.kills, trial.records) == (6, 9000)
    assert trial.checkpoints >= 9000 // 700
    # One driver was killed, and another one finished the job.
    assert len(seen) == 2
    comparison = compare_year(spark, load_family("flights"), files, trial.output)
    assert (comparison.expected, comparison.committed, comparison.equal) == (9000, 9000, True)
    real = real_input_of(trial, comparison, "make nightly", SPARK.name)
    assert not real_input_failed(real)
    assert real_input_text(real) == "flights on Spark: 9,000 records under 6 kills, equal to the row"
    assert sum("in the middle of its write" in kill.task for kill in real.kills) == 1
    assert sum(kill.task.startswith("the driver, in ") for kill in real.kills) == 1
    assert all(kill.recovery_seconds is not None for kill in real.kills)
    # Kills that did not strike prove nothing, though all rows are right.
    trial.history.statistics.recoveries.pop()
    missed = real_input_of(trial, comparison)
    assert real_input_failed(missed)
    assert missed.error == "only 5 of 6 planned kills struck"
