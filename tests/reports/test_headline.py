"""The verdict of a report: it follows from the contents, and the worst status wins."""

import msgspec
import pytest

from onceproof.reports.headline import SAMPLE, conclude, missing_situations, rare_texts
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
    SituationCount,
)
from onceproof.reports.notes import JUDGED, NO_JUDGE


def test_passing_report_has_the_passed_headline(made):
    headline = conclude(made.report())
    assert headline.status == "passed"
    assert headline.word == "Every record exactly once"
    assert "12,000 scenarios" in headline.sentence
    assert "336,776 real records" in headline.sentence
    assert headline.reasons == headline.gaps == ()


def test_empty_report_does_not_pass():
    assert conclude(Report()).status == "empty"
    assert conclude(Report(interrupted="Interrupted at once")).status == "empty"


def test_report_with_only_planted_bugs_passes():
    headline = conclude(Report(mutants=(Mutant(id="m", killed=True),)))
    assert headline.status == "passed"
    assert "no campaign" in headline.sentence


def test_situation_that_is_rare_or_not_asked_for_is_no_failure(made):
    rare = SituationCount("restored", "what is lost", 3, "tickets", required=True, rare=True)
    other = SituationCount("stop failed", "what goes on", 0, "tickets")
    report = made.report(situations=(rare, other))
    assert conclude(report).status == "passed"
    assert missing_situations(report) == ()
    assert rare_texts(report) == ("rare: restored, in 3 of 12,000 scenarios; more of it in tickets",)


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
        "situation": (
            {"situations": (SituationCount("stop failed", "", 0, "tickets", required=True),)},
            "never in a campaign of this size: stop failed",
        ),
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
        "situation",
        "problem",
    ],
)
def test_each_reason_fails_the_report(made, why):
    changes, reason = failing_reports(made)[why]
    headline = conclude(made.report(**changes) if why != "failure" else made.report([made.failure()]))
    assert headline.status == "failed"
    assert reason in " ".join(headline.reasons)
    # An interrupt and surviving mutants do not hide the failure.
    worse = made.report(**changes, interrupted="Interrupted", mutants=made.mutants(True))
    assert conclude(worse).status == "failed"


def test_surviving_mutant_is_a_gap_and_small_campaigns_may_miss_faults(made):
    headline = conclude(made.report(mutants=made.mutants(True)))
    assert headline.status == "gaps"
    assert "old-acknowledgement" in headline.gaps[0]
    small = Coverage((CoverageCell("kill_task", "aligned", 3, 0),), required=False)
    assert conclude(made.report(coverage=small)).status == "passed"


def test_interrupted_report_gives_the_reason(made):
    headline = conclude(made.report(interrupted="Interrupted after 12 s"))
    assert headline.status == "interrupted"
    assert "Interrupted after 12 s" in headline.gaps


def test_what_a_night_lacks_is_said_before_what_has_passed(made):
    missing = ("1 family had under 100 scenarios: tickets 7", "1 property had under 20 kills: mode 3")
    headline = conclude(made.report(shortfalls=missing))
    assert (headline.status, headline.word) == ("empty", "Too little ran")
    assert headline.sentence.startswith(
        "1 family had under 100 scenarios: tickets 7; 1 property had under 20 kills: mode 3. "
    )
    assert "nothing lost" in headline.sentence
    # Known failures are not hidden, and do not make a pass of it; a new one and an interrupt outrank it.
    known = conclude(made.report([made.failure(known=True)], shortfalls=missing))
    assert (known.status, "(known)" in known.sentence) == (
        "empty",
        True,
    )
    assert conclude(made.report([made.failure()], shortfalls=missing)).status == "failed"
    assert conclude(made.report(shortfalls=missing, interrupted="Ctrl-C")).status == "interrupted"


def test_known_failures_alone_have_their_own_status(made):
    headline = conclude(made.report([made.failure(known=True)]))
    assert headline.status == "known"
    assert headline.sentence.startswith("1 finding (known), in ")
    both = conclude(made.report([made.failure(known=True), made.failure(known=True, anomaly="phantom")]))
    assert both.sentence.startswith("2 findings (all known), in ")


def test_new_failure_fails_the_report_beside_known_ones(made):
    headline = conclude(made.report([made.failure(known=True), made.failure()]))
    assert headline.status == "failed"
    assert headline.sentence.startswith("2 findings (1 known), in ")
    assert "known" not in conclude(made.report([made.failure()])).sentence


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"problems": ("the disk was full",)}, "failed"),
        ({"interrupted": "Interrupted"}, "interrupted"),
    ],
)
def test_problem_or_interrupt_outranks_known_failures(made, changes, status):
    headline = conclude(made.report([made.failure(known=True)], **changes))
    assert headline.status == status
    assert "nothing lost" not in headline.sentence


def test_absent_known_failure_is_noted_after_a_complete_run(made):
    gone = KnownFailure(family="word_count", property="exactly_once", anomaly="lost", of=5200)
    there = msgspec.structs.replace(gone, anomaly="phantom", scenarios=2)
    elsewhere = msgspec.structs.replace(gone, family="sales", of=0)
    report = made.report(known=(gone, there, elsewhere))
    assert [str(note) for note in conclude(report).notes] == [
        "note: Known failures that did not occur: word_count: exactly once, lost, in 5,200 scenarios"
        " (if it is fixed, remove it from the settings)"
    ]
    assert conclude(report).status == "passed"
    assert conclude(msgspec.structs.replace(report, interrupted="Interrupted")).notes == ()


def test_sentence_counts_findings_before_scenarios(made):
    sentence = conclude(Report(facts=Facts(scenarios=4000), failures=(made.failure(),))).sentence
    assert sentence == "1 finding, in 3 of 4,000 scenarios."


def family_asked(name, scenarios, **asked):
    results = tuple(PropertyResult(each, number) for each, number in asked.items())
    return FamilyResult(name, scenarios, properties=results)


def test_headline_states_what_was_asked_how_often():
    families = tuple(
        family_asked(name, 60, exactly_once=60, liveness=60, determinism=number)
        for name, number in (("sales", 2), ("visits", 1))
    )
    headline = conclude(Report(facts=Facts(scenarios=120), families=families))
    assert headline.asked == "Checked 2 properties in each of 120 scenarios; determinism in 3."
    assert headline.thin == ()
    assert headline.word == "Every record exactly once"


def test_family_with_few_scenarios_makes_a_sample():
    families = (family_asked("sales", 49, liveness=49), family_asked("visits", 50, liveness=50))
    headline = conclude(Report(facts=Facts(scenarios=99), families=families))
    assert headline.thin == ("under 50 scenarios in 1 of 2 families: sales",)
    assert (headline.status, headline.word) == ("passed", "Passed, in a sample")


@pytest.mark.parametrize(("asked", "is_thin"), [((1, 0, 0), True), ((1, 1, 0), False)])
def test_property_asked_in_under_half_the_families_makes_a_sample(asked, is_thin):
    families = tuple(
        family_asked(f"family-{place}", 50, liveness=50, determinism=number)
        for place, number in enumerate(asked)
    )
    headline = conclude(Report(facts=Facts(scenarios=150), families=families))
    assert headline.thin == (("determinism checked in under half of the families",) if is_thin else ())
    assert headline.word == ("Passed, in a sample" if is_thin else "Every record exactly once")


def test_property_that_was_never_asked_is_said_so():
    family = family_asked("sales", 40, liveness=40, restore_anywhere=0, determinism=0)
    headline = conclude(Report(facts=Facts(scenarios=40), families=(family,)))
    assert headline.asked == "Checked liveness in each of 40 scenarios."
    assert headline.thin == ("under 50 scenarios", "restore anywhere and determinism not checked")


def test_property_that_few_families_have_is_not_thin():
    families = (
        family_asked("sales", 50, exactly_once=45, mode=5),
        *(family_asked(f"family-{place}", 50, exactly_once=50) for place in range(3)),
    )
    headline = conclude(Report(facts=Facts(scenarios=200), families=families))
    assert headline.thin == ()
    assert headline.asked == "Checked exactly once in 195 and mode in 5."


def test_notes_do_not_affect_the_verdict():
    family = FamilyResult("sales", 50, 0, timers_only_at_end=4)
    headline = conclude(Report(families=(family,), facts=Facts(scenarios=50)))
    assert (headline.status, len(headline.notes)) == ("passed", 1)


def test_script_whose_rows_are_seldom_judged_is_a_sample():
    notes = {f"{JUDGED}DuckDB": 40, f"{JUDGED}{NO_JUDGE}its runs without faults differ": 60}
    seldom = FamilyResult("totals", 100, 0, (PropertyResult("liveness", 100, 0),), notes=notes)
    headline = conclude(Report(families=(seldom,)))
    assert headline.word == SAMPLE
    assert headline.thin == ("rows not judged in 60 of 100 scenarios of totals",)
    often = msgspec.structs.replace(seldom, notes={**notes, f"{JUDGED}DuckDB": 60, [*notes][1]: 40})
    assert conclude(Report(families=(often,))).thin == ()
