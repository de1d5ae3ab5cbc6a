"""The year of flights under drawn kills: the planned kills, and the verdict on a part of the year."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.systems.kit.incarnations import NEIGHBOUR
from onceproof.harness.systems.local.system import LocalRun
from onceproof.harness.systems.process.job_specification import HIDDEN
from onceproof.reports.headline import real_input_failed, real_input_text
from onceproof.scenarios._year_of_flights import ROWS, write_year
from tests.flights.flights_oracle import YearComparison
from tests.flights.plans import KILLS, LOCAL, run_plan
from tests.flights.real_input import failed_input, real_input_of
from tests.flights.year import YearOracle, read_flights, read_rows, scenario_of

SEEDS = range(40)
CHECKPOINTS = ROWS // LOCAL.interval_records
SHORTEST_LOG = 104_662
"""The number of flights of La Guardia."""
PUT_OFF = 25_000
"""By how many records the kills of a year delay its last checkpoints, as measured."""


def part_of_year(folder: Path, records: int) -> list[Path]:
    """Return the first flights of the year, in files of their own."""
    whole = write_year(folder / "whole")
    files = []
    for path in whole:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        files.append(folder / path.name)
        files[-1].write_text("".join(lines[: records + 1]), encoding="utf-8")
    return files


def visible_parts(folder: Path) -> list[Path]:
    """Return the committed part files. The hidden ones are those of another job that uses the same folder."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith(HIDDEN))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return part_of_year(tmp_path_factory.mktemp("flights"), 3000)


SHORT = replace(LOCAL, interval_records=300, buffer_records=10)
"""A part of the year with as many checkpoints as the whole year has."""


def test_every_plan_has_what_was_promised():
    for seed in SEEDS:
        plan = LOCAL.faults(seed, ROWS)
        assert plan == LOCAL.faults(seed, ROWS)
        assert len(plan) == KILLS
        assert sum(fault.kind == "kill_process" for fault in plan) >= 10
        points = [fault.point for fault in plan]
        assert len(set(points)) == KILLS
        assert {"committing", "restoring", "metadata_written"} <= set(points)
        assert [fault.rescale_to for fault in plan if fault.rescale_to] == [3, 2]
        assert all(fault.point in FAULTS[fault.kind].points for fault in plan)


def test_every_plan_is_spread_over_the_year_in_the_order_of_time():
    for seed in SEEDS:
        plan = LOCAL.faults(seed, ROWS)
        checkpoints = [fault.checkpoint for fault in plan if fault.checkpoint]
        assert checkpoints == sorted(set(checkpoints))
        # A log that has ended passes no more points; the logs are read side by side.
        assert checkpoints[-1] * LOCAL.interval_records + PUT_OFF <= 3 * SHORTEST_LOG
        assert checkpoints[-1] - checkpoints[0] >= CHECKPOINTS // 2
        # Points that only a restore passes come after a kill behind some checkpoint, the end of the data
        # last.
        assert not {fault.point for fault in plan[:2]} & {"restoring", "restored", "aborted"}
        assert "end_of_data" not in [fault.point for fault in plan[:-1]]


def test_plans_differ():
    assert len({LOCAL.faults(seed, ROWS) for seed in SEEDS}) == len(SEEDS)


@pytest.mark.local_kill
def test_a_part_of_the_year_comes_out_right_under_all_kills(files, tmp_path):
    # The test of a night flies the plan of another seed.
    seen = []
    trial = run_plan(SHORT, files, tmp_path, 0, progress=lambda history: seen.append(len(history.events)))
    assert trial.verdict.violations == ()
    assert (trial.kills, trial.records) == (KILLS, 9000)
    assert trial.rescales == 2
    assert trial.checkpoints >= 9000 // 330
    assert len(seen) == 1 + sum(fault.kind == "kill_process" for fault in trial.planned)
    rows = [row for path in visible_parts(trial.output) for row in read_rows(path)]
    assert len(rows) == 9000
    assert all(type(value) is int for row in rows for value in row[2:])
    hidden = set(trial.output.iterdir()) - set(visible_parts(trial.output))
    assert {row for path in hidden for row in read_rows(path)} == {(NEIGHBOUR,)}
    equal = YearComparison(9000, 9000, 0, 0, ())
    real = real_input_of(trial, equal)
    assert not real_input_failed(real)
    assert real_input_text(real) == "flights: 9,000 records under 12 kills, equal to the row"
    assert all(kill.recovery_seconds for kill in real.kills[:-1])


@pytest.mark.local_kill
def test_a_difference_is_reported_if_only_the_checkers_or_the_comparison_see_it(files, tmp_path, monkeypatch):
    run = LocalRun.run

    def losing(self):
        history = run(self)
        lost = visible_parts(Path(self.spec.output))[0]
        lost.unlink()
        step, kind, name, payload = next(event for event in history.events if event[2] == lost.name)
        history.events[history.events.index((step, kind, name, payload))] = (
            step,
            kind,
            name,
            {**payload, "rows": []},
        )
        return history

    monkeypatch.setattr(LocalRun, "run", losing)
    trial = run_plan(replace(SHORT, draw=lambda *_: ()), files, tmp_path, 0)
    assert trial.verdict.signature == ("exactly_once", "lost")
    sample = ((("UA", "EWR", "1", "0", "2"), 1), (("UA", "EWR", "1", "0", "3"), -1))
    differing = real_input_of(trial, YearComparison(9000, 9000, 1, 1, sample))
    assert real_input_failed(differing)
    assert [difference.mark for difference in differing.differences] == ["wrong value"]
    # The comparison saw no difference, the checkers did.
    unseen = real_input_of(trial, YearComparison(9000, 9000, 0, 0, ()))
    assert real_input_failed(unseen)
    assert "exactly once, lost" in real_input_text(unseen)


def test_a_year_that_could_not_be_run_has_failed():
    real = failed_input("the package is not installed")
    assert real_input_failed(real)
    assert real_input_text(real) == "flights: the package is not installed"


def test_the_oracle_of_the_year_is_that_of_the_family(files):
    records = {path.stem: read_flights(path)[:500] for path in files}
    oracle = YearOracle(records)
    family = PythonOracle(load_family("flights"), scenario_of(0, records, ()))
    assert oracle.rows() == family.rows()
    cut = {"EWR": 17, "JFK": 500}
    assert oracle.rows_at(cut) == family.rows_at(cut)


def test_a_line_that_is_no_row_is_a_row_that_nothing_explains(tmp_path):
    path = tmp_path / "part"
    path.write_text("UA,EWR,1,0,-3\nUA,EWR,tw", encoding="utf-8")
    assert read_rows(path) == [("UA", "EWR", 1, 0, -3), ("UA", "EWR", "tw")]
