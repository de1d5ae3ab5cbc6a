"""JUnit XML: valid in the strictest schema, with the verdict of the page."""

import re
from decimal import Decimal
from xml.etree import ElementTree

import msgspec
import pytest

from onceproof.reports.headline import conclude
from onceproof.reports.junit import junit
from onceproof.reports.model import (
    Coverage,
    CoverageCell,
    Facts,
    FamilyResult,
    KnownFailure,
    OracleAgreement,
    PropertyResult,
    Report,
    SituationCount,
    Symptom,
)

# The schema of Ant, the strictest one: children in order, attributes, and patterns of their values.
TEXT, WORD, COUNT = r"(?s).*", r"(?s).+", r"\d+"
SECONDS = r"\d+\.\d{3}"
SUITE = {
    "name": WORD,
    "package": WORD,
    "id": COUNT,
    "timestamp": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d",
    "hostname": WORD,
    "tests": COUNT,
    "failures": COUNT,
    "errors": COUNT,
    "skipped": COUNT,
    "time": SECONDS,
}
ATTRIBUTES = {
    "testsuites": {},
    "testsuite": SUITE,
    "properties": {},
    "property": {"name": WORD, "value": TEXT},
    "testcase": {"name": WORD, "classname": WORD, "time": SECONDS},
    "failure": {"message": TEXT, "type": TEXT},
    "error": {"message": TEXT, "type": TEXT},
    "skipped": {"message": TEXT},
    "system-out": {},
    "system-err": {},
}
CHILDREN = {
    "testsuites": r"(testsuite )*",
    "testsuite": r"properties (testcase )*system-out system-err ",
    "properties": r"(property )*",
    "testcase": r"(skipped |error |failure )?",
}


def check_valid(element):
    attributes = ATTRIBUTES[element.tag]
    assert set(element.attrib) == set(attributes), element.tag
    for name, pattern in attributes.items():
        assert re.fullmatch(pattern, element.get(name)), (element.tag, name, element.get(name))
    children = "".join(f"{child.tag} " for child in element)
    assert re.fullmatch(CHILDREN.get(element.tag, ""), children), (element.tag, children)
    if element.tag in CHILDREN:
        assert not (element.text or "").strip()
    for child in element:
        check_valid(child)


def parsed(report):
    root = ElementTree.fromstring(junit(report))
    check_valid(root)
    for number, suite in enumerate(root):
        assert int(suite.get("id")) == number
        cases = suite.findall("testcase")
        assert int(suite.get("tests")) == len(cases)
        for outcome, counter in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert int(suite.get(counter)) == sum(case.find(outcome) is not None for case in cases)
        assert len({case.get("name") for case in cases}) == len(cases)
    assert len({suite.get("name") for suite in root}) == len(root)
    return {
        (suite.get("name"), case.get("name")): next(iter(case), None)
        for suite in root
        for case in suite.findall("testcase")
    }


def failed_family(known=0, **changes):
    properties = (
        PropertyResult("exactly_once", 5190, 10, known),
        PropertyResult("fencing", 5196, 4, min(known, 4)),
        PropertyResult("liveness", 5200),
        PropertyResult("determinism"),
    )
    return FamilyResult(
        **{"family": "word_count", "scenarios": 5200, "failed": 10, "properties": properties, "known": known}
        | changes
    )


def test_passing_report_has_a_passed_suite_per_family(made):
    cases = parsed(made.report())
    assert set(cases.values()) == {None}
    assert ("word_count", "exactly_once") in cases
    assert ("page_views", "determinism") in cases
    assert ("planted_bugs", "FLINK-9263") in cases
    assert {name for suite, name in cases if suite == "run"} == {
        "verdict",
        "real input flights",
        "oracles agree",
        "fault coverage",
    }


def test_junit_failure_is_complete_without_the_page(made):
    failures = (made.failure(also=("fencing",)),)
    cases = parsed(made.report(failures, families=(failed_family(),)))
    failure = cases["word_count", "exactly_once"]
    assert failure.tag == "failure"
    assert failure.get("type") == "lost"
    assert failure.get("message").startswith("in 10 of 5,200 scenarios: Row (k1, 1) was prepared for")
    lines = failure.text.splitlines()
    for line in (
        "exactly_once, lost, in 3 scenarios (new)",
        "replay: onceproof replay 8273645120938 --family word_count",
        "explain: onceproof explain failures/word_count-3f9a1c.json",
        "2 records:",
        "  source-0 0: k1",
        "fault: kill all at notified of checkpoint 1",
        "lost: expected (k1, 1)",
    ):
        assert line in lines
    # Another property that the same scenarios violate refers to this failure.
    other = cases["word_count", "fencing"]
    assert (other.tag, other.get("type")) == ("failure", "broken")
    assert other.text == "also violated by the scenarios of the failure: exactly_once, lost"
    assert cases["word_count", "liveness"] is None
    assert ("word_count", "determinism") not in cases
    assert cases["run", "verdict"].tag == "failure"


def test_known_failure_is_a_skipped_case(made):
    failure = made.failure(known=True, known_since="2026-11-01", known_why="ISSUE-12", also=("fencing",))
    gone = KnownFailure(family="word_count", property="liveness", anomaly="stuck", of=5200)
    report = made.report([failure], families=(failed_family(known=10),), known=(gone,))
    cases = parsed(report)
    skipped = cases["word_count", "exactly_once"]
    assert skipped.tag == "skipped"
    assert skipped.get("message") == "known, in 10 of 5,200 scenarios: since 2026-11-01: ISSUE-12"
    assert "exactly_once, lost, in 3 scenarios (known since 2026-11-01: ISSUE-12)" in skipped.text
    assert cases["word_count", "fencing"].tag == "skipped"
    assert cases["run", "verdict"].tag == "skipped"
    assert b"remove it from the settings" in junit(report)


def test_new_failure_is_listed_before_a_known_one(made):
    failures = [
        made.failure(known=True, anomaly="duplicated", known_why="ISSUE-12"),
        made.failure(first_seen="2026-11-18", sentence="It is seen again."),
    ]
    failure = parsed(made.report(failures, families=(failed_family(known=4),)))["word_count", "exactly_once"]
    assert failure.tag == "failure"
    assert failure.get("message") == "in 10 of 5,200 scenarios: It is seen again."
    assert failure.text.index("lost, in 3 scenarios (seen since 2026-11-18)") < failure.text.index(
        "duplicated, in 3 scenarios (known ISSUE-12)"
    )


def test_a_symptom_fails_the_case_of_its_property(made):
    failure = made.failure(also=(), symptoms=(Symptom("mode", "lost", 2),))
    family = failed_family(properties=(PropertyResult("exactly_once", 5198, 2), PropertyResult("mode", 8, 2)))
    cases = parsed(made.report([failure], families=(family,)))
    assert failure.sentence in cases["word_count", "mode"].get("message")


def test_exception_fails_the_properties_that_it_violates(made):
    family = FamilyResult(
        "word_count", 10, 2, (PropertyResult("no_error", 8, 2), PropertyResult("liveness", 10))
    )
    failure = made.failure(property="KeyError", anomaly="process_element", also=("no_error",))
    cases = parsed(made.report([failure], families=(family,)))
    assert cases["word_count", "no_error"].get("type") == "process_element"
    assert "KeyError, process_element, in 3 scenarios (new)" in cases["word_count", "no_error"].text
    assert cases["word_count", "liveness"] is None


def test_surviving_mutant_is_a_skipped_case(made):
    cases = parsed(made.report(mutants=made.mutants(True)))
    survivor = cases["planted_bugs", "old-acknowledgement"]
    assert (survivor.tag, survivor.get("message")) == ("skipped", "survived although it was reached")
    assert cases["run", "verdict"] is None


def test_real_input_oracles_and_coverage_are_cases_of_the_run_suite(made):
    cases = parsed(
        made.report(
            real_inputs=(made.flights(rows_different=2),),
            oracles=OracleAgreement(scenarios=9, disagreed=1, witnesses=("word_count, seed 5",)),
            coverage=Coverage((CoverageCell("kill_task", "aligned", 3, 0),), required=True),
            situations=(SituationCount("stop failed", "", 0, "tickets", required=True),),
        )
    )
    assert cases["run", "real input flights"].get("message").endswith("2 rows differ from the oracle")
    assert "onceproof run flights" in cases["run", "real input flights"].text
    assert "word_count, seed 5" in cases["run", "oracles agree"].text
    assert cases["run", "fault coverage"].get("message") == "never fired: kill task at aligned"
    assert cases["run", "situations"].get("message") == "never in it: stop failed"


def reports_of_every_status(made):
    yield Report()
    yield made.report()
    yield made.report([made.failure()])
    known = made.report([made.failure(known=True)], families=(failed_family(known=10),))
    yield known
    yield msgspec.structs.replace(known, problems=("the disk was full",))
    yield made.report(interrupted="interrupted from the keyboard")
    yield made.report(mutants=made.mutants(True))
    yield made.report(problems=("the disk was full",))
    yield made.report(real_inputs=(made.flights(error="flights.csv:7: no carrier"),))
    yield Report(families=(FamilyResult("word_count", 10, 1),))
    yield Report(families=(FamilyResult("word_count", 10, 1, (PropertyResult("liveness", 9, 1),)),))


def test_junit_fails_exactly_when_the_command_fails(made):
    seen = set()
    for report in reports_of_every_status(made):
        status = conclude(report).status
        seen.add(status)
        outcomes = {case.tag for case in parsed(report).values() if case is not None}
        assert bool(outcomes & {"failure", "error"}) is (status in ("failed", "interrupted", "empty")), status
    assert seen == {"passed", "failed", "known", "gaps", "interrupted", "empty"}


def test_times_of_cases_add_up_to_the_time_of_the_suite(made):
    family = failed_family(seconds=12.6, failed=0)
    root = ElementTree.fromstring(junit(Report(facts=Facts(scenarios=1), families=(family,))))
    [suite] = [suite for suite in root if suite.get("name") == "word_count"]
    assert suite.get("time") == "12.600"
    assert sum(Decimal(case.get("time")) for case in suite.findall("testcase")) == Decimal("12.600")


HOSTILE = "<x a='\"'> & ]]> \x00\x1b[31m \u202e \ud800 \ufffe 北京\r\nnext"


def test_hostile_texts_in_junit_stay_text(made):
    failure = made.failure(
        family=HOSTILE, anomaly=HOSTILE, sentence=HOSTILE, replay=HOSTILE, faults=(HOSTILE,), records=()
    )
    family = failed_family(family=HOSTILE)
    report = made.report([failure], families=(family,), problems=(HOSTILE,))
    report = msgspec.structs.replace(report, facts=Facts(scenarios=1, machine=HOSTILE, started=HOSTILE))
    root = ElementTree.fromstring(junit(report))
    check_valid(root)
    text = junit(report).decode("utf-8")
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "北京" in text
    assert root[0].get("timestamp") == "1970-01-01T00:00:00"


@pytest.mark.parametrize(
    ("started", "expected"),
    [
        ("2026-11-20 02:17:05 UTC", "2026-11-20T02:17:05"),
        ("2026-11-20 02:17 UTC", "2026-11-20T02:17:00"),
        ("", "1970-01-01T00:00:00"),
    ],
)
def test_junit_timestamp_is_the_start_of_the_run(started, expected):
    root = ElementTree.fromstring(junit(Report(facts=Facts(started=started))))
    assert root[0].get("timestamp") == expected


def test_many_records_are_cut_with_a_count(made):
    failure = made.failure()
    failure = msgspec.structs.replace(failure, records=failure.records * 500)
    text = junit(made.report([failure], families=(failed_family(),))).decode()
    assert "and 940 more in report.json" in text
