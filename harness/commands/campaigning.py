"""`onceproof campaign`: a campaign on Spark, told and reported like any other run, and what Spark adds to it.

The rules this module lives by:

- A campaign's summary, document, failures and report are those of a run, made by the same functions.
- What it adds is whether the two oracles agree. Where they do not, the campaign has failed, with exit code 1,
  though no scenario did: somebody's expectation is wrong, and every verdict that rests on it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from harness.campaign import CampaignResult, CampaignStopped, run_campaign
from harness.commands.running import (
    Bar,
    exit_code,
    progress_bar,
    summary_document,
    summary_lines,
)
from harness.errors import FAILED, line_of
from harness.failures import FailureCase, failure_cases
from harness.reporting import report_of, write_report
from reports.model import OracleAgreement, Report
from reports.text import counted, duration

MOST_TOLD: Final = 10


def campaign_command(
    families: Sequence[str],
    scenarios: int | None,
    max_time: float | None,
    seed: int,
    master: str | None,
    out: Path,
    as_json: bool,
    command: str,
) -> int:
    """Run a campaign, report, and return the exit code."""
    mistake: CampaignStopped | None = None
    with campaign_bar(scenarios, max_time) as bar:
        bar.describe("starting Spark")
        try:
            result = run_campaign(
                families,
                scenarios=scenarios,
                max_time=max_time,
                seed=seed,
                out=out,
                master=master,
                progress=bar.show_counts,
            )
        except CampaignStopped as stopped:
            # What was done is told first, and why there is no more of it last.
            result, mistake = stopped.campaign, stopped
            if not result.run.tally.scenarios:
                raise
        cases = failure_cases(result.run, out, bar.describe)
        bar.describe("writing the report")
        report = campaign_report(result, cases, command)
        if mistake is not None:
            report = msgspec.structs.replace(report, interrupted=line_of(mistake))
        page = write_report(report, out)
    if as_json:
        print(msgspec.json.encode(summary_document(result.run, out)).decode())
    summary = sys.stderr if as_json else sys.stdout
    for line in (*agreement_lines(result), *summary_lines(result.run, cases, report, page)):
        print(line, file=summary)
    if mistake is not None:
        raise mistake
    return FAILED if result.disagreements else exit_code(result.run, report)


def campaign_report(
    result: CampaignResult, cases: Sequence[FailureCase], command: str = ""
) -> Report:
    """Return the report of a run, with what Spark had to say."""
    agreement = OracleAgreement(
        scenarios=result.judged,
        disagreed=len(result.disagreements),
        seconds=round(result.judging_seconds, 3),
        witnesses=tuple(map(str, result.disagreements[:MOST_TOLD])),
    )
    report = report_of(result.run, cases, command)
    others = (*report.facts.others, ("simulated and judged by", f"Spark, {result.master}"))
    facts = msgspec.structs.replace(report.facts, others=others)
    return msgspec.structs.replace(report, facts=facts, oracles=agreement)


def agreement_lines(result: CampaignResult) -> Iterator[str]:
    """Yield what the two oracles say of each other."""
    for disagreement in result.disagreements[:MOST_TOLD]:
        yield f"THE ORACLES DISAGREE on {disagreement}"
    left = len(result.disagreements) - MOST_TOLD
    if left > 0:
        yield f"THE ORACLES DISAGREE on {counted(left, 'scenario')} more"
    if result.judged:
        yield (
            f"Spark SQL judged {counted(result.judged, 'scenario')} in {duration(result.judging_seconds)},"
            f" and agrees with Python on {'all' if not result.disagreements else 'the others'}"
        )


class CampaignBar(Bar):
    """A run's bar, moved by numbers: between waves there is no tally."""

    def show_counts(self, simulated: int, failed: int) -> None:
        """Show how far a campaign has come."""
        told = f", {failed:,} failed" if failed else ""
        done = self._progress.tasks[0].elapsed or 0.0 if self._by_time else simulated
        self._progress.update(self._task, completed=done, description=f"{simulated:,} scenarios{told}")


@contextmanager
def campaign_bar(scenarios: int | None, max_time: float | None) -> Iterator[CampaignBar]:
    """Show a bar on stderr, if that is a terminal."""
    with progress_bar(scenarios, max_time) as bar:
        bar.__class__ = CampaignBar
        assert isinstance(bar, CampaignBar)
        yield bar
