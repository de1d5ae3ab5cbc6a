"""The nightly job: a campaign over the user's families, and one report with the nights before.

The rules this module lives by:

- One Spark session judges everything. It starts first, so that a Spark that cannot start overwrites nothing
  of the last night.
- Without a given seed each night draws a new one. The report contains the command that repeats the night.
- Each night is a row of the history, from which the trend is drawn. An unwritable history is an error before
  the work starts.
- The campaign goes on until it has reached its minimums (`trials/minimums.py`), but not beyond its limit. A
  night that has not reached them has run too little: its headline says what is missing.
- A night may have further parts, which run before the campaign and add to its report (`tests/nightly.py`).
- A part that fails, whatever its error, does not stop the others. It fails the night, and the report gives
  the reason: report and history are written before the error is raised.
- The campaign begins anew: what an earlier night has left unfinished is of another seed.
- The exit code follows from the report's verdict.
- The summary goes to stdout, progress to stderr.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from onceproof.engine.runtime.java import find_java
from onceproof.engine.runtime.spark_session import obtained_session
from onceproof.harness.campaign.campaign_plan import CampaignPlan
from onceproof.harness.campaign.pipeline import (
    CampaignResult,
    CampaignStopped,
    load_campaign_families,
    run_campaign,
)
from onceproof.harness.model.exit_codes import FAILED, INTERRUPTED, line_of
from onceproof.harness.nightly.night_history import NightHistory
from onceproof.harness.nightly.trend import added_to_history
from onceproof.harness.reporting.progress import Bar, progress_bar
from onceproof.harness.reporting.report_builder import (
    add_oracle_agreement,
    build_report,
    time_text,
    write_report,
)
from onceproof.harness.reporting.run_summary import exit_code, summary_document, summary_lines
from onceproof.harness.settings.project_settings import NIGHTS
from onceproof.harness.trials.failures import FailureCase, examine_failures
from onceproof.harness.trials.output_files import claimed_folder, prepare_file
from onceproof.harness.trials.runner import RunResult
from onceproof.reports.headline import conclude, real_input_text
from onceproof.reports.model import Mutant, RealInput, Report
from onceproof.reports.text import counted

FOLDER_OF_CAMPAIGN: Final = "campaign"
FOLDER_OF_HISTORY: Final = "history"


class Part(NamedTuple):
    """A further part of a night."""

    name: str
    run: Callable[[Night], None]
    """Adds what it finds to the night."""


class OwnNight(NamedTuple):
    """A night with further parts, and the command that runs it."""

    command: str
    parts: Sequence[Part]


@dataclass(frozen=True, slots=True)
class NightPlan:
    """A night with every option decided."""

    campaign: CampaignPlan
    """Its folder is that of the report and its data; the next night replaces them."""
    _: KW_ONLY
    history: Path | str | None = None
    """The folder or the address of the history; None: one in the folder of the report."""
    keep: int = NIGHTS
    """How many nights the history keeps."""
    parts: Sequence[Part] = ()
    """Further parts of the night."""


def nightly(plan: NightPlan) -> int:
    """Run the nightly job, and return the exit code.

    Raises the errors of a family, of an unwritable folder, and of a campaign that stopped.
    """
    find_java(os.environ)
    run = plan.campaign.run
    # Check the families now, not after the hour before the campaign.
    load_campaign_families(run.families)
    night = Night(plan.campaign)
    with progress_bar(None, None) as bar:
        nights = NightHistory(plan.history or run.out / FOLDER_OF_HISTORY, plan.keep, bar.warn)
        nights.prepare()
        prepare_file(run.junit)
        with claimed_folder(run.out):
            bar.describe("starting Spark")
            with obtained_session(plan.campaign.spark, "onceproof nightly") as session:
                bar.warn(f"nightly run with seed {run.seed}")
                night.session, night.bar = session, bar
                try:
                    for part in plan.parts:
                        night.attempt(part.name, partial(part.run, night))
                    bar.describe("campaign")
                    bar.begin(None)
                    night.attempt("campaign", night.campaign)
                except KeyboardInterrupt:
                    night.interrupted = "interrupted from the keyboard"
            return night.finish(nights)


class Night:
    """A night that is running: the results of its finished parts."""

    session: Any
    """The Spark session that judges."""
    bar: Bar

    def __init__(self, campaign: CampaignPlan) -> None:
        self.plan = campaign.run
        self.real_inputs: list[RealInput] = []
        self.mutants: list[Mutant] = []
        self.shortfalls: list[str] = []
        """What a part must have run at the least and has not, each a text without a stop."""
        self.interrupted = ""
        self._asked = campaign
        self._started = datetime.now(UTC)
        self._begun = time.perf_counter()
        self._seconds = 0.0
        self._campaign = CampaignResult(RunResult((), (), self.plan.seed, 0))
        self._mistake: Exception | None = None
        """The first error of a part."""
        self._problems: list[str] = []

    def attempt(self, part: str, run: Callable[[], None]) -> None:
        """Run a part of the night; its error is kept until the report is written."""
        try:
            run()
        except Exception as error:
            self._mistake = self._mistake or error
            self._problems.append(f"{part}: {line_of(error)}")

    def campaign(self) -> None:
        """Run a campaign over the families."""
        run = replace(self.plan, out=self.plan.out / FOLDER_OF_CAMPAIGN)
        asked = replace(self._asked, run=run)
        try:
            self._campaign = run_campaign(asked, self.session, self.bar.show_counts)
        except CampaignStopped as stopped:
            self._campaign = stopped.campaign
            raise

    def finish(self, history: NightHistory) -> int:
        """Write the report and the history, print the summary, and return the exit code."""
        run, plan = self._campaign.run, self.plan
        cases: list[FailureCase] = []
        describe = self.bar.describe
        self.attempt("failures", lambda: cases.extend(examine_failures(run, plan, describe)))
        describe("writing the report")
        # One length for the page and for the history.
        self._seconds = round(time.perf_counter() - self._begun, 3)
        report = added_to_history(history, self._report(cases), self._started, self._seconds)
        page = write_report(report, plan.out, plan.junit)
        if plan.as_json:
            document = night_document(summary_document(run, report, plan.out), report)
            print(msgspec.json.encode(document).decode())
        for line in _summary(run, cases, report, page):
            print(line, file=sys.stderr if plan.as_json else sys.stdout)
        if self._mistake is not None:
            raise self._mistake
        code = exit_code(report)
        return INTERRUPTED if report.interrupted and code != FAILED else code

    def _report(self, cases: Sequence[FailureCase]) -> Report:
        """Return the report of this night without its history."""
        run = self._campaign.run
        report = build_report(run, cases, self.plan.command, self._mistake, self.plan.known)
        if run.tally.scenarios:
            report = add_oracle_agreement(report, self._campaign)
        return msgspec.structs.replace(
            report,
            real_inputs=tuple(self.real_inputs),
            mutants=tuple(self.mutants),
            interrupted=report.interrupted or self.interrupted,
            problems=(*report.problems, *self._problems),
            shortfalls=(*self.shortfalls, *self._asked.minimums.shortfalls(run)),
            facts=msgspec.structs.replace(
                report.facts, started=time_text(self._started), night_seconds=self._seconds
            ),
        )


def _summary(run: RunResult, cases: list[FailureCase], report: Report, page: Path) -> Iterable[str]:
    for real in report.real_inputs:
        yield real_input_text(real)
    if report.mutants:
        killed = sum(mutant.killed for mutant in report.mutants)
        yield f"{killed} of {counted(len(report.mutants), 'planted bug')} caught"
    yield from summary_lines(run, cases, report, page)
    if not report.failures:
        headline = conclude(report)
        yield f"{headline.word}. {headline.sentence}"


def night_document(campaign: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return what `nightly --json` prints: the document of its campaign, its verdict and its other parts."""
    return campaign | {
        "verdict": conclude(report).status,
        "real_inputs": report.real_inputs,
        "mutants": report.mutants,
    }
