"""Builds the report of a run: the model from which the page, report.json and JUnit XML are written.

A campaign is asked for a situation only if it is drawn often, and the family that shows it best is among its
families: a job that has no transactions is never in one of theirs. A real process is killed where its steps
allow, so only the simulation is asked.

Rules:

- This module judges nothing. The tally and the failures hold the verdicts; `reports.headline` concludes.
- A run, a campaign and a night build the report with the same functions. Parts that only some of them have
  (real input, mutants, the agreement of oracles) are added with ``msgspec.structs.replace``.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from onceproof.harness.checkers.coverage import CAMPAIGN, POINT_NEVER_PASSED, check_coverage
from onceproof.harness.checkers.known_failures import KnownSignature, find_known
from onceproof.harness.checkers.situations import RARE, SITUATIONS
from onceproof.harness.explanation.decisions import DecisionEffects
from onceproof.harness.explanation.descriptions import (
    fault_text,
    needed_text,
    operation_text,
    replay_command,
)
from onceproof.harness.explanation.visible_run import recovery_text
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.columns import shown_columns_of
from onceproof.harness.model.exit_codes import line_of
from onceproof.harness.model.family_places import in_spark, is_built_in, judge_of, script_of
from onceproof.harness.model.fault_kinds import MARK, POINTS
from onceproof.harness.model.faults import FAULTS, JOB_FAULTS, KILLS
from onceproof.harness.model.history import KILL
from onceproof.harness.model.program_family import ProgramFamily
from onceproof.harness.model.system import System, can_strike
from onceproof.harness.reporting.teaching_scenario import teaching_example, trace_of
from onceproof.harness.trials.failures import FailureCase
from onceproof.harness.trials.minimums import properties_asked
from onceproof.harness.trials.output_files import OutputUnwritable, unwritable, write_file
from onceproof.harness.trials.revisions import engine_version, families_version
from onceproof.harness.trials.runner import RunResult
from onceproof.harness.trials.tally import FamilyTally, Tally
from onceproof.harness.trials.trial import SIMULATED
from onceproof.reports.headline import first_names
from onceproof.reports.junit import junit
from onceproof.reports.model import (
    Coverage,
    CoverageCell,
    Decision,
    Distribution,
    Facts,
    Failure,
    FamilyResult,
    InputRecord,
    KnownFailure,
    OracleAgreement,
    PropertyResult,
    RefusedFamily,
    Report,
    Shrinking,
    SituationCount,
    Sizes,
    Symptom,
)
from onceproof.reports.notes import judged_text
from onceproof.reports.render import write
from onceproof.reports.summaries import distribution, row_differences
from onceproof.reports.text import counted, duration

if TYPE_CHECKING:
    from onceproof.harness.campaign.pipeline import CampaignResult


def situation_counts(tally: Tally, system: System) -> tuple[SituationCount, ...]:
    """Return each situation with its scenarios; none for a system whose checkpoints are not seen."""
    if Capability.CHECKPOINTS_SEEN not in system.capabilities:
        return ()
    is_large = tally.scenarios >= CAMPAIGN and Capability.DETERMINISM in system.capabilities
    totals = tally.situations()
    counts = []
    for situation in SITUATIONS:
        scenarios = totals[situation.name]
        asked = is_large and situation.drawn and situation.family in tally.families
        # The first of those that were in it equally often.
        most = max(tally.families, key=partial(_scenarios_of, tally, situation.name), default="")
        counts.append(
            SituationCount(
                situation.name,
                situation.purpose,
                scenarios,
                most if scenarios else situation.family,
                required=asked,
                rare=asked and 0 < scenarios * RARE < tally.scenarios,
            )
        )
    return tuple(counts)


def _scenarios_of(tally: Tally, situation: str, family: str) -> int:
    return tally.families[family].situations[situation]


SYSTEM: Final = "simulated"
REPLAYED: Final = "records read again"
RECOVERY_STEPS: Final = "steps without a running job"
MOST_WITNESSES: Final = 5
LEAST_WATCHED: Final = 20
"""In fewer scenarios it says nothing that something never happened."""


def build_report(
    result: RunResult,
    failures: Sequence[FailureCase],
    command: str = "",
    mistake: Exception | None = None,
    known: Sequence[KnownSignature] = (),
    refused: Sequence[tuple[str, str]] = (),
) -> Report:
    """Return the report of a run.

    ``failures`` holds one case per finding, ``command`` is the command line, ``mistake`` the error that
    ended the run early, ``known`` the failures that the settings list, and ``refused`` the families that the
    system cannot run, each with the reason.
    """
    tally = result.tally
    interrupted = "interrupted from the keyboard" if result.interrupted else ""
    return Report(
        facts=facts_of(result, command),
        problems=tuple(coverage_problems(tally, result.system)),
        interrupted=line_of(mistake) if mistake is not None else interrupted,
        families=tuple(family_result(name, result, known) for name in sorted(tally.families)),
        refused=tuple(RefusedFamily(family, reason) for family, reason in refused),
        failures=tuple(failure_of(case) for case in failures),
        known=tuple(_known_failure(entry, tally) for entry in known),
        example=teaching_example(result),
        coverage=coverage_of(tally, result.system),
        situations=situation_counts(tally, result.system),
        costs=costs_of(tally) if Capability.CHECKPOINTS_SEEN in result.system.capabilities else (),
    )


def write_report(
    report: Report, folder: Path, junit_file: Path | None = None, refresh_seconds: int = 0
) -> Path:
    """Write index.html, report.json and, if ``junit_file`` is given, JUnit XML; return the page's path.

    ``refresh_seconds``: how often the page of a run that goes on loads itself; 0: never. Raises
    OutputUnwritable.
    """
    try:
        page = write(report, folder, refresh_seconds)
    except OSError as error:
        raise unwritable(Path(error.filename or folder), error) from None
    if junit_file is not None:
        write_junit(report, junit_file)
    return page


def write_report_or_note(
    report: Report, folder: Path, junit_file: Path | None, unwritten: list[OutputUnwritable]
) -> Path | None:
    """Write as ``write_report`` does; if that fails, add the error to ``unwritten`` and return None."""
    try:
        return write_report(report, folder, junit_file)
    except OutputUnwritable as error:
        unwritten.append(error)
        return None


def write_junit(report: Report, path: Path) -> None:
    """Write the report as JUnit XML. Raises OutputUnwritable."""
    write_file(path, junit(report))


def add_oracle_agreement(report: Report, campaign: CampaignResult) -> Report:
    """Return a campaign's report with the agreement of its two oracles and the Spark master.

    If the campaign ended early, the report states how many scenarios only the Python oracle has judged, and
    in any case of which families it is the only one.
    """
    agreement = OracleAgreement(
        scenarios=campaign.compared,
        disagreed=len(campaign.disagreements),
        seconds=round(campaign.judging_seconds, 3),
        witnesses=tuple(map(str, campaign.disagreements[:MOST_WITNESSES])),
    )
    interrupted, unjudged = report.interrupted, campaign.run.tally.scenarios - campaign.judged
    if interrupted and unjudged:
        interrupted += (
            f"; Spark SQL has not judged {unjudged:,} of {campaign.run.tally.scenarios:,} scenarios"
        )
    others = report.facts.others
    for family in campaign.run.families:
        if not (query := in_spark(family)).oracle_sql:
            why = getattr(query, "reason", "") or "without oracle_sql"
            others = (*others, ("judged by Python alone", f"{family.name}: {why}"))
    facts = msgspec.structs.replace(
        report.facts, system=f"{SYSTEM}, on Spark {campaign.master}", others=others
    )
    return msgspec.structs.replace(
        report, oracles=agreement if campaign.compared else None, interrupted=interrupted, facts=facts
    )


def facts_of(result: RunResult, command: str = "") -> Facts:
    """Return the facts of a run: scenarios, seed, version, machine, system, duration, trace hash."""
    tally = result.tally
    return Facts(
        scenarios=tally.scenarios,
        seed=result.seed,
        engine_version=engine_version(),
        families_version=families_version(result.names),
        started=time_text(result.started),
        seconds=round(result.seconds, 3),
        machine=machine_text(),
        system=result.system.name,
        workers=result.workers,
        trace_hash=tally.trace_hash(),
        command=command,
        others=(
            ("kills", f"{tally.kills:,}, {tally.rescales:,} of them with another parallelism afterwards"),
            *_not_applicable(tally),
            *_judged_by_itself(result),
            *_judged_in_batch(result),
            *_share_of(result),
            *_exhausted(result),
            *_cost(tally),
        ),
    )


def _not_applicable(tally: Tally) -> Iterator[tuple[str, str]]:
    """Yield as a fact the number of planned faults that the system cannot inject."""
    if tally.not_applicable:
        faults = counted(tally.not_applicable, "planned fault")
        yield "not applicable", f"{faults} that this system cannot inject"


def _judged_by_itself(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yield as a fact which families are programs, whose oracle is the program."""
    if names := tuple(family.name for family in result.families if script_of(family) is not None):
        yield (
            "judged by itself",
            f"{first_names(names)}: judged by its own runs without faults, so logic that is wrong without any"
            " fault is not seen",
        )


def _judged_in_batch(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yield as a fact who judges each script of Flink SQL."""
    for family in result.families:
        if judge := judge_of(family):
            tally = result.tally.families.get(family.name, FamilyTally())
            counts = judged_text(tally.notes, tally.scenarios)
            yield "oracle", f"{family.name}: {judge}{f'; {counts}' if counts else ''}"


def _share_of(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yield as a fact which part of a run this is."""
    if result.share.of > 1:
        yield "share", f"number {result.share.first} of {result.share.of}, counted from 0"


def _exhausted(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yield as a fact which families ended early because they met nothing new."""
    if result.exhausted:
        names = [f"{name} after {met.scenarios:,}" for name, met in sorted(result.exhausted.items())]
        yield "exhausted", f"{', '.join(names)}: nothing new in the last scenarios"


def _cost(tally: Tally) -> Iterator[tuple[str, str]]:
    """Yield as a fact what a scenario has cost, on systems that measure what it was spent on."""
    if text := cost_text(tally):
        yield "cost of a scenario", text


def cost_text(tally: Tally) -> str:
    """Return the cost of a scenario in words; "" where the system does not measure what it was spent on."""
    seconds = duration(tally.scenario_seconds)
    if tally.phase_seconds:
        phases = [f"{phase} {each:.2f} s" for phase, each in tally.phase_seconds.items()]
        return f"{seconds}: {', '.join(phases)}"
    if tally.waiting_share is None:
        return ""
    return f"{seconds}, {tally.waiting_share:.0%} of it waiting for the system to start"


def time_text(moment: datetime) -> str:
    """Return a moment in the format of the report: `2026-11-20 02:17:05 UTC`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def machine_text() -> str:
    """Return processors, Python version, operating system and architecture of this machine."""
    processors = counted(os.cpu_count() or 1, "processor")
    return f"{processors}, Python {platform.python_version()}, {platform.system()} {platform.machine()}"


def coverage_of(tally: Tally, system: System = SIMULATED) -> Coverage:
    """Return how often each fault kind was planned and fired at each point, for faults of the system.

    Faults of servers are listed where they were planned: most families have no server. So are all faults of
    programs, of which few points are seen.
    """
    sees_points = Capability.CHECKPOINTS_SEEN in system.capabilities
    cells = tuple(
        CoverageCell(kind, point, tally.planned[f"{kind}/{point}"], tally.fired[f"{kind}/{point}"])
        for kind, row in FAULTS.items()
        for point in row.all_points
        if can_strike(system, kind, point)
        and ((kind in JOB_FAULTS and sees_points and point != MARK) or tally.planned[f"{kind}/{point}"])
    )
    return Coverage(cells=cells, points=POINTS, required=tally.scenarios >= CAMPAIGN)


def coverage_problems(tally: Tally, system: System = SIMULATED) -> list[str]:
    """Return a line for each protocol point that a large run never passed.

    Fault kinds that never fired are not listed; the coverage table shows them.
    """
    fired = {
        (kind, point): tally.fired[f"{kind}/{point}"] for kind, row in FAULTS.items() for point in row.points
    }
    return [
        f"protocol point never passed: {violation.where}"
        for violation in check_coverage(tally.scenarios, fired, tally.points)
        if violation.anomaly == POINT_NEVER_PASSED
        and any(can_strike(system, kind, violation.witness["point"]) for kind in sorted(KILLS))
    ]


def costs_of(tally: Tally) -> tuple[Distribution, ...]:
    """Return the distributions of the cost of recovery, over the scenarios in which a job restarted."""
    note = "in which the job restarted"
    found = (
        distribution(REPLAYED, "records", tally.replayed, note),
        distribution(RECOVERY_STEPS, "steps", tally.recovery_steps, note),
    )
    return tuple(cost for cost in found if cost is not None)


def failure_of(case: FailureCase) -> Failure:
    """Return a finding as the report's model holds it."""
    return merged([_one_failure(each) for each in (case, *case.others)])


def merged(failures: Sequence[Failure]) -> Failure:
    """Return failures of one bug as one, which is shown by the first of them."""
    shown, *others = failures
    also = dict.fromkeys(name for each in failures for name in each.also)
    return msgspec.structs.replace(
        shown,
        scenarios=sum(each.scenarios for each in failures),
        symptoms=tuple(
            Symptom(each.property, each.anomaly, each.scenarios, each.sentence, each.replay)
            for each in others
        ),
        also=tuple(name for name in also if name != shown.property),
    )


def _one_failure(case: FailureCase) -> Failure:
    scenario, shrunk, explanation, mistake = case.scenario, case.shrunk, case.explanation, case.mistake
    records = tuple(
        InputRecord(split, offset, value if isinstance(value, tuple) else (value,), timestamp)
        for split, split_records in scenario.records.items()
        for offset, (timestamp, value) in enumerate(split_records)
    )
    first, second = case.signature
    recoveries = case.history.statistics.recoveries if case.repeated else ()
    shown = case.verdict.failed_properties()
    return Failure(
        family=scenario.family,
        property=first,
        anomaly=second,
        replay=case.replay,
        shrink=case.shrink,
        seed=case.original.seed,
        scenarios=case.count,
        known=case.known is not None,
        known_since=case.known.since if case.known else "",
        known_why=case.known.why if case.known else "",
        sentence=explanation.sentence if mistake is None else mistake.sentence,
        mend=() if mistake is None else tuple(mistake.example.splitlines()),
        title="" if mistake is None else mistake.title,
        # Where the family is to be mended, no step of the job is the cause.
        cause=explanation.cause if case.is_explained else "",
        shrinking=Shrinking(
            before=Sizes(shrunk.before.records, shrunk.before.faults, shrunk.before.schedule),
            after=Sizes(shrunk.after.records, shrunk.after.faults, shrunk.after.schedule),
            runs=shrunk.runs,
            needed=needed_text(scenario),
        ),
        records=records,
        faults=(
            *(fault_text(fault) for fault in scenario.faults),
            *(operation_text(operation) for operation in scenario.asked),
        ),
        takes="" if case.takes is None else case.takes.sentence,
        decisions=() if case.takes is None else _decisions(case.takes),
        columns=shown_columns_of(case.family),
        rows=row_differences(case.expected_rows, case.actual_rows) if case.repeated else (),
        first_divergence="" if mistake is not None and mistake.title else explanation.first_divergence,
        story=tuple(explanation.story),
        recoveries=tuple(map(recovery_text, recoveries)),
        notes=case.notes,
        also=tuple(name for name in shown if name != first),
        trace=trace_of(case.history),
    )


def _decisions(takes: DecisionEffects) -> tuple[Decision, ...]:
    return tuple(
        Decision(weighed.text, weighed.effect, ", ".join(weighed.otherwise or ()))
        for weighed in takes.decisions
    )


def family_result(name: str, result: RunResult, known: Sequence[KnownSignature]) -> FamilyResult:
    """Return the verdicts of one family of a run, by property; ``known`` are the listed failures."""
    tally = result.tally
    family = tally.families[name]
    listed = [
        group
        for (family_name, signature), group in tally.groups.items()
        if family_name == name and find_known(known, name, signature)
    ]
    results = [
        PropertyResult(
            each,
            max(asked.scenarios - family.broken[each], 0),
            family.broken[each],
            sum(group.broken[each] for group in listed),
        )
        for each, asked in properties_asked(result, name).items()
    ]
    return FamilyResult(
        family=name,
        scenarios=family.scenarios,
        failed=family.failed,
        properties=tuple(results),
        known=sum(group.count for group in listed),
        seconds=round(family.milliseconds / 1000, 3),
        **_notes_of(family, is_built_in(result.family(name))),
        seeds=tuple([seed for _, seed in family.seeds]),
        hit=family.happened[KILL] if isinstance(result.family(name), ProgramFamily) else None,
        replay=replay_command(Path("SEED"), result.asked_for(name), result.system.name),
    )


def _notes_of(family: FamilyTally, is_ours: bool) -> dict[str, Any]:
    """Return the fields of a family's notes; a built-in family has none: its users cannot change it."""
    if is_ours:
        return {}
    return {
        "timers_only_at_end": family.timers_only_at_end,
        "notes": dict(sorted(family.notes.items())),
        "never": {
            name: scenarios
            for name, scenarios in sorted(family.watched.items())
            if scenarios >= LEAST_WATCHED and not family.happened[name]
        },
    }


def _known_failure(entry: KnownSignature, tally: Tally) -> KnownFailure:
    group = tally.groups.get((entry.family, entry.signature()))
    family = tally.families.get(entry.family)
    return KnownFailure(
        family=entry.family,
        property=entry.property,
        anomaly=entry.anomaly,
        since=entry.since,
        why=entry.why,
        scenarios=group.count if group else 0,
        of=family.scenarios if family else 0,
    )
