"""`onceproof sensitivity`: measure on Spark which parameters drive the cost of recovery.

The rules this module lives by:

- The result is a section of the report in a folder. It replaces an earlier section of the same family. A
  folder without a report gets a new one.
- The trials are written beside the report as Parquet: settings, costs and JSON of each scenario, for further
  analysis and for replays.
- The checkers judge a designed scenario like any other. A failure is shrunk, explained, and exits with 1.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from onceproof.engine.runtime.java import find_java
from onceproof.engine.runtime.spark_settings import SparkOptions
from onceproof.harness.model.exit_codes import FAILED, PASSED, UsageError
from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.scenario import Scenario, to_json
from onceproof.harness.reporting.progress import progress_bar
from onceproof.harness.reporting.run_summary import failure_lines
from onceproof.harness.sensitivity.designed import varies_records
from onceproof.harness.sensitivity.experiment import COSTS, REPLICATES, DesignedTrial, Experiment
from onceproof.harness.sensitivity.parameters import settings_of, space_of
from onceproof.harness.trials.failures import FailureCase, examine_failures
from onceproof.harness.trials.output_files import OutputUnwritable
from onceproof.harness.trials.run_plan import RunPlan
from onceproof.harness.trials.runner import RunResult
from onceproof.harness.trials.tally import Group
from onceproof.harness.trials.trial import check_family
from onceproof.reports.model import Report, Sensitivity
from onceproof.reports.text import counted, number

WIDEST_BAR: Final = 30


@dataclass(frozen=True, slots=True)
class SensitivityResult:
    """The result of an experiment."""

    study: Sensitivity
    run: RunResult
    cases: list[FailureCase]
    trials: Path
    """Path of the Parquet file."""
    page: Path


def sensitivity_command(
    folder: Path,
    asked: str,
    scenarios: int,
    seed: int,
    spark: SparkOptions,
    as_json: bool,
    command: str,
) -> int:
    """Run an experiment, add its result to the folder's report, and return the exit code.

    ``asked`` is the name or the path of a family.
    """
    family = load_family(asked)
    check_family(family)
    find_java(os.environ)
    before = report_in(folder)
    experiment = experiment_of(family, scenarios, seed)
    # Slow to import.
    from onceproof.engine.runtime.spark_session import obtained_session
    from onceproof.harness.sensitivity.on_spark import run_experiment

    with progress_bar(experiment.scenarios, None) as bar:
        bar.describe("starting Spark")
        started = time.perf_counter()
        with obtained_session(spark, "onceproof sensitivity") as session:
            used = session.sparkContext.master or ""
            run = RunResult((family,), (asked,), seed, session.sparkContext.defaultParallelism)
            bar.describe("experiment")
            trials = run_experiment(
                session, asked, experiment, lambda part: bar.show_counts(int(part * experiment.scenarios), 0)
            )
        run.seconds = time.perf_counter() - started
        result = study_trials(run, experiment, trials, folder, before, bar.describe, command, used)
    if as_json:
        print(msgspec.json.encode(document(result, folder)).decode())
    for line in _lines(result):
        print(line, file=sys.stderr if as_json else sys.stdout)
    return FAILED if result.cases else PASSED


def experiment_of(family: Family, scenarios: int, seed: int) -> Experiment:
    """Return an experiment on a family with at most ``scenarios`` scenarios.

    Raises:
        UsageError: they are too few
    """
    from onceproof.harness.sensitivity.sampling import design, least_points

    space = space_of(varies_records(family))
    least = least_points(space) * REPLICATES
    if scenarios < least:
        raise UsageError(
            f"--scenarios {scenarios}: too few to separate {len(space)} parameters; use {least} or more"
            f" ({REPLICATES} at each of {least // REPLICATES} points)"
        )
    return Experiment(seed, tuple(design(space, scenarios // REPLICATES, seed)))


def study_trials(
    run: RunResult,
    experiment: Experiment,
    trials: Sequence[DesignedTrial],
    folder: Path,
    before: Report | None,
    progress: Callable[[str], None] = lambda text: None,
    command: str = "",
    master: str = "",
) -> SensitivityResult:
    """Fit the model to the trials of an experiment, and write its files and the report.

    ``run`` names the family; the outcomes of the trials are added to its tally. ``before`` is the report to
    which the section is added; None starts a new one.
    """
    from onceproof.harness.sensitivity.report_section import sensitivity_of

    for trial in trials:
        run.tally.add(trial.outcome)
    progress("fitting the model")
    (family,) = run.families
    study = sensitivity_of(family.name, experiment, trials, command)
    cases = examine_failures(
        run, RunPlan(run.names, out=folder), progress, original_of=lambda group: _original(trials, group)
    )
    path = _keep(folder, experiment, trials, family.name)
    return SensitivityResult(study, run, cases, path, _write(before, run, cases, study, folder, master))


def document(result: SensitivityResult, folder: Path) -> dict[str, Any]:
    """Return the document that --json prints; costs that the model does not explain have no indices."""
    study = result.study
    return {
        "family": study.family,
        "seed": study.seed,
        "scenarios": study.scenarios,
        "points": study.points,
        "failed": study.failed,
        "trace_hash": result.run.tally.trace_hash(),
        "costs": {
            drivers.cost: {
                "q2": drivers.q2,
                "explained": drivers.is_explained,
                "chance": drivers.chance,
                "mean": drivers.mean,
                "sentence": drivers.sentence,
                "first_order": {one.parameter: one.first_order for one in drivers.influences},
                "total": {one.parameter: one.total for one in drivers.influences},
            }
            for drivers in study.drivers
        },
        "out": str(folder),
    }


def report_in(folder: Path) -> Report | None:
    """Return the report in a folder, or None. Creates the folder.

    Raises OutputUnwritable if the folder cannot be made, UsageError if its report cannot be read.
    """
    from onceproof.reports.model import ReportUnreadable
    from onceproof.reports.render import MODEL_NAME, read

    try:
        folder.mkdir(parents=True, exist_ok=True)
        return read(folder) if (folder / MODEL_NAME).exists() else None
    except OSError as error:
        raise OutputUnwritable(f"{folder}: cannot be written to: {error.strerror or error}") from None
    except ReportUnreadable as error:
        raise UsageError(f"{error}; name another folder, or delete the file") from None


def _write(
    before: Report | None,
    run: RunResult,
    cases: Sequence[FailureCase],
    study: Sensitivity,
    folder: Path,
    master: str,
) -> Path:
    """Add an experiment to the report, write it, and return the path of the page."""
    from onceproof.harness.reporting.report_builder import build_report, failure_of, write_report
    from onceproof.harness.sensitivity.report_section import with_sensitivity

    if before is None:
        report = build_report(run, cases, study.command)
        facts = msgspec.structs.replace(report.facts, system=f"{report.facts.system}, on Spark {master}")
        # The experiment uses one kind of fault at one point, so a coverage table would be empty.
        report = msgspec.structs.replace(report, facts=facts, coverage=None, problems=())
    else:
        others = [
            failure for failure in before.failures if failure.replay not in {case.replay for case in cases}
        ]
        report = msgspec.structs.replace(before, failures=(*others, *map(failure_of, cases)))
    return write_report(msgspec.structs.replace(report, sensitivity=with_sensitivity(report, study)), folder)


def _original(trials: Sequence[DesignedTrial], group: Group) -> Scenario:
    """Return the scenario of a group's first trial."""
    return next(trial.scenario for trial in trials if trial.outcome is group.first)


def _keep(folder: Path, experiment: Experiment, trials: Sequence[DesignedTrial], family: str) -> Path:
    """Write the trials as Parquet, and return the path."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = [
        {
            "number": trial.number,
            "point": trial.number // experiment.replicates,
            **asdict(settings_of(experiment.points[trial.number // experiment.replicates])),
            "passed": trial.outcome.passed,
            **{cost.name.replace(" ", "_"): value for cost, value in zip(COSTS, trial.costs, strict=True)},
            "steps": trial.outcome.steps,
            "scenario": to_json(trial.scenario),
        }
        for trial in trials
    ]
    # A family's name may contain characters that a file name must not.
    path = folder / f"sensitivity-{re.sub(r'[^A-Za-z0-9_.-]+', '_', family)}.parquet"
    try:
        parquet.write_table(pa.Table.from_pylist(rows), path, compression="zstd")
    except OSError as error:
        raise OutputUnwritable(f"{path}: cannot be written: {error.strerror or error}") from None
    return path


def _lines(result: SensitivityResult) -> Iterator[str]:
    """Yield the lines of the summary: failures, each cost with its parameters, totals, paths."""
    study = result.study
    for case in result.cases:
        yield from failure_lines(case)
    for drivers in study.drivers:
        parts = [drivers.cost, f"{number(drivers.mean)} {drivers.unit} on average"]
        parts += [] if drivers.q2 is None else [f"Q² {drivers.q2:.2f}"]
        parts += [] if drivers.chance is None else [f"{drivers.chance:.0%} of the variance is chance"]
        yield ", ".join(parts)
        yield f"  {drivers.sentence}"
        width = max((len(one.parameter) for one in drivers.influences), default=0)
        for one in sorted(drivers.influences, key=lambda one: -one.total):
            bar = "#" * round(WIDEST_BAR * one.first_order)
            bar += "+" * (round(WIDEST_BAR * one.total) - len(bar))
            shares = f"{one.first_order:>4.0%} alone  {one.total:>4.0%} in total"
            yield f"    {one.parameter:<{width}}  {shares}  {bar}".rstrip()
    failed = f"{study.failed:,} FAILED" if study.failed else "passed"
    yield f"{study.family}: {counted(study.scenarios, 'scenario')}, {failed}"
    yield f"scenarios: {result.trials}"
    yield f"report: {result.page}"
