"""What the night amounts to, concluded from the report's contents: the two seconds at the top of the page.

The worst wins: a broken guarantee, then a run cut short, then failures that are all known, then a gap in what
was tried, then a pass. Nothing run is no pass. A failure that the settings list fails nothing and is never
called a pass either. A planted bug that survived is a gap of the harness, not a fault of the engine; a fault
kind that never fired fails the night only where the campaign is big enough to demand it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias

from onceproof.reports.model import Failure, KnownFailure, RealInput, Report
from onceproof.reports.text import counted, listing, words

Status: TypeAlias = Literal["passed", "failed", "known", "gaps", "interrupted", "empty"]


@dataclass(frozen=True)
class Headline:
    """The verdict, what it means in a sentence, and each thing that stands against it."""

    status: Status
    word: str
    sentence: str
    reasons: tuple[str, ...]
    """Each thing that fails the night, apart from the failures, which speak for themselves."""
    gaps: tuple[str, ...]
    """What was not tried, or not caught."""
    notes: tuple[str, ...] = ()
    """What is worth telling and stands against nothing."""


def real_input_failed(real: RealInput) -> bool:
    """Whether the comparison found a difference, or never came about."""
    return bool(real.error or real.rows_different or real.rows_expected != real.rows_actual)


def real_input_text(real: RealInput) -> str:
    """The verdict on one real input."""
    if real.error:
        return f"{real.name}: {real.error}"
    under = f"{counted(real.records, 'record')} under {counted(len(real.kills), 'kill')}"
    if real_input_failed(real):
        different = real.rows_different or abs(real.rows_expected - real.rows_actual)
        return f"{real.name}: {under}, {counted(different, 'row')} differ from the oracle"
    return f"{real.name}: {under}, equal to the row"


def failed_scenarios(report: Report) -> int:
    """How many scenarios failed, by whichever part of the report knows of more."""
    by_signature = sum(failure.scenarios for failure in report.failures)
    by_family = sum(family.failed for family in report.families)
    return by_family or by_signature


def known_scenarios(report: Report) -> int:
    """How many of the scenarios that failed did so in a way that is known."""
    return sum(failure.scenarios for failure in report.failures if failure.known)


def known_that_are_gone(report: Report) -> tuple[KnownFailure, ...]:
    """The known signatures that did not occur though their families ran to the end."""
    if report.interrupted:
        return ()
    return tuple(known for known in report.known if known.of and not known.scenarios)


def total_scenarios(report: Report) -> int:
    """How many scenarios ran."""
    return report.facts.scenarios or sum(family.scenarios for family in report.families)


def fired_faults(report: Report) -> int:
    """How many faults fired, as far as coverage counted them."""
    return sum(cell.fired for cell in report.coverage.cells) if report.coverage else 0


def never_fired(report: Report) -> tuple[str, ...]:
    """The pairs of fault kind and protocol point that never fired."""
    cells = report.coverage.cells if report.coverage else ()
    return tuple(f"{words(cell.kind)} at {words(cell.point)}" for cell in cells if not cell.fired)


def survivors(report: Report) -> tuple[str, ...]:
    """The planted bugs that nobody caught."""
    return tuple(mutant.id for mutant in report.mutants if not mutant.killed)


def some(names: tuple[str, ...], most: int = 4) -> str:
    """The first few names, and how many more."""
    if len(names) <= most:
        return listing(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def reasons_of(report: Report) -> tuple[str, ...]:
    """What fails the night besides the failures with a scenario of their own."""
    reasons = list(report.problems)
    reasons += [real_input_text(real) for real in report.real_inputs if real_input_failed(real)]
    if not report.failures:
        reasons += [
            f"{family.family}: {words(result.property)} failed in {counted(result.failed, 'scenario')}"
            for family in report.families
            for result in family.properties
            if result.failed
        ]
        if not reasons and failed_scenarios(report):
            reasons.append(f"{counted(failed_scenarios(report), 'scenario')} failed")
    if report.oracles and report.oracles.disagreed:
        oracles = report.oracles
        reasons.append(
            f"the oracles {oracles.first} and {oracles.second} disagree on"
            f" {counted(oracles.disagreed, 'scenario')}: one of them is wrong"
        )
    if report.coverage and report.coverage.required and never_fired(report):
        reasons.append(f"never fired, though the campaign is big enough: {some(never_fired(report))}")
    return tuple(reasons)


class Broken(Protocol):
    """Whatever has a signature."""

    @property
    def family(self) -> str:
        """Whose job."""

    @property
    def anomaly(self) -> str:
        """In which way, or the function that raised."""

    @property
    def property(self) -> str:
        """What it broke, or the type of an exception."""


def signature_text(broken: Broken) -> str:
    """`word_count: exactly once, lost`."""
    return f"{broken.family}: {words(broken.property)}, {broken.anomaly}"


def failure_sentence(report: Report) -> str:
    """How much failed, in one sentence."""
    parts: list[str] = []
    failed = failed_scenarios(report)
    if failed:
        total = total_scenarios(report)
        of = f" of {total:,}" if total else ""
        text = f"{failed:,}{of} {'scenario' if failed == 1 and not of else 'scenarios'} broke a guarantee"
        parts.append(text + _ways(report.failures))
    parts += [
        f"the real input {real.name} came out wrong" for real in report.real_inputs if real_input_failed(real)
    ]
    sentence = "; ".join(parts)
    return f"{sentence[:1].upper()}{sentence[1:]}." if sentence else "What failed is listed below."


def _ways(failures: Sequence[Failure]) -> str:
    """In how many ways, and how many of them are known."""
    if not failures:
        return ""
    known = sum(failure.known for failure in failures)
    text = f", in {counted(len(failures), 'way')}"
    if known == len(failures):
        return f"{text}: {'known' if known == 1 else 'all of them known'}, nothing of it is new"
    return f"{text}, {known} of them known" if known else text


def pass_sentence(report: Report) -> str:
    """What was survived, in one or two sentences."""
    parts: list[str] = []
    if scenarios := total_scenarios(report):
        text = counted(scenarios, "scenario")
        if report.families:
            text += f" in {counted(len(report.families), 'family', 'families')}"
        if fired := fired_faults(report):
            text += f" under {counted(fired, 'injected fault')}"
        parts.append(text)
    parts += [
        f"{counted(real.records, 'real record')} ({real.name}) under {counted(len(real.kills), 'kill')}"
        for real in report.real_inputs
    ]
    return f"{listing(parts)}: nothing lost, nothing repeated, nothing invented."


def without_text(known: KnownFailure) -> str:
    """`, nor in the 4 nights before`; empty where the night before had it, or is not kept."""
    nights = known.nights_without
    if not nights:
        return ""
    return ", nor in the night before" if nights == 1 else f", nor in the {nights:,} nights before"


def gone_text(known: KnownFailure) -> str:
    """That a known signature did not occur, and what to do if it is mended."""
    return (
        f"known, and did not occur in {counted(known.of, 'scenario')}{without_text(known)}:"
        f" {signature_text(known)};"
        " if it is mended, take it out of the settings"
    )


def conclude(report: Report) -> Headline:
    """The verdict of the night."""
    headline = _verdict(report)
    return replace(headline, notes=tuple(map(gone_text, known_that_are_gone(report))))


def _verdict(report: Report) -> Headline:
    reasons = reasons_of(report)
    survived = survivors(report)
    gaps: tuple[str, ...] = (report.interrupted,) if report.interrupted else ()
    if survived:
        gaps += (f"{counted(len(survived), 'planted bug')} survived: {some(survived)}",)
    if reasons or not all(failure.known for failure in report.failures):
        return Headline("failed", "Failed", failure_sentence(report), reasons, gaps)
    if not total_scenarios(report) and not report.real_inputs and not report.mutants:
        sentence = "There is nothing to conclude: no scenario and no real input was run."
        return Headline("empty", "Nothing ran", sentence, (), gaps)
    if report.interrupted:
        sentence = f"No guarantee broke in what did run. {pass_sentence(report)}"
        if report.failures:
            sentence = failure_sentence(report)
        return Headline("interrupted", "Interrupted", sentence, (), gaps)
    if report.failures:
        return Headline("known", "Known failures only", failure_sentence(report), (), gaps)
    if not total_scenarios(report) and not report.real_inputs:
        sentence = f"{counted(len(report.mutants), 'planted bug')} tried; no campaign was run."
        return Headline("gaps" if gaps else "passed", "Passed", sentence, (), gaps)
    if gaps:
        return Headline("gaps", "Passed, with a gap", pass_sentence(report), (), gaps)
    return Headline("passed", "Every record exactly once", pass_sentence(report), (), ())
