"""What `onceproof compare` prints: failures, a table of systems, a table of verdicts, the page.

The rules this module lives by:

- Stdout has the tables, or with --json one document with fixed fields and the same numbers; the tables then
  go to stderr.
- A system that received no kills has no verdict but for what failed without them.
- "-" stands for what was not measured and for a property that was not asked there, in the document null or
  nothing.
- A table is as wide as the terminal, and as wide as it needs where the output is no terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from onceproof.harness.reporting.comparison import ComparedRun
from onceproof.harness.reporting.run_summary import failure_lines
from onceproof.harness.trials.examination import repeats
from onceproof.reports.headline import barely_tested, conclude
from onceproof.reports.model import PropertyResult, Report, SystemResult
from onceproof.reports.text import counted, duration, number, visible

NOT_MEASURED: Final = "-"
NO_VERDICT: Final = "no kills"
TITLES: Final = (
    "scenarios",
    "kills",
    "faults not\napplicable",
    "recovery\nmedian",
    "recovery\nworst",
    "records\nread\nagain",
    "ms per\nscenario",
)
WIDEST: Final = 1000
"""Columns of an output that is no terminal."""


def print_comparison(
    runs: Sequence[ComparedRun], report: Report, left_out: Sequence[str], page: Path, as_json: bool
) -> None:
    """Print the summary; with ``as_json``, print the document on stdout and the summary on stderr."""
    if as_json:
        print(msgspec.json.encode(comparison_document(report, left_out, page.parent)).decode())
    out = sys.stderr if as_json else sys.stdout
    for line in _failures(runs):
        print(line, file=out)
    console = Console(file=out, highlight=False)
    if not console.is_terminal:
        console.width = WIDEST
    console.print(systems_table(report))
    console.print(verdicts_table(report))
    for line in _end(report, page):
        print(line, file=out)


def comparison_document(report: Report, left_out: Sequence[str], out: Path) -> dict[str, Any]:
    """Return the document that --json prints."""
    return {
        "scenarios": report.facts.scenarios,
        "failed": sum(row.failed for row in report.comparison),
        "systems": [
            {
                **{field: getattr(row, field) for field in row.__struct_fields__},
                "properties": {
                    result.property: {"passed": result.passed, "failed": result.failed}
                    for result in family.properties
                    if _is_asked(result)
                },
            }
            for row, family in zip(report.comparison, report.families, strict=True)
        ],
        "failures": [
            {
                "family": failure.family,
                "system": failure.system,
                "signature": [failure.property, failure.anomaly],
                "scenarios": failure.scenarios,
                "known": failure.known,
                "replay": failure.replay,
            }
            for failure in report.failures
        ],
        "left_out": list(left_out),
        "seconds": report.facts.seconds,
        "out": str(out),
    }


def systems_table(report: Report) -> Table:
    """Return a table with a row for each system: what its scenarios did and cost."""
    table = _table("system")
    for title in TITLES:
        table.add_column(title, justify="right")
    for row in report.comparison:
        table.add_row(_name(row), *map(Text, _figures(row)))
    return table


def verdicts_table(report: Report) -> Table:
    """Return a table with a row for each property and a column for each system."""
    table = _table("property")
    for row in report.comparison:
        table.add_column(_name(row), justify="right")
    names = dict.fromkeys(
        result.property for family in report.families for result in family.properties if _is_asked(result)
    )
    for name in names:
        found = [
            next((result for result in family.properties if result.property == name), None)
            for family in report.families
        ]
        kills = [row.kills for row in report.comparison]
        table.add_row(Text(name), *map(_verdict, found, kills))
    return table


def _table(first: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first, overflow="fold")
    return table


def _name(row: SystemResult) -> Text:
    return Text(visible(row.name))


def _figures(row: SystemResult) -> Iterator[str]:
    """Yield the texts of a row, below TITLES."""
    yield f"{row.scenarios:,}"
    yield f"{row.kills:,}"
    yield f"{row.not_applicable:,}"
    for seconds in (row.recovery_seconds, row.worst_recovery_seconds):
        yield NOT_MEASURED if seconds is None else duration(seconds)
    for value in (row.records_replayed, row.scenario_milliseconds):
        yield NOT_MEASURED if value is None else number(value)


def _is_asked(result: PropertyResult) -> bool:
    return bool(result.passed or result.failed)


def _verdict(result: PropertyResult | None, kills: int) -> Text:
    if result is None or not _is_asked(result):
        return Text(NOT_MEASURED)
    if not result.failed:
        # A system that nothing has struck was not tested.
        return Text(f"{result.passed:,} passed" if kills else NO_VERDICT)
    known = result.failed == result.known
    style, verdict = ("yellow", "known") if known else ("bold red", "FAILED")
    return Text(f"{result.failed:,} of {result.passed + result.failed:,} {verdict}", style=style)


def _failures(runs: Sequence[ComparedRun]) -> Iterator[str]:
    """Yield the lines of all failures, each system's below its name."""
    for run in runs:
        system = run.result.system
        if run.cases:
            yield f"on {system.name}:"
        for case in run.cases:
            yield from failure_lines(case, real=not repeats(system))


def _end(report: Report, page: Path) -> Iterator[str]:
    """Yield the lines below the tables."""
    if report.interrupted:
        yield "ended early; the results of the finished scenarios are kept"
    headline = conclude(report)
    yield from map(str, headline.notes)
    barely = f" {headline.sentence}" if barely_tested(report) else ""
    yield f"{headline.word}.{barely} {headline.asked}"
    if headline.thin:
        yield f"A sample: {'; '.join(headline.thin)}."
    facts = report.facts
    spent = f"{duration(facts.seconds)} on {counted(facts.workers, 'worker')}"
    yield f"{counted(facts.scenarios, 'scenario')} in {spent}, seed {facts.seed}"
    yield f"report: {page}"
