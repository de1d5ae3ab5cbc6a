"""What the commands that run scenarios print at the end, and their exit code.

The rules this module lives by:

- The summary goes to stdout. With --json, one document with fixed fields goes to stdout instead, and the
  summary goes to stderr.
- Each finding is printed with the command that replays it. Its line begins with FAILED, or with "known" if
  the settings list it. Only a failure that is not listed makes the exit code 1.
- A family that failed has a line of its own. All that passed share one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from onceproof.harness.checkers.tolerance import NEAR_MISS
from onceproof.harness.model.exit_codes import FAILED, INTERRUPTED, NOTHING_RAN, PASSED
from onceproof.harness.reporting.report_builder import cost_text
from onceproof.harness.trials.examination import repeats
from onceproof.harness.trials.failures import FailureCase
from onceproof.harness.trials.runner import RunResult
from onceproof.reports.headline import (
    asked_counts,
    barely_tested,
    conclude,
    missing_situations,
    never_fired,
    rare_texts,
    thin_texts,
)
from onceproof.reports.model import Report
from onceproof.reports.notes import judged_text, judges_of
from onceproof.reports.text import counted, duration, joined

EXIT_CODES: Final = {
    "passed": PASSED,
    # A planned fault or protocol point never occurred, but every property held.
    "gaps": PASSED,
    # The settings list every failure as known. CI stays green, so that a new failure turns it red.
    "known": PASSED,
    "failed": FAILED,
    "interrupted": INTERRUPTED,
    # No scenario, fewer than a night must have, or hardly a kill that hit.
    "empty": NOTHING_RAN,
}


def print_summary(
    result: RunResult,
    cases: Sequence[FailureCase],
    report: Report,
    out: Path,
    page: Path | None,
    as_json: bool,
) -> None:
    """Print the summary; with ``as_json``, print the document on stdout and the summary on stderr.

    ``out`` is the folder of the results. ``page`` is None where the report cannot be written.
    """
    if as_json:
        print(msgspec.json.encode(summary_document(result, report, out)).decode())
    for line in summary_lines(result, cases, report, page):
        print(line, file=sys.stderr if as_json else sys.stdout)


def exit_code(report: Report) -> int:
    """Return the exit code of the report's status.

    A run that was interrupted before its first scenario has ended is interrupted, not empty.
    """
    status = conclude(report).status
    return INTERRUPTED if status == "empty" and report.interrupted else EXIT_CODES[status]


def summary_document(result: RunResult, report: Report, out: Path) -> dict[str, Any]:
    """Return the document that --json prints."""
    tally = result.tally
    return {
        "findings": len(report.failures),
        "near_misses": sum(each.anomaly == NEAR_MISS for each in report.failures),
        "scenarios": tally.scenarios,
        "passed": tally.scenarios - tally.failed,
        "failed": tally.failed,
        "families": {
            name: {
                "scenarios": family.scenarios,
                "failed": family.failed,
                "timers_only_at_end": family.timers_only_at_end > 0,
                **_judges(family.notes),
            }
            for name, family in sorted(tally.families.items())
        },
        "not_applicable": {each.family: each.reason for each in report.refused},
        "asked": asked_counts(report),
        "situations": {each.name: each.scenarios for each in report.situations},
        "sample": thin_texts(report),
        "exhausted": {name: met.scenarios for name, met in sorted(result.exhausted.items())},
        "trace_hash": tally.trace_hash(),
        "seconds": round(result.seconds, 3),
        "scenario_seconds": round(tally.scenario_seconds, 6),
        "phase_seconds": {phase: round(each, 3) for phase, each in tally.phase_seconds.items()},
        "waiting_share": None if tally.waiting_share is None else round(tally.waiting_share, 3),
        "out": str(out),
    }


def _judges(notes: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Return under "judged" who judged how many scenarios of a script of Flink SQL; of others nothing."""
    judges = judges_of(notes)
    return {"judged": judges} if judges else {}


def summary_lines(
    result: RunResult, cases: Sequence[FailureCase], report: Report, page: Path | None
) -> Iterator[str]:
    """Yield the lines of the summary: failures, gaps in coverage, oracles, families, totals, the page."""
    for case in cases:
        yield from failure_lines(case, real=not repeats(result.system))
    yield from report.problems
    if report.coverage is not None and report.coverage.required:
        yield from (f"never fired: {pair}" for pair in never_fired(report))
    yield from (f"never in it: {name}" for name in missing_situations(report))
    yield from rare_texts(report)
    if report.oracles is not None:
        disagreed, judged = report.oracles.disagreed, counted(report.oracles.scenarios, "scenario")
        agreement = f"DISAGREE on {disagreed:,} of" if disagreed else "agree on"
        yield f"the oracles in Python and Spark SQL {agreement} {judged}"
        yield from (f"  {witness}" for witness in report.oracles.witnesses)
    tally = result.tally
    if report.interrupted:
        yield "ended early; the results of the finished scenarios are kept"
    passed = {name: family.scenarios for name, family in tally.families.items() if not family.failed}
    if len(passed) > 1:
        fewest, most = min(passed.values()), max(passed.values())
        each = f"{fewest:,} to {most:,} scenarios" if fewest < most else counted(most, "scenario")
        yield f"{len(passed):,} families: {each} each, passed"
    for name, family in sorted(tally.families.items()):
        if name in passed and len(passed) > 1:
            continue
        known = sum(case.scenarios for case in cases if case.known and case.family.name == name)
        yield f"{name}: {counted(family.scenarios, 'scenario')}, {_outcome_text(family.failed, known)}"
    for result_of in report.families:
        if judged := judged_text(result_of.notes, result_of.scenarios):
            yield f"{result_of.family}: {judged}"
    yield from exhausted_lines(result)
    yield from _refused_lines(report)
    headline = conclude(report)
    yield from map(str, headline.notes)
    yield from _hits(report)
    if report.failures or barely_tested(report):
        yield f"{headline.word}. {headline.sentence}"
    if headline.asked:
        is_said = report.failures or barely_tested(report)
        yield headline.asked if is_said else f"{headline.word}. {headline.asked}"
    if headline.thin:
        yield f"A sample: {'; '.join(headline.thin)}."
    workers = counted(result.workers, "worker")
    cost = f" ({duration(tally.seconds_of_scenarios / tally.scenarios)} each)" if tally.scenarios else ""
    yield (
        f"{counted(tally.scenarios, 'scenario')} in {duration(result.seconds)} on {workers}{cost},"
        f" {counted(tally.kills, 'kill')}, {counted(tally.rescales, 'rescale')};"
        f" trace hash {tally.trace_hash()}"
    )
    if cost := cost_text(tally):
        yield f"a scenario: {cost}"
    yield f"report: {page or 'none, because it cannot be written'}"


def _hits(report: Report) -> Iterator[str]:
    """Yield for each program how many of its planned faults struck, and how often a kill hit."""
    cells = report.coverage.cells if report.coverage else ()
    planned, fired = sum(cell.planned for cell in cells), sum(cell.fired for cell in cells)
    programs = [each for each in report.families if each.hit is not None]
    if programs:
        yield f"faults: {fired:,} of {planned:,} planned struck"
    for each in programs:
        of = counted(each.scenarios, "scenario")
        yield f"kills between the first row and the last of {each.family}: in {each.hit:,} of {of}"


def exhausted_lines(result: RunResult) -> Iterator[str]:
    """Yield a line for each family that ended early because it met nothing new."""
    for name, met in sorted(result.exhausted.items()):
        yield (
            f"{name} ended early, exhausted: its last {counted(met.since_new, 'scenario')} met nothing new"
            f" beside {met}"
        )


def _refused_lines(report: Report) -> Iterator[str]:
    """Yield for each reason the families that were not run."""
    by_reason: dict[str, list[str]] = {}
    for each in report.refused:
        by_reason.setdefault(each.reason, []).append(each.family)
    for reason, families in by_reason.items():
        yield f"not applicable on {report.facts.system}: {joined(families)}: {reason}"


def _outcome_text(failed: int, known: int) -> str:
    if not failed:
        return "passed"
    if failed == known:
        return f"{failed:,} failed, known"
    return f"{failed:,} FAILED" + (f", {known:,} of them known" if known else "")


def shrunk_text(case: FailureCase, real: bool) -> str:
    """Return the size of a shrunk failure; on a ``real`` system, also the runs spent."""
    spent = f" in {counted(case.shrunk.runs, 'run')}" if real else ""
    if real and not case.repeated and not case.shrunk.runs:
        return "not run again"
    if real and not case.repeated:
        return f"not reproduced{spent}"
    if not case.repeated:
        return "not shrunk"
    before, after = case.shrunk.before, case.shrunk.after
    if real and before == after:
        return f"not shrunk{spent}"
    sizes = [
        f"{counted(small, name)} of {large:,}" if small < large else counted(small, name)
        for small, large, name in (
            (after.records, before.records, "record"),
            (after.faults, before.faults, "fault"),
            (after.schedule, before.schedule, "choice"),
        )
        if large or not real
    ]
    return f"shrunk to {joined(sizes)}{spent}"


def failure_lines(case: FailureCase, real: bool = False) -> Iterator[str]:
    """Yield the lines of a failure: signature, sizes, explanation and replay commands.

    ``real`` is True for a system whose runs do not repeat step by step.
    """
    known, mistake = case.known, case.mistake
    yield (
        f"{'known' if known else 'FAILED'} {case.scenario.family}: {case.title},"
        f" in {counted(case.scenarios, 'scenario')}; {shrunk_text(case, real)}"
    )
    if known and (about := known.about()):
        yield f"  {about}"
    if mistake is not None:
        yield f"  {mistake.sentence}"
        yield from (f"    {line}".rstrip() for line in mistake.example.splitlines())
    elif case.explanation.sentence:
        yield f"  {case.explanation.sentence}"
    if case.cause is not None:
        yield f"  {case.cause.sentence}"
    if case.replay:
        yield f"  {case.replay}"
    if case.replay_seed:
        yield f"  {case.replay_seed}"
    if real and case.shrink and case.shrunk.before == case.shrunk.after:
        yield f"  {case.shrink}"
    for other in case.others:
        replay = other.replay or other.replay_seed
        yield f"  also {other.title}, in {counted(other.count, 'scenario')}: {replay}"
