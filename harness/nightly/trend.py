"""Compares a night with the history: new failures, known failures that no longer occur, and the trend.

The rules this module lives by:

- A failure is known only if the settings list it. An unlisted failure fails every night until it is fixed.
- A finding is new if no night of the history had one of its signatures. Otherwise the report names the first
  night with one. Nights store signatures, so that they compare whatever scenario showed a bug.
- For a known failure the report counts the latest nights in a row without it. Many such nights are evidence
  that it is fixed; one night is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from typing import Final

import msgspec

from onceproof.harness.checkers import Signature
from onceproof.harness.nightly.night_history import (
    FamilyFigures,
    NightHistory,
    NightRow,
    PropertyFigures,
    RealFigures,
    SignatureFigures,
)
from onceproof.harness.reporting.report_builder import RECOVERY_STEPS, REPLAYED
from onceproof.reports.headline import conclude, known_scenarios, real_input_failed
from onceproof.reports.model import (
    Distribution,
    Failure,
    FamilyResult,
    KnownFailure,
    Night,
    RealInput,
    Report,
)
from onceproof.reports.notes import signature_text

MOST_NIGHTS: Final = 60
"""Largest number of nights that a page shows."""
MOST_SIGNATURES: Final = 5
"""Largest number of signatures that a page shows for an earlier night."""


def with_history(report: Report, before: Sequence[NightRow]) -> Report:
    """Return the report with the earlier nights of each failure; ``before`` starts with the oldest night."""
    return msgspec.structs.replace(
        report,
        failures=tuple(_seen_before(failure, before, report.facts.revision) for failure in report.failures),
        known=tuple(_missed_before(known, before) for known in report.known),
    )


def with_nights(report: Report, nights: Sequence[NightRow]) -> Report:
    """Return the report with the trend over ``nights``, of which tonight is the last."""
    return msgspec.structs.replace(report, nights=tuple(map(_night, nights[-MOST_NIGHTS:])))


def added_to_history(history: NightHistory, report: Report, started: datetime, seconds: float) -> Report:
    """Add a night to the history, and return its report with the trend of all nights."""
    before = history.read()
    report = with_history(report, before)
    tonight = night_row(report, started, seconds)
    if tonight.status == "empty" and not tonight.scenarios:
        return with_nights(report, before)
    try:
        history.add(tonight)
    except OSError as error:
        problem = f"{history.folder}: the history of nights cannot be written to: {error.strerror or error}"
        report = msgspec.structs.replace(report, problems=(*report.problems, problem))
    return with_nights(report, [*before, tonight])


def night_row(report: Report, started: datetime, seconds: float) -> NightRow:
    """Return tonight as a row of the history; ``seconds`` is the duration of the whole night."""
    replayed, steps = (_cost(report, name) for name in (REPLAYED, RECOVERY_STEPS))
    return NightRow(
        started=started.astimezone(UTC),
        seed=report.facts.seed,
        revision=report.facts.revision,
        status=conclude(report).status,
        scenarios=report.facts.scenarios,
        failed=sum(family.failed for family in report.families),
        known=known_scenarios(report),
        seconds=report.facts.seconds,
        night_seconds=round(seconds, 3),
        records_replayed_median=replayed.median if replayed else None,
        records_replayed_percentile_95=replayed.percentile_95 if replayed else None,
        recovery_steps_median=steps.median if steps else None,
        recovery_steps_percentile_95=steps.percentile_95 if steps else None,
        mutants_tried=len(report.mutants),
        mutants_killed=sum(mutant.killed for mutant in report.mutants),
        families=tuple(map(_family_figures, report.families)),
        signatures=tuple([each for failure in report.failures for each in _signature_figures(failure)]),
        real_inputs=tuple(map(_real_figures, report.real_inputs)),
    )


def _seen_before(failure: Failure, before: Sequence[NightRow], revision: str) -> Failure:
    signatures = {
        (failure.property, failure.anomaly),
        *((each.property, each.anomaly) for each in failure.symptoms),
    }
    nights = [night for night in before if _failed_alike(night, failure.family, signatures)]
    earlier = before[: before.index(nights[0])] if nights else before
    without = [night for night in earlier if any(each.family == failure.family for each in night.families)]
    failure = msgspec.structs.replace(
        failure,
        last_without=without[-1].revision if without else "",
        first_with=nights[0].revision if nights else revision,
    )
    if not nights:
        return failure
    return msgspec.structs.replace(
        failure,
        first_seen=f"{nights[0].started:%Y-%m-%d}",
        nights_seen=len(nights),
        nights_before=len(before),
    )


def _missed_before(known: KnownFailure, before: Sequence[NightRow]) -> KnownFailure:
    ran = [night for night in before if any(family.family == known.family for family in night.families)]
    signatures = {(known.property, known.anomaly)}
    missed = takewhile(lambda night: not _failed_alike(night, known.family, signatures), reversed(ran))
    return msgspec.structs.replace(known, nights_without=sum(1 for _ in missed))


def _failed_alike(night: NightRow, family: str, signatures: Collection[Signature]) -> bool:
    """Return whether a night had a failure of the family with one of the signatures."""
    return any(
        each.family == family and (each.property, each.anomaly) in signatures for each in night.signatures
    )


def _cost(report: Report, name: str) -> Distribution | None:
    return next((cost for cost in report.costs if cost.name == name), None)


def _family_figures(family: FamilyResult) -> FamilyFigures:
    properties = tuple(
        PropertyFigures(each.property, each.passed, each.failed, each.known) for each in family.properties
    )
    return FamilyFigures(family.family, family.scenarios, family.failed, family.known, properties)


def _signature_figures(failure: Failure) -> Iterator[SignatureFigures]:
    """Yield the signatures of a finding, the one that shows it first. It alone counts as new."""
    is_new = not failure.known and not failure.first_seen
    scenarios = failure.scenarios - sum(each.scenarios for each in failure.symptoms)
    own = SignatureFigures(
        failure.family, failure.property, failure.anomaly, scenarios, known=failure.known, new=is_new
    )
    yield own
    for each in failure.symptoms:
        yield msgspec.structs.replace(
            own, property=each.property, anomaly=each.anomaly, scenarios=each.scenarios, new=False
        )


def _real_figures(real: RealInput) -> RealFigures:
    recoveries = [kill.recovery_seconds for kill in real.kills if kill.recovery_seconds is not None]
    return RealFigures(
        name=real.name,
        records=real.records,
        kills=len(real.kills),
        rows_different=real.rows_different,
        failed=real_input_failed(real),
        recovery_seconds=max(recoveries, default=None),
    )


def _night(row: NightRow) -> Night:
    return Night(
        started=f"{row.started:%Y-%m-%d %H:%M}",
        status=row.status,
        scenarios=row.scenarios,
        failed=row.failed,
        known=row.known,
        new_signatures=sum(each.new for each in row.signatures),
        broke=tuple(_broke(each) for each in row.signatures[:MOST_SIGNATURES]),
        broke_otherwise=len(row.signatures[MOST_SIGNATURES:]),
        seconds=row.seconds,
        night_seconds=row.night_seconds,
        engine_version=row.revision,
        seed=row.seed,
        records_replayed=row.records_replayed_median,
        recovery_steps=row.recovery_steps_median,
        mutants_tried=row.mutants_tried,
        mutants_killed=row.mutants_killed,
    )


def _broke(figures: SignatureFigures) -> str:
    text = signature_text(figures)
    return f"{text} (known)" if figures.known else f"{text} (new)" if figures.new else text
