"""Builds the report of a comparison: the same scenarios on several systems, a row for each family and system.

The rules this module lives by:

- Verdicts, failures and facts are those of a run's report, so that the page and the exit code mean the same.
- What a system does not measure is null, never 0: the simulation has no seconds from a kill to new rows, and
  of a program it is not known which records it reads again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from msgspec.structs import replace

from onceproof.harness.checkers.known_failures import KnownSignature
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.exit_codes import line_of
from onceproof.harness.reporting.report_builder import (
    failure_of,
    family_result,
    machine_text,
    time_text,
)
from onceproof.harness.trials.failures import FailureCase
from onceproof.harness.trials.revisions import engine_version, families_version
from onceproof.harness.trials.runner import RunResult
from onceproof.harness.trials.tally import waiting_share
from onceproof.reports.model import Facts, FamilyResult, Report, SystemResult

TITLE: Final = "Comparison of systems"


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """The run of one system, with one case for each finding."""

    result: RunResult
    cases: Sequence[FailureCase]


def build_comparison(
    runs: Sequence[ComparedRun],
    left_out: Sequence[str] = (),
    command: str = "",
    mistake: Exception | None = None,
    known: Sequence[KnownSignature] = (),
) -> Report:
    """Return the report of a comparison.

    ``left_out`` are the lines about families and systems that were not compared, ``command`` is the command
    line, and ``mistake`` the error that ended the comparison early.
    """
    interrupted = "interrupted from the keyboard" if any(run.result.interrupted for run in runs) else ""
    names = sorted({name for run in runs for name in run.result.tally.families})
    # The systems of a family stand below each other.
    pairs = [(name, run.result) for name in names for run in runs if name in run.result.tally.families]
    families = [
        replace(family_result(name, result, known), system=result.system.name) for name, result in pairs
    ]
    return Report(
        title=TITLE,
        facts=_facts(runs, left_out, command),
        interrupted=line_of(mistake) if mistake is not None else interrupted,
        families=tuple(families),
        failures=tuple(
            [replace(failure_of(case), system=run.result.system.name) for run in runs for case in run.cases]
        ),
        comparison=tuple(
            [
                _row(verdicts, result, several=len(names) > 1)
                for verdicts, (_, result) in zip(families, pairs, strict=True)
            ]
        ),
    )


def _row(verdicts: FamilyResult, result: RunResult, several: bool) -> SystemResult:
    """Return the row of a family on a system; with ``several`` families its name holds the family as well."""
    name, system = verdicts.family, result.system
    family = result.tally.families[name]
    sees_checkpoints = Capability.CHECKPOINTS_SEEN in system.capabilities
    seconds, replayed = family.recovery_seconds, family.replayed
    return SystemResult(
        name=f"{name} on {system.name}" if several else system.name,
        family=name,
        system=system.name,
        scenarios=family.scenarios,
        failed=family.failed,
        known=verdicts.known,
        kills=family.kills,
        not_applicable=family.not_applicable,
        recoveries=seconds.total(),
        recovery_seconds=round(median(seconds.elements()), 3) if seconds else None,
        worst_recovery_seconds=max(seconds) if seconds else None,
        records_replayed=float(median(replayed.elements())) if replayed and sees_checkpoints else None,
        scenario_milliseconds=round(family.milliseconds / family.scenarios, 3),
        waiting_share=None if (share := waiting_share(family)) is None else round(share, 3),
    )


def _facts(runs: Sequence[ComparedRun], left_out: Sequence[str], command: str) -> Facts:
    results = [run.result for run in runs]
    return Facts(
        scenarios=sum(result.tally.scenarios for result in results),
        seed=results[0].seed,
        engine_version=engine_version(),
        families_version=families_version(results[0].names),
        started=time_text(results[0].started),
        seconds=round(sum(result.seconds for result in results), 3),
        machine=machine_text(),
        system=", ".join(result.system.name for result in results),
        workers=results[0].workers,
        command=command,
        others=tuple([("not compared", line) for line in left_out]),
    )
