"""The verdict follows from the contents, and the worst of them wins."""

import msgspec
import pytest

from onceproof.reports.headline import conclude
from onceproof.reports.model import (
    Coverage,
    CoverageCell,
    Facts,
    FamilyResult,
    KnownFailure,
    Mutant,
    OracleAgreement,
    PropertyResult,
    Report,
)


def test_a_good_night_says_so(made):
    headline = conclude(made.report())
    assert headline.status == "passed"
    assert headline.word == "Every record exactly once"
    assert "12,000 scenarios" in headline.sentence
    assert "336,776 real records" in headline.sentence
    assert headline.reasons == headline.gaps == ()


def test_nothing_run_is_no_pass():
    assert conclude(Report()).status == "empty"
    assert conclude(Report(interrupted="Interrupted at once")).status == "empty"


def test_only_planted_bugs_tried():
    headline = conclude(Report(mutants=(Mutant(id="m", killed=True),)))
    assert headline.status == "passed"
    assert "no campaign" in headline.sentence


def failing_reports(made):
    never = Coverage((CoverageCell("kill_task", "aligned", 3, 0),), required=True)
    family = FamilyResult("word_count", 10, 1, (PropertyResult("liveness", 9, 1),))
    return {
        "failure": ({"failures": (made.failure(),)}, ""),
        "family": ({"families": (family,)}, "liveness failed in 1 scenario"),
        "count": ({"families": (FamilyResult("word_count", 10, 1),)}, "1 scenario failed"),
        "different rows": ({"real_inputs": (made.flights(rows_different=2),)}, "2 rows differ"),
        "missing rows": ({"real_inputs": (made.flights(rows_actual=336770),)}, "6 rows differ"),
        "no comparison": (
            {"real_inputs": (made.flights(error="flights.csv:7: no carrier"),)},
            "flights.csv:7",
        ),
        "oracles": ({"oracles": OracleAgreement(scenarios=9, disagreed=1)}, "disagree on 1 scenario"),
        "never fired": ({"coverage": never}, "kill task at aligned"),
        "problem": ({"problems": ("the disk was full",)}, "the disk was full"),
    }


@pytest.mark.parametrize(
    "why",
    [
        "failure",
        "family",
        "count",
        "different rows",
        "missing rows",
        "no comparison",
        "oracles",
        "never fired",
        "problem",
    ],
)
def test_each_of_these_fails_the_night(made, why):
    changes, told = failing_reports(made)[why]
    headline = conclude(made.report(**changes) if why != "failure" else made.report([made.failure()]))
    assert headline.status == "failed"
    assert told in " ".join(headline.reasons)
    # Even a run cut short, with survivors, is first of all failed.
    worse = made.report(**changes, interrupted="Interrupted", mutants=made.mutants(True))
    assert conclude(worse).status == "failed"


def test_a_surviving_bug_is_a_gap_and_a_small_campaign_may_miss_a_fault(made):
    headline = conclude(made.report(mutants=made.mutants(True)))
    assert headline.status == "gaps"
    assert "old-acknowledgement" in headline.gaps[0]
    small = Coverage((CoverageCell("kill_task", "aligned", 3, 0),), required=False)
    assert conclude(made.report(coverage=small)).status == "passed"


def test_cut_short_is_told(made):
    headline = conclude(made.report(interrupted="Interrupted after 12 s"))
    assert headline.status == "interrupted"
    assert "Interrupted after 12 s" in headline.gaps


def test_known_failures_are_neither_a_pass_nor_a_failed_night(made):
    headline = conclude(made.report([made.failure(known=True)]))
    assert headline.status == "known"
    assert headline.sentence.endswith("broke a guarantee, in 1 way: known, nothing of it is new.")
    both = conclude(made.report([made.failure(known=True), made.failure(known=True, anomaly="phantom")]))
    assert both.sentence.endswith("in 2 ways: all of them known, nothing of it is new.")


def test_a_new_failure_fails_the_night_beside_known_ones(made):
    headline = conclude(made.report([made.failure(known=True), made.failure()]))
    assert headline.status == "failed"
    assert headline.sentence.endswith("in 2 ways, 1 of them known.")
    assert "known" not in conclude(made.report([made.failure()])).sentence


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"problems": ("the disk was full",)}, "failed"),
        ({"interrupted": "Interrupted"}, "interrupted"),
    ],
)
def test_what_else_went_wrong_is_not_excused_by_known_failures(made, changes, status):
    headline = conclude(made.report([made.failure(known=True)], **changes))
    assert headline.status == status
    assert "nothing lost" not in headline.sentence


def test_a_known_failure_that_is_gone_is_told_once_its_family_ran_to_the_end(made):
    gone = KnownFailure(family="word_count", property="exactly_once", anomaly="lost", of=5200)
    there = msgspec.structs.replace(gone, anomaly="phantom", scenarios=2)
    elsewhere = msgspec.structs.replace(gone, family="sales", of=0)
    report = made.report(known=(gone, there, elsewhere))
    assert conclude(report).notes == (
        "known, and did not occur in 5,200 scenarios: word_count: exactly once, lost;"
        " if it is mended, take it out of the settings",
    )
    assert conclude(report).status == "passed"
    assert conclude(msgspec.structs.replace(report, interrupted="Interrupted")).notes == ()


def test_the_sentence_counts_scenarios_and_ways(made):
    sentence = conclude(Report(facts=Facts(scenarios=4000), failures=(made.failure(),))).sentence
    assert sentence == "3 of 4,000 scenarios broke a guarantee, in 1 way."
