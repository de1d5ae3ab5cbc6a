"""The report as JUnit XML for CI servers: a suite for each family, a case for each property.

The rules this module lives by:

- The verdict is that of the page. A known failure, or a planted bug that survived, is a skipped case, which
  servers show but do not count against the build.
- Everything that fails a run also fails its case `verdict`, so that no server shows a failed run as passed.
- Names of cases are stable, so that a server can show the first build in which a case failed: a case is named
  after its property, and the violation is in its failure.
- A failure is complete without the page: the sentence, the shrunk records and faults, the replay commands.
- The file is valid in the strictest schema of JUnit, that of Ant, and therefore in the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from onceproof.reports.headline import (
    Status,
    conclude,
    missing_situations,
    never_fired,
    rare_texts,
    real_input_failed,
    real_input_text,
    subject_of,
)
from onceproof.reports.model import Failure, FamilyResult, Mutant, PropertyResult, RealInput, Report
from onceproof.reports.text import cell, counted, visible, words

PACKAGE: Final = "onceproof"
MOST_RECORDS: Final = 60

Outcome: TypeAlias = Literal["passed", "failure", "error", "skipped"]


_VERDICTS: Final[dict[Status, Outcome]] = {
    "passed": "passed",
    "gaps": "passed",
    "known": "skipped",
    "failed": "failure",
    "interrupted": "error",
    "empty": "error",
}


@dataclass(frozen=True)
class Case:
    """One test case and its outcome."""

    name: str
    outcome: Outcome = "passed"
    type: str = ""
    message: str = ""
    text: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Suite:
    """One test suite; ``out`` is its standard output."""

    name: str
    cases: Sequence[Case]
    seconds: float = 0.0
    out: str = ""


def junit(report: Report) -> bytes:
    """Return the report as an XML document."""
    suites = [_family_suite(family, report) for family in report.families]
    if report.mutants:
        suites.append(_mutants_suite(report.mutants))
    suites.append(_run_suite(report))
    root = Element("testsuites")
    for number, suite in enumerate(suites):
        _add_suite(root, suite, number, report)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _family_suite(family: FamilyResult, report: Report) -> Suite:
    names = {result.property for result in family.properties}
    failures = [failure for failure in report.failures if subject_of(failure) == subject_of(family)]
    checked = [result for result in family.properties if result.passed or result.failed]
    # A scenario checks all properties at once. Each gets the same share of the time, because servers add up
    # the times of the cases.
    seconds = family.seconds / len(checked) if checked else 0.0
    cases = [_property_case(result, failures, names, seconds) for result in checked]
    failed = f", {family.failed:,} failed" if family.failed else ""
    known = f", {family.known:,} of them in known ways" if family.known else ""
    return Suite(
        subject_of(family), cases, family.seconds, f"{counted(family.scenarios, 'scenario')}{failed}{known}"
    )


def _property_case(
    result: PropertyResult, failures: Sequence[Failure], names: set[str], seconds: float
) -> Case:
    if not result.failed:
        return Case(result.property, seconds=seconds)
    # The signature of an exception is its type and function; the property that it violates is in `also`.
    own = [
        failure
        for failure in failures
        if result.property in (failure.property, *(each.property for each in failure.symptoms))
        or (failure.property not in names and result.property in failure.also)
    ]
    own.sort(key=lambda failure: failure.known)
    others = [failure for failure in failures if failure not in own and result.property in failure.also]
    blocks = ["\n".join(_block(failure)) for failure in own]
    blocks += [f"also violated by the scenarios of the failure: {_name(failure)}" for failure in others]
    text = "\n\n".join(blocks)
    of = f"in {result.failed:,} of {counted(result.passed + result.failed, 'scenario')}"
    if result.failed == result.known:
        about = next(filter(None, map(_known_text, own or others)), "listed in the settings")
        return Case(result.property, "skipped", "", f"known, {of}: {about}", text, seconds)
    sentence = next((failure.sentence for failure in own if failure.sentence), "the property does not hold")
    kind = own[0].anomaly if own else "broken"
    return Case(result.property, "failure", kind, f"{of}: {sentence}", text, seconds)


def _block(failure: Failure) -> Iterator[str]:
    """Yield the lines of one failure."""
    listed = f"known {_known_text(failure)}".strip() if failure.known else "new"
    if not failure.known and failure.first_seen:
        listed = f"seen since {failure.first_seen}"
    yield f"{_name(failure)}, in {counted(failure.scenarios, 'scenario')} ({listed})"
    yield from filter(None, (failure.sentence, *failure.mend, failure.cause))
    yield f"replay: {failure.replay}"
    if failure.shrink:
        yield f"explain: {failure.shrink}"
    if failure.records:
        yield f"{counted(len(failure.records), 'record')}:"
        for record in failure.records[:MOST_RECORDS]:
            yield f"  {record.split} {record.offset}: {_row(record.value)}"
        if len(failure.records) > MOST_RECORDS:
            yield f"  and {len(failure.records) - MOST_RECORDS:,} more in report.json"
    yield from (f"fault: {fault}" for fault in failure.faults)
    for row in failure.rows:
        if row.mark != "equal":
            sides = (("expected", row.expected), ("actual", row.actual))
            rows = ", ".join(f"{side} ({_row(value)})" for side, value in sides if value is not None)
            yield f"{row.mark}: {rows}" + (f" {row.times:,} times" if row.times != 1 else "")


def _name(failure: Failure) -> str:
    return failure.title or f"{failure.property}, {failure.anomaly}"


def _known_text(failure: Failure) -> str:
    since = f"since {failure.known_since}" if failure.known_since else ""
    return ": ".join(filter(None, (since, failure.known_why)))


def _row(values: Iterable[object]) -> str:
    return ", ".join(cell(value) for value in values)


def _mutants_suite(mutants: Sequence[Mutant]) -> Suite:
    cases = [
        Case(mutant.id, seconds=mutant.seconds)
        if mutant.killed
        else Case(
            mutant.id,
            "skipped",
            "",
            f"survived {'although it was reached' if mutant.reached else 'and was never reached'}",
            mutant.summary,
            mutant.seconds,
        )
        for mutant in mutants
    ]
    return Suite("planted_bugs", cases, sum(mutant.seconds for mutant in mutants))


def _run_suite(report: Report) -> Suite:
    """Return the suite about the run as a whole."""
    cases = [_verdict_case(report), *map(_real_case, report.real_inputs)]
    if report.oracles:
        oracles = report.oracles
        disagreed = counted(oracles.disagreed, "scenario")
        reasons = (
            [f"{oracles.first} and {oracles.second} disagree on {disagreed}"] if oracles.disagreed else []
        )
        cases.append(_check_case("oracles agree", reasons, oracles.witnesses))
    if report.coverage and report.coverage.required:
        cases.append(_check_case("fault coverage", [f"never fired: {pair}" for pair in never_fired(report)]))
    if any(each.required for each in report.situations):
        missing = [f"never in it: {name}" for name in missing_situations(report)]
        cases.append(_check_case("situations", missing, rare_texts(report)))
    headline = conclude(report)
    sample = (f"A sample: {'; '.join(headline.thin)}.",) if headline.thin else ()
    said = (headline.asked,) if headline.asked else ()
    lines = [
        f"{headline.word}. {headline.sentence}",
        *said,
        *sample,
        *headline.reasons,
        *headline.gaps,
        *map(str, headline.notes),
    ]
    return Suite("run", cases, report.facts.seconds, "\n".join(lines))


def _verdict_case(report: Report) -> Case:
    """Return the case with the verdict of the whole report."""
    headline = conclude(report)
    outcome = _VERDICTS[headline.status]
    if outcome == "passed":
        return Case("verdict")
    text = "\n".join((*headline.reasons, *headline.gaps, *map(str, headline.notes)))
    return Case("verdict", outcome, headline.status, headline.sentence, text)


def _real_case(real: RealInput) -> Case:
    name = f"real input {real.name}"
    if not real_input_failed(real):
        return Case(name, seconds=real.seconds)
    kind = "not compared" if real.error else "rows differ"
    text = f"replay: {real.command}" if real.command else ""
    return Case(name, "failure", kind, real_input_text(real), text, real.seconds)


def _check_case(name: str, reasons: Sequence[str], further: Sequence[str] = ()) -> Case:
    if not reasons:
        return Case(name)
    return Case(name, "failure", words(name), reasons[0], "\n".join((*reasons, *further)))


def _add_suite(root: Element, suite: Suite, number: int, report: Report) -> None:
    counts = {
        kind: sum(case.outcome == kind for case in suite.cases) for kind in ("failure", "error", "skipped")
    }
    element = ElementTree.SubElement(
        root,
        "testsuite",
        {
            "name": visible(suite.name),
            "package": PACKAGE,
            "id": str(number),
            "timestamp": _timestamp(report.facts.started),
            # The schema requires a host name; the machine is one of the properties below.
            "hostname": "localhost",
            "tests": str(len(suite.cases)),
            "failures": str(counts["failure"]),
            "errors": str(counts["error"]),
            "skipped": str(counts["skipped"]),
            "time": f"{suite.seconds:.3f}",
        },
    )
    properties = ElementTree.SubElement(element, "properties")
    for name, value in _facts(report):
        ElementTree.SubElement(properties, "property", {"name": name, "value": visible(value)})
    for case in suite.cases:
        _add_case(element, suite, case)
    ElementTree.SubElement(element, "system-out").text = _lines(suite.out)
    ElementTree.SubElement(element, "system-err")


def _add_case(parent: Element, suite: Suite, case: Case) -> None:
    element = ElementTree.SubElement(
        parent,
        "testcase",
        {
            "name": visible(case.name),
            "classname": visible(f"{PACKAGE}.{suite.name}"),
            "time": f"{case.seconds:.3f}",
        },
    )
    if case.outcome == "passed":
        return
    outcome = ElementTree.SubElement(
        element, case.outcome, {"message": visible(" ".join(case.message.split()))}
    )
    if case.outcome != "skipped":
        outcome.set("type", visible(case.type))
    outcome.text = _lines(case.text)


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    facts = report.facts
    yield "onceproof", facts.engine_version
    if facts.families_version:
        yield "families", facts.families_version
    if facts.seed is not None:
        yield "seed", str(facts.seed)
    yield from (
        ("system", facts.system),
        ("machine", facts.machine),
        ("trace_hash", facts.trace_hash),
        ("command", facts.command),
    )


def _lines(text: str) -> str:
    return "\n".join(map(visible, text.splitlines()))


def _timestamp(started: str) -> str:
    """Return `2026-11-20 02:17:05 UTC` in the format of the schema."""
    found = re.match(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d)(:\d\d)?", started)
    return f"{found[1]}T{found[2]}{found[3] or ':00'}" if found else "1970-01-01T00:00:00"
