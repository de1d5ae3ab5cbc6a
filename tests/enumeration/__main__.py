"""Runs the smallest jobs with every single fault and every pair: ``python -m tests.enumeration [FAMILY...]``.

Results go to stdout and progress to stderr. Failures are shrunk, stored and printed like those of a run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from onceproof.harness.checkers.known_failures import KnownSignature
from onceproof.harness.commands.cli import run_alone
from onceproof.harness.commands.shared_options import AsJson, FirstOfShare, Workers
from onceproof.harness.model.exit_codes import FAILED, INTERRUPTED, NOTHING_RAN, PASSED
from onceproof.harness.model.scenario import from_json
from onceproof.harness.reporting.progress import Bar, progress_bar
from onceproof.harness.reporting.run_summary import failure_lines
from onceproof.harness.settings.project_settings import load_settings
from onceproof.harness.trials.failures import FailureCase, examine_failures
from onceproof.harness.trials.output_files import claimed_folder
from onceproof.harness.trials.run_plan import RunPlan
from onceproof.harness.trials.runner import RunResult
from onceproof.harness.trials.tally import Group, Tally
from onceproof.reports.text import counted, duration
from tests.enumeration.enumerator import Enumerated, enumerate_faults
from tests.enumeration.space import SHAPES, cases

DEFAULT_FAMILIES: Final = ("word_count",)
FOLDER: Final = Path("reports", "out", "enumerate")


def enumerate_command(
    families: Sequence[str],
    share: int,
    first: int,
    workers: int | None,
    out: Path,
    known: Sequence[KnownSignature],
    as_json: bool,
) -> int:
    """Run the enumeration, print a line for each failure and each job, and return the exit code.

    ``share`` N runs one N-th of the units of work; ``first`` chooses which.
    """
    with claimed_folder(out), progress_bar(None, None) as bar:
        result = enumerate_faults(
            families,
            workers=workers,
            share=share,
            first=first,
            progress=lambda done: _show(bar, done),
        )
        failures = _examined(result, out, bar, known)
    if as_json:
        print(msgspec.json.encode(_document(result, out)).decode())
    for line in _lines(result, failures):
        print(line, file=sys.stderr if as_json else sys.stdout)
    if result.interrupted:
        return INTERRUPTED
    if not result.counts.scenarios:
        return NOTHING_RAN
    return FAILED if any(case.known is None for case in failures) else PASSED


def _show(bar: Bar, result: Enumerated) -> None:
    bar.begin(result.units)
    counts = result.counts
    failed = f", {counts.failed:,} failed" if counts.failed else ""
    bar.advance(len(result.done), f"{counts.scenarios:,} scenarios{failed}")


def _examined(result: Enumerated, out: Path, bar: Bar, known: Sequence[KnownSignature]) -> list[FailureCase]:
    """Shrink one failure of each signature, write its scenario into ``out``, and return the findings."""
    tally = Tally(failed=result.counts.failed)
    originals = {}
    for key, (_, found) in result.failures.items():
        tally.groups[key] = Group(found.outcome, key[1], found.count)
        originals[key] = from_json(found.scenario)
    run = RunResult(result.families, result.names, 0, result.workers, tally, interrupted=result.interrupted)

    def original_of(group: Group) -> Any:
        return originals[group.first.family, group.signature]

    return examine_failures(run, RunPlan(run.names, out=out, known=tuple(known)), bar.describe, original_of)


def _lines(result: Enumerated, failures: Sequence[FailureCase]) -> Iterator[str]:
    for case in failures:
        yield from failure_lines(case)
    for (family, shape), counts in sorted(result.jobs.items()):
        yield (
            f"{family} {shape}: {counts.singles:,} runs with at most one fault,"
            f" {counts.pairs:,} with two faults,"
            f" {f'{counts.failed:,} FAILED' if counts.failed else 'passed'}"
        )
    schedules = len(cases()) // len(SHAPES)
    yield (
        f"{counted(result.counts.scenarios, 'scenario')} on {schedules} schedules in"
        f" {duration(result.seconds)} on {counted(result.workers, 'worker')},"
        f" {len(result.done):,} of {result.units:,} units; trace hash {result.trace_hash()}"
    )


def _document(result: Enumerated, out: Path) -> dict[str, Any]:
    families: dict[str, dict[str, int]] = {}
    for (name, _), counts in result.jobs.items():
        family = families.setdefault(name, {"scenarios": 0, "failed": 0})
        family["scenarios"] += counts.scenarios
        family["failed"] += counts.failed
    total = result.counts
    return {
        "scenarios": total.scenarios,
        "passed": total.scenarios - total.failed,
        "failed": total.failed,
        "singles": total.singles,
        "pairs": total.pairs,
        "families": families,
        "fired": dict(sorted(result.fired.items())),
        "trace_hash": result.trace_hash(),
        "seconds": round(result.seconds, 3),
        "out": str(out),
    }


def enumeration(
    families: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FAMILY|FILE.py]...", help="Families to run. Default: word_count."),
    ] = None,
    share: Annotated[
        int, typer.Option("--share", min=1, metavar="N", help="Run one N-th of the work, for a shorter run.")
    ] = 1,
    first: FirstOfShare = 0,
    workers: Workers = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for the failures.")] = FOLDER,
    as_json: AsJson = False,
) -> None:
    """Run the smallest jobs with every single fault and every pair of faults."""
    known = load_settings().known
    raise typer.Exit(
        enumerate_command(families or DEFAULT_FAMILIES, share, first, workers, out, known, as_json)
    )


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run_alone("python -m tests.enumeration", enumeration, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
