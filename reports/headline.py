"""The verdict of a report, concluded from its contents: a status, a headline, and the reasons.

The worst status wins: failed, interrupted, too little, known failures only, gaps, passed. A run without
scenarios, or a night that has not reached its minimums, is "empty", not passed. So is a run of a program that
kills hardly hit between its first row and its last, and a comparison in which a system received no kills. A
run is called a sample where a family has under LEAST_SCENARIOS scenarios, a property was asked in under half
of the families that have it, or the rows of a script were not judged in over half of its scenarios. Known
failures do not fail a run, but it is not called passed. A planted bug that survived is a gap, because it
shows a hole in the harness and not a fault of the engine. A fault kind that never fired fails a run only if
the campaign is large enough to require it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from onceproof.reports.model import Failure, FamilyResult, RealInput, Report
from onceproof.reports.notes import NO_JUDGE, Note, judges_of, notes_of
from onceproof.reports.text import counted, joined, words

WHOLE = "Every record exactly once"
SAMPLE = "Passed, in a sample"

Status: TypeAlias = Literal["passed", "failed", "known", "gaps", "interrupted", "empty"]


@dataclass(frozen=True)
class Headline:
    """The verdict of a report: its status, a headline, a sentence, and the reasons."""

    status: Status
    word: str
    sentence: str
    reasons: tuple[str, ...]
    """Why the run failed, apart from the failures with a scenario."""
    gaps: tuple[str, ...]
    """What did not run, or was not caught."""
    notes: tuple[Note, ...] = ()
    """What does not affect the verdict, one for each kind."""
    asked: str = ""
    """How often each property was asked."""
    thin: tuple[str, ...] = ()
    """Where the evidence is thin; empty if every family and property has its share."""


_LEAVES_OUT = ("not applicable", "judged by itself")
"""The facts that say what a run did not see."""
MOST_UNTESTED = 12
"""Families whose unasked properties a page names one by one."""

LEAST_SCENARIOS = 50
"""A family with fewer is a sample."""
LEAST_HITS = 3
"""In so many scenarios a kill comes between first and last row of a program, or it is barely tested."""


def subject_of(result: FamilyResult | Failure) -> str:
    """Return what ran: `word_count`, or `word_count on local` in a comparison of systems."""
    return f"{result.family} on {result.system}" if result.system else result.family


def asked_counts(report: Report) -> dict[str, int]:
    """Return by property in how many scenarios it was asked, over all families."""
    asked: dict[str, int] = {}
    for family in report.families:
        for result in family.properties:
            asked[result.property] = asked.get(result.property, 0) + result.passed + result.failed
    return asked


def asked_text(report: Report) -> str:
    """Return `Checked 8 properties in each of 90 scenarios; restore anywhere in 3 and mode in 2`."""
    asked, total = asked_counts(report), total_scenarios(report)
    always = [name for name, number in asked.items() if number == total]
    parts = []
    if always:
        names = counted(len(always), "property", "properties") if len(always) > 1 else words(always[0])
        parts.append(f"{names} in each of {counted(total, 'scenario')}")
    rest = [f"{words(name)} in {number:,}" for name, number in asked.items() if 0 < number != total]
    if rest:
        parts.append(joined(rest))
    return f"Checked {'; '.join(parts)}." if parts else ""


def thin_texts(report: Report) -> tuple[str, ...]:
    """Return where the evidence is thin: families with few scenarios, properties asked in few families."""
    families = report.families
    few = tuple(subject_of(each) for each in families if each.scenarios < LEAST_SCENARIOS)
    noun = "rows" if report.comparison else "families"
    texts = []
    if few and len(few) == len(families):
        of = "" if len(families) == 1 else f" in each of {len(families):,} {noun}"
        texts.append(f"under {LEAST_SCENARIOS} scenarios{of}")
    elif few:
        of = f"{len(few):,} of {len(families):,} {noun}"
        texts.append(f"under {LEAST_SCENARIOS} scenarios in {of}: {first_names(few)}")
    never, seldom = [], []
    for name in asked_counts(report):
        results = [each for family in families for each in family.properties if each.property == name]
        asked = sum(bool(each.passed or each.failed) for each in results)
        if not asked:
            never.append(words(name))
        elif 2 * asked < len(results):
            seldom.append(words(name))
    if never:
        texts.append(f"{joined(tuple(never))} not checked")
    if seldom:
        texts.append(f"{joined(tuple(seldom))} checked in under half of the {noun}")
    texts += [
        f"rows not judged in {unjudged:,} of {counted(each.scenarios, 'scenario')} of {subject_of(each)}"
        for each in families
        if 2 * (unjudged := unjudged_scenarios(each)) > each.scenarios
    ]
    return tuple(texts)


def unjudged_scenarios(result: FamilyResult) -> int:
    """Return in how many scenarios the rows of a script were not judged."""
    judges = judges_of(result.notes)
    return sum(number for who, number in judges.items() if who.startswith(NO_JUDGE))


def real_input_failed(real: RealInput) -> bool:
    """Return whether the rows differ from the oracle, or could not be compared."""
    return bool(real.error or real.rows_different or real.rows_expected != real.rows_actual)


def real_input_text(real: RealInput) -> str:
    """Return the verdict on one real input as a line."""
    if real.error:
        return f"{real.name}: {real.error}"
    under = f"{counted(real.records, 'record')} under {counted(len(real.kills), 'kill')}"
    if real_input_failed(real):
        different = real.rows_different or abs(real.rows_expected - real.rows_actual)
        return f"{real.name}: {under}, {counted(different, 'row')} differ from the oracle"
    return f"{real.name}: {under}, equal to the row"


def failed_scenarios(report: Report) -> int:
    """Return the number of failed scenarios, from the families, else from the failures."""
    by_signature = sum(failure.scenarios for failure in report.failures)
    by_family = sum(family.failed for family in report.families)
    return by_family or by_signature


def known_scenarios(report: Report) -> int:
    """Return the number of failed scenarios whose signature is known."""
    return sum(failure.scenarios for failure in report.failures if failure.known)


def total_scenarios(report: Report) -> int:
    """Return the number of scenarios that ran."""
    return report.facts.scenarios or sum(family.scenarios for family in report.families)


def fired_faults(report: Report) -> int:
    """Return the number of faults that fired, according to the coverage; 0 without coverage."""
    return sum(cell.fired for cell in report.coverage.cells) if report.coverage else 0


def never_fired(report: Report) -> tuple[str, ...]:
    """Return the pairs of fault kind and protocol point that never fired, as texts."""
    cells = report.coverage.cells if report.coverage else ()
    return tuple(f"{words(cell.kind)} at {words(cell.point)}" for cell in cells if not cell.fired)


def missing_situations(report: Report) -> tuple[str, ...]:
    """Return the situations in which none of the scenarios was, though the campaign is asked for them."""
    return tuple(each.name for each in report.situations if each.required and not each.scenarios)


def rare_texts(report: Report) -> tuple[str, ...]:
    """Return a line for each situation in which too few scenarios of a campaign were."""
    total = counted(total_scenarios(report), "scenario")
    return tuple(
        f"rare: {each.name}, in {each.scenarios:,} of {total}; more of it in {each.family}"
        for each in report.situations
        if each.rare
    )


def survivors(report: Report) -> tuple[str, ...]:
    """Return the ids of the planted bugs that no property caught."""
    return tuple(mutant.id for mutant in report.mutants if not mutant.killed)


def untested_texts(report: Report) -> tuple[str, ...]:
    """Return what the run did not check, each as a sentence without a full stop."""
    texts = list(thin_texts(report)) if report.families else []
    asked = asked_counts(report)
    for family in report.families:
        missing = [words(name) for name in asked if asked[name] and not _was_asked(family, name)]
        if missing and len(texts) < MOST_UNTESTED:
            texts.append(f"{subject_of(family)}: {joined(tuple(missing))} not checked")
    if names := never_fired(report):
        texts.append(f"{counted(len(names), 'pair')} of fault and point never fired: {first_names(names)}")
    absent = tuple(each.name for each in report.situations if not each.scenarios)
    if absent:
        texts.append(f"{counted(len(absent), 'situation')} never occurred: {first_names(absent)}")
    texts += [text for name, text in report.facts.others if name in _LEAVES_OUT]
    if alive := survivors(report):
        texts.append(f"{counted(len(alive), 'planted bug')} survived: {first_names(alive)}")
    return tuple(texts)


def _was_asked(family: FamilyResult, name: str) -> bool:
    return any(each.property == name and (each.passed or each.failed) for each in family.properties)


def first_names(names: tuple[str, ...], most: int = 4) -> str:
    """Return the first names, and the number of further ones."""
    if len(names) <= most:
        return joined(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def reasons_of(report: Report) -> tuple[str, ...]:
    """Return why the run failed, apart from the failures with a scenario."""
    reasons = list(report.problems)
    reasons += [real_input_text(real) for real in report.real_inputs if real_input_failed(real)]
    if not report.failures:
        reasons += [
            f"{subject_of(family)}: {words(result.property)} failed in {counted(result.failed, 'scenario')}"
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
        reasons.append(f"never fired in a campaign of this size: {first_names(never_fired(report))}")
    if missing_situations(report):
        reasons.append(f"never in a campaign of this size: {first_names(missing_situations(report))}")
    return tuple(reasons)


def failure_sentence(report: Report) -> str:
    """Return the number of findings and of failed scenarios as a sentence."""
    parts: list[str] = []
    failed = failed_scenarios(report)
    if failed:
        total = total_scenarios(report)
        of = f" of {total:,}" if total else ""
        text = f"{failed:,}{of} {'scenario' if failed == 1 and not of else 'scenarios'}"
        found = _findings_text(report.failures)
        parts.append(f"{found}, in {text}" if found else f"{text} violated a property")
    parts += [f"the real input {real.name} failed" for real in report.real_inputs if real_input_failed(real)]
    mended = [failure for failure in report.failures if failure.title]
    for title in dict.fromkeys(failure.title for failure in mended):
        own = [failure for failure in mended if failure.title == title]
        families = joined(tuple(dict.fromkeys(each.family for each in own)))
        parts.append(f"{sum(each.scenarios for each in own):,} of them: {title}, so fix {families}")
    sentence = "; ".join(parts)
    return f"{sentence[:1].upper()}{sentence[1:]}." if sentence else "The reasons are listed below."


def _findings_text(failures: Sequence[Failure]) -> str:
    """Return the number of findings, and how many of them are known: `3 findings (1 known)`."""
    if not failures:
        return ""
    known = sum(failure.known for failure in failures)
    text = counted(len(failures), "finding")
    if known == len(failures):
        return f"{text} ({'known' if known == 1 else 'all known'})"
    return f"{text} ({known} known)" if known else text


def pass_sentence(report: Report) -> str:
    """Return the numbers of scenarios, faults and real records that passed, as a sentence."""
    parts: list[str] = []
    if scenarios := total_scenarios(report):
        text = counted(scenarios, "scenario")
        if report.comparison:
            text += f" in {counted(len({each.family for each in report.comparison}), 'family', 'families')}"
            text += f" on {counted(len({each.system for each in report.comparison}), 'system')}"
        elif report.families:
            text += f" in {counted(len(report.families), 'family', 'families')}"
        if fired := fired_faults(report):
            text += f" under {counted(fired, 'injected fault')}"
        parts.append(text)
    parts += [
        f"{counted(real.records, 'real record')} ({real.name}) under {counted(len(real.kills), 'kill')}"
        for real in report.real_inputs
    ]
    return f"{joined(parts)}: nothing lost, nothing repeated, nothing invented."


def barely_tested(report: Report) -> tuple[str, ...]:
    """Return which programs, and which systems of a comparison, kills have hardly hit, each as a text."""
    missed = [each.name for each in report.comparison if not each.kills]
    texts = [f"no kill struck {joined(missed)}, so there is no verdict"] if missed else []
    few = [each for each in report.families if each.hit is not None and each.hit < LEAST_HITS]
    texts += [
        f"a kill came between the first row and the last of {subject_of(each)} in {each.hit:,} of"
        f" {counted(each.scenarios, 'scenario')}, and it takes {LEAST_HITS}"
        for each in few
    ]
    return tuple(texts)


def shortfall_sentence(report: Report, shortfalls: Sequence[str]) -> str:
    """Return what is missing and what ran, as a sentence or two."""
    text = "; ".join(shortfalls)
    ran = f" {failure_sentence(report) if report.failures else pass_sentence(report)}"
    return f"{text[:1].upper()}{text[1:]}.{ran if total_scenarios(report) else ''}"


def conclude(report: Report) -> Headline:
    """Return the verdict of a report."""
    headline = _verdict(report)
    thin = thin_texts(report)
    return replace(
        headline,
        word=SAMPLE if headline.word == WHOLE and thin else headline.word,
        notes=notes_of(report),
        asked=asked_text(report),
        thin=thin,
    )


def _verdict(report: Report) -> Headline:
    reasons = reasons_of(report)
    survived = survivors(report)
    gaps: tuple[str, ...] = (report.interrupted,) if report.interrupted else ()
    if survived:
        gaps += (f"{counted(len(survived), 'planted bug')} survived: {first_names(survived)}",)
    if reasons or not all(failure.known for failure in report.failures):
        return Headline("failed", "Failed", failure_sentence(report), reasons, gaps)
    if not total_scenarios(report) and not report.real_inputs and not report.mutants:
        sentence = "No scenario and no real input was run."
        return Headline("empty", "Nothing ran", sentence, (), gaps)
    if report.interrupted:
        sentence = f"No property was violated before the end. {pass_sentence(report)}"
        if report.failures:
            sentence = failure_sentence(report)
        return Headline("interrupted", "Interrupted", sentence, (), gaps)
    if report.shortfalls:
        return Headline("empty", "Too little ran", shortfall_sentence(report, report.shortfalls), (), gaps)
    if report.failures:
        return Headline("known", "Known failures only", failure_sentence(report), (), gaps)
    if barely := barely_tested(report):
        return Headline("empty", "Barely tested", shortfall_sentence(report, barely), (), gaps)
    if not total_scenarios(report) and not report.real_inputs:
        sentence = f"{counted(len(report.mutants), 'planted bug')} measured; no campaign was run."
        return Headline("gaps" if gaps else "passed", "Passed", sentence, (), gaps)
    if gaps:
        return Headline("gaps", "Passed, with a gap", pass_sentence(report), (), gaps)
    return Headline("passed", WHOLE, pass_sentence(report), (), ())
