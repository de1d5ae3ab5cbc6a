"""The comparison of a night with the history: new failures, known failures, and the trend."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from onceproof.harness.nightly.night_history import NightRow, SignatureFigures
from onceproof.harness.nightly.trend import MOST_NIGHTS, night_row, with_history, with_nights
from onceproof.reports.model import (
    Facts,
    Failure,
    FamilyResult,
    KnownFailure,
    Mutant,
    PropertyResult,
    RealInput,
    RealKill,
    Report,
    Symptom,
)
from onceproof.reports.summaries import distribution

FIRST = datetime(2026, 11, 1, 2, 0, tzinfo=UTC)


def failure(anomaly: str, **changes: Any) -> Failure:
    fields = {
        "family": "word_count",
        "property": "exactly_once",
        "anomaly": anomaly,
        "replay": "onceproof replay 1",
    }
    return Failure(**{**fields, **changes})


def report(*failures: Failure, **changes: Any) -> Report:
    families = (
        FamilyResult(
            "word_count",
            4000,
            sum(each.scenarios for each in failures),
            (PropertyResult("exactly_once", 3990, 10, 4),),
            sum(each.scenarios for each in failures if each.known),
        ),
    )
    fields: dict[str, Any] = {
        "facts": Facts(scenarios=4000, seed=7, engine_version="0.1.0", seconds=61.5),
        "families": families,
        "failures": failures,
    }
    return Report(**{**fields, **changes})


def nights(*anomalies: str) -> list[NightRow]:
    """Return a night for each text, which names the anomalies that it failed with."""
    return [
        night_row(
            with_history(report(*(failure(anomaly) for anomaly in text.split())), ()),
            FIRST + timedelta(days=number),
            170.0,
        )
        for number, text in enumerate(anomalies)
    ]


def test_night_row_has_all_figures_of_the_report() -> None:
    kills = (RealKill(point="committing", recovery_seconds=0.2), RealKill(point="aligned"))
    costs = (
        distribution("records read again", "records", Counter([1, 2, 9])),
        distribution("steps without a running job", "steps", Counter([10, 20])),
    )
    tonight = report(
        failure("lost", scenarios=6),
        failure("phantom", scenarios=4, known=True),
        costs=costs,
        mutants=(Mutant(id="a", killed=True), Mutant(id="b")),
        real_inputs=(RealInput(name="flights", records=9, kills=kills, rows_different=1),),
    )
    assert night_row(tonight, FIRST, 171.0) == NightRow(
        started=FIRST,
        seed=7,
        revision="0.1.0",
        status="failed",
        scenarios=4000,
        failed=10,
        known=4,
        seconds=61.5,
        night_seconds=171.0,
        records_replayed_median=2.0,
        records_replayed_percentile_95=costs[0].percentile_95,
        recovery_steps_median=15.0,
        recovery_steps_percentile_95=costs[1].percentile_95,
        mutants_tried=2,
        mutants_killed=1,
        families=night_row(tonight, FIRST, 0).families,
        signatures=(
            SignatureFigures("word_count", "exactly_once", "lost", 6, known=False, new=True),
            SignatureFigures("word_count", "exactly_once", "phantom", 4, known=True, new=False),
        ),
        real_inputs=night_row(tonight, FIRST, 0).real_inputs,
    )
    [family] = night_row(tonight, FIRST, 0).families
    assert (family.family, family.scenarios, family.failed, family.known) == ("word_count", 4000, 10, 4)
    assert [(each.passed, each.failed, each.known) for each in family.properties] == [(3990, 10, 4)]
    [real] = night_row(tonight, FIRST, 0).real_inputs
    assert (real.kills, real.rows_different, real.failed, real.recovery_seconds) == (2, 1, True, 0.2)


def test_night_row_without_recoveries_has_no_recovery_cost() -> None:
    row = night_row(report(), FIRST, 0)
    assert row.records_replayed_median is None
    assert row.recovery_steps_percentile_95 is None


def test_failure_is_new_if_no_earlier_night_had_it() -> None:
    before = nights("", "lost", "", "lost phantom", "")
    tonight = with_history(
        report(failure("lost"), failure("wrong value"), failure("phantom", family="sales")), before
    )
    lost, wrong, other = tonight.failures
    assert (lost.first_seen, lost.nights_seen, lost.nights_before) == ("2026-11-02", 2, 5)
    assert (wrong.first_seen, other.first_seen) == ("", "")
    row = night_row(tonight, FIRST, 0)
    assert [each.new for each in row.signatures] == [False, True, True]
    # An unlisted failure fails the night although an earlier night had it.
    assert row.status == "failed"


def test_a_finding_is_seen_before_if_a_night_had_one_of_its_signatures() -> None:
    before = nights("lost", "phantom")
    finding = failure(
        "duplicated", scenarios=9, symptoms=(Symptom("mode", "lost", 2), Symptom("exactly_once", "lost", 3))
    )
    [seen] = with_history(report(finding), before).failures
    assert seen.first_seen
    assert (seen.nights_seen, seen.nights_before) == (1, 2)
    # What is stored are signatures, so that a later night compares them whichever shows the bug.
    rows = night_row(report(seen), FIRST, 1.0).signatures
    assert [(each.property, each.anomaly, each.scenarios) for each in rows] == [
        ("exactly_once", "duplicated", 4),
        ("mode", "lost", 2),
        ("exactly_once", "lost", 3),
    ]
    fresh = night_row(report(finding), FIRST, 1.0).signatures
    assert [each.new for each in fresh] == [True, False, False]


def test_nights_without_a_known_failure_are_counted() -> None:
    known = KnownFailure(family="word_count", property="exactly_once", anomaly="lost", of=4000)
    before = nights("lost", "phantom", "", "")
    # A night in which the family did not run is not counted.
    before[3] = night_row(report(families=()), before[3].started, 0)
    [missed] = with_history(report(known=(known,)), before).known
    assert missed.nights_without == 2
    assert with_history(report(known=(known,)), nights("", "lost")).known == (known,)
    assert with_history(report(known=(known,)), ()).known == (known,)


def test_trend_shows_the_latest_nights_in_order() -> None:
    rows = nights(*["lost"] * (MOST_NIGHTS + 3))
    shown = with_nights(report(), rows).nights
    assert len(shown) == MOST_NIGHTS
    assert shown[-1].started == f"{rows[-1].started:%Y-%m-%d} 02:00"
    assert (shown[-1].status, shown[-1].scenarios, shown[-1].night_seconds) == ("failed", 4000, 170.0)


def test_trend_shows_the_first_signatures_of_a_night() -> None:
    figures = [
        SignatureFigures(
            "word_count", "exactly_once", f"kind {number}", 1, known=number == 1, new=number == 0
        )
        for number in range(8)
    ]
    [row] = nights("lost")
    row = msgspec.structs.replace(row, signatures=tuple(figures))
    [night] = with_nights(report(), [row]).nights
    assert night.broke[:3] == (
        "word_count: exactly once, kind 0 (new)",
        "word_count: exactly once, kind 1 (known)",
        "word_count: exactly once, kind 2",
    )
    assert (len(night.broke), night.broke_otherwise, night.new_signatures) == (5, 3, 1)


def test_failure_names_the_last_version_without_it_and_the_first_with_it() -> None:
    before = [
        msgspec.structs.replace(night, revision=f"0.1.{number}")
        for number, night in enumerate(nights("", "lost", "", "lost"))
    ]
    tonight = with_history(report(failure("lost"), failure("wrong value")), before)
    lost, new = tonight.failures
    assert (lost.last_without, lost.first_with) == ("0.1.0", "0.1.1")
    assert (new.last_without, new.first_with) == ("0.1.3", tonight.facts.engine_version)
