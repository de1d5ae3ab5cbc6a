"""`onceproof merge`: one report of the shares of a run, which several machines have run.

The rules this module lives by:

- The outcomes of the shares are counted as if one machine had run them all: verdicts, coverage and trace hash
  are those of the undivided run. Failures are shrunk and explained here.
- Shares that do not belong together are refused: another seed, another system, a scenario in two of them.
- Folders may come from other machines. Their lines are read and counted, and a family is loaded by its
  built-in name or from the command line only.
- With a history the run is a night of it, compared with the nights before.
- A single folder has nothing to merge: its page is rendered again from its report.json.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from onceproof.harness.checkers.known_failures import KnownSignature
from onceproof.harness.checkers.outcome import Outcome, from_line
from onceproof.harness.model.exit_codes import UsageError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.system import find_system
from onceproof.harness.model.system_homes import system_names
from onceproof.harness.reporting.progress import progress_bar
from onceproof.harness.reporting.report_builder import build_report, write_report
from onceproof.harness.reporting.run_summary import exit_code, print_summary
from onceproof.harness.trials.failures import examine_failures
from onceproof.harness.trials.output_files import OUTCOMES, claimed_folder, prepare_file
from onceproof.harness.trials.run_plan import RunPlan
from onceproof.harness.trials.runner import RunResult
from onceproof.reports.headline import conclude
from onceproof.reports.model import Report, ReportUnreadable
from onceproof.reports.render import read

MERGED: Final = Path("reports", "out", "merged")


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """What is merged, and where the report goes."""

    folders: tuple[Path, ...]
    out: Path | None
    """None: MERGED, and for a single folder without a history that folder."""
    families: tuple[str, ...]
    """Families that are not built in, FILE.py or FILE.py:OBJECT."""
    history: str | None
    keep: int
    known: tuple[KnownSignature, ...]
    shrink_runs: int | None
    junit: Path | None
    as_json: bool
    command: str


def merge_command(wanted: Merge) -> int:
    """Merge the shares, print the summary, write the report, and return the exit code."""
    prepare_file(wanted.junit)
    reports = [_report_in(folder) for folder in wanted.folders]
    if len(reports) == 1 and wanted.out is None and wanted.history is None:
        return _rendered_again(reports[0], wanted)
    result = _merged(wanted, reports)
    out = wanted.out or MERGED
    with claimed_folder(out), progress_bar(None, None) as bar:
        plan = RunPlan(result.names, out=out, known=wanted.known, shrink_runs=wanted.shrink_runs)
        cases = examine_failures(result, plan, bar.describe)
        report = build_report(result, cases, wanted.command, None, wanted.known)
        ended = [
            f"{folder}: {each.interrupted}"
            for folder, each in zip(wanted.folders, reports, strict=True)
            if each.interrupted
        ]
        report = replace(report, interrupted="; ".join(ended))
        if wanted.history is not None:
            report = _with_history(wanted, result, report)
        page = write_report(report, out, wanted.junit)
    print_summary(result, cases, report, out, page, wanted.as_json)
    return exit_code(report)


def _rendered_again(report: Report, wanted: Merge) -> int:
    """Render the page of the only folder again, and return the exit code of its verdict."""
    page = write_report(report, wanted.folders[0], wanted.junit)
    if wanted.as_json:
        headline = conclude(report)
        document = {"page": str(page), "verdict": headline.status, "sentence": headline.sentence}
        print(msgspec.json.encode(document).decode())
    else:
        print(f"report: {page}")
    return exit_code(report)


def _report_in(folder: Path) -> Report:
    try:
        return read(folder)
    except OSError as error:
        raise ReportUnreadable(
            f"{folder}: no results of a run: {error.filename or folder}: {error.strerror or error}"
        ) from None


def _merged(wanted: Merge, reports: Sequence[Report]) -> RunResult:
    """Return the run of which the folders hold the shares. Raises UsageError where they do not fit."""
    first = reports[0].facts
    if first.system not in system_names():
        raise UsageError(f"{wanted.folders[0]}: runs of the system {first.system!r} cannot be merged")
    for folder, report in zip(wanted.folders, reports, strict=True):
        for what, one, other in (
            ("seed", first.seed, report.facts.seed),
            ("system", first.system, report.facts.system),
            ("version", first.engine_version, report.facts.engine_version),
            ("commit of the families", first.families_version, report.facts.families_version),
        ):
            if one != other:
                others = f"that of {wanted.folders[0]} is {one or 'unknown'}"
                raise UsageError(f"{folder}: its {what} is {other or 'unknown'}, and {others}")
    own = {load_family(address).name: address for address in wanted.families}
    outcomes = [each for folder in wanted.folders for each in _outcomes_in(folder)]
    seen: set[tuple[str, int | None]] = set()
    for outcome in outcomes:
        if (outcome.family, outcome.seed) in seen:
            raise UsageError(
                f"seed {outcome.seed} of {outcome.family} is there twice: name the folder of each share once"
            )
        seen.add((outcome.family, outcome.seed))
    names = tuple(own.get(name, name) for name in sorted({outcome.family for outcome in outcomes}))
    result = RunResult(
        tuple(map(load_family, names)),
        names,
        first.seed or 0,
        sum(report.facts.workers for report in reports),
        seconds=max(report.facts.seconds for report in reports),
        system=find_system(first.system),
        started=_started(reports),
    )
    for outcome in outcomes:
        result.tally.add(outcome)
    return result


def _outcomes_in(folder: Path) -> list[Outcome]:
    path = folder / OUTCOMES
    try:
        with path.open("rb") as file:
            return [from_line(line, str(path), number) for number, line in enumerate(file, 1)]
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None


def _started(reports: Sequence[Report]) -> datetime:
    """Return when the first share began."""
    texts = sorted(report.facts.started for report in reports if report.facts.started)
    try:
        return datetime.strptime(texts[0], "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)
    except (IndexError, ValueError):
        return datetime.now(UTC)


def _with_history(wanted: Merge, result: RunResult, report: Report) -> Report:
    from onceproof.engine.extras import PARQUET, require

    require("--history", PARQUET)
    from onceproof.harness.nightly.night_history import NightHistory
    from onceproof.harness.nightly.trend import added_to_history

    assert wanted.history is not None

    def say(text: str) -> None:
        print(f"onceproof: {text}", file=sys.stderr)

    history = NightHistory(wanted.history, wanted.keep, say)
    history.prepare()
    return added_to_history(history, report, result.started, result.seconds)
