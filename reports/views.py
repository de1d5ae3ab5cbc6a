"""Prepares the model for the templates: ordering, tables, charts and limits.

Long lists are cut, with a count of the omitted items, so that a run with many failures does not make a huge
page. report.json has all of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from onceproof.reports.charts import (
    ComparisonChart,
    comparison_charts,
    distribution_chart,
    distribution_text,
    influence_chart,
)
from onceproof.reports.diagram import Diagram, draw
from onceproof.reports.diagram_lessons import Lesson, lessons
from onceproof.reports.headline import (
    Headline,
    conclude,
    failed_scenarios,
    fired_faults,
    known_scenarios,
    never_fired,
    real_input_failed,
    subject_of,
    survivors,
    total_scenarios,
    untested_texts,
)
from onceproof.reports.model import (
    Coverage,
    CoverageCell,
    Distribution,
    Drivers,
    Failure,
    Mutant,
    Night,
    PropertyResult,
    RealInput,
    Report,
    RowDifference,
    Sensitivity,
)
from onceproof.reports.text import counted, duration, number
from onceproof.reports.trend_charts import Line, lines_of, trend_chart

_STEP = re.compile(r"step (\d+):")
MOST_FAILURES = 25
MOST_OPEN = 3
MOST_ROWS = 40
MOST_RECORDS = 60
MOST_NIGHTS = 60


@dataclass(frozen=True)
class Tile:
    """One figure at the top of the page."""

    label: str
    value: str
    note: str
    status: str
    anchor: str


@dataclass(frozen=True)
class FailureView:
    """A failure with its diagram, and the numbers of omitted rows and records."""

    number: int
    failure: Failure
    diagram: Diagram | None
    rows: Sequence[RowDifference]
    rows_left_out: int
    records_left_out: int
    is_open: bool
    opens_at: int | None
    """The step of the first divergence, at which the diagram opens; None: at its beginning."""


@dataclass(frozen=True)
class RealInputView:
    """A real input with its verdict."""

    real: RealInput
    failed: bool
    rows_left_out: int


@dataclass(frozen=True)
class CoverageView:
    """The coverage as a table: rows are protocol points, columns are fault kinds."""

    kinds: tuple[str, ...]
    rows: tuple[tuple[str, tuple[CoverageCell | None, ...]], ...]
    never: tuple[str, ...]
    pairs: int
    required: bool


@dataclass(frozen=True)
class CostView:
    """A cost with its chart."""

    cost: Distribution
    text: str
    chart: Markup


@dataclass(frozen=True)
class DriversView:
    """The drivers of a cost, with a chart if the model predicts well enough."""

    drivers: Drivers
    chart: Markup | None


@dataclass(frozen=True)
class SensitivityView:
    """An experiment with the drivers of each cost."""

    sensitivity: Sensitivity
    costs: tuple[DriversView, ...]


@dataclass(frozen=True)
class Page:
    """The contents of the page."""

    report: Report
    headline: Headline
    tiles: tuple[Tile, ...]
    properties: tuple[str, ...]
    table: tuple[tuple[str, int, tuple[PropertyResult | None, ...]], ...]
    """(family, scenarios, results by property); None for a property that was not checked."""
    failures: tuple[FailureView, ...]
    failures_left_out: tuple[Failure, ...]
    example: Diagram | None
    lessons: tuple[Lesson, ...]
    reals: tuple[RealInputView, ...]
    coverage: CoverageView | None
    mutants: tuple[Mutant, ...]
    survivors: tuple[str, ...]
    costs: tuple[CostView, ...]
    sensitivity: tuple[SensitivityView, ...]
    nights: tuple[Night, ...]
    trend: Markup | None
    """None for a single night."""
    lines: tuple[Line, ...]
    comparison: tuple[ComparisonChart, ...]
    untested: tuple[str, ...]
    """What the run did not ask, each as a sentence."""
    seeds: tuple[tuple[str, str, tuple[str, ...]], ...]
    """(family, command with SEED in the place of a seed, seeds) of each family whose scenarios are listed."""
    scenario_anchors: dict[str, str]
    """By family, where the page lists its scenarios."""
    failure_anchors: dict[tuple[str, str], str]
    """By family and property, where the page shows the first failure; by family and "" the first at all."""


def failure_view(failure: Failure, position: int) -> FailureView:
    """Return a failure with its diagram; ``position`` is its number on the page."""
    has_trace = failure.trace is not None and (failure.trace.arrows or failure.trace.marks)
    different = [row for row in failure.rows if row.mark != "equal"]
    equal = [row for row in failure.rows if row.mark == "equal"]
    rows = [*different[:MOST_ROWS], *equal[: max(0, MOST_ROWS - len(different))]]
    return FailureView(
        number=position,
        failure=failure,
        diagram=draw(failure.trace, f"failure-{position}-diagram") if failure.trace and has_trace else None,
        rows=rows,
        rows_left_out=len(failure.rows) - len(rows),
        records_left_out=max(0, len(failure.records) - MOST_RECORDS),
        is_open=position <= MOST_OPEN,
        opens_at=int(step[1]) if (step := _STEP.match(failure.first_divergence)) else None,
    )


def ordered_failures(failures: Sequence[Failure]) -> list[Failure]:
    """Return the new failures before the known ones."""
    return sorted(failures, key=lambda failure: failure.known)


def family_table(
    report: Report,
) -> tuple[tuple[str, ...], tuple[tuple[str, int, tuple[PropertyResult | None, ...]], ...]]:
    """Return the properties in order of appearance, and a row for each family."""
    names: dict[str, None] = {}
    for family in report.families:
        for result in family.properties:
            # Systems differ in the properties that are asked there, so what none was asked has no column.
            if not report.comparison or result.passed or result.failed:
                names.setdefault(result.property)
    named = {(row.family, row.system): row.name for row in report.comparison}
    rows = []
    for family in report.families:
        checked = {result.property: result for result in family.properties if result.passed or result.failed}
        cells = tuple(checked.get(name) for name in names)
        name = named.get((family.family, family.system), subject_of(family))
        rows.append((name, family.scenarios, cells))
    return tuple(names), tuple(rows)


def failure_anchors(failures: Sequence[Failure]) -> dict[tuple[str, str], str]:
    """Return by family and property where the page shows the first failure that violates the property."""
    anchors: dict[tuple[str, str], str] = {}
    for place, failure in enumerate(failures, 1):
        subject, anchor = subject_of(failure), f"#failure-{place}-section"
        for name in (failure.property, ""):
            anchors.setdefault((subject, name), anchor)
    for place, failure in enumerate(failures, 1):
        for name in (*failure.also, *(each.property for each in failure.symptoms)):
            anchors.setdefault((subject_of(failure), name), f"#failure-{place}-section")
    return anchors


def coverage_view(coverage: Coverage) -> CoverageView:
    """Return the coverage as a table, with the points in the order of the protocol."""
    points: dict[str, None] = dict.fromkeys(coverage.points)
    kinds: dict[str, None] = {}
    cells: dict[tuple[str, str], CoverageCell] = {}
    for cell in coverage.cells:
        points.setdefault(cell.point)
        kinds.setdefault(cell.kind)
        cells[cell.point, cell.kind] = cell
    rows = [(point, tuple(cells.get((point, kind)) for kind in kinds)) for point in points]
    return CoverageView(
        kinds=tuple(kinds),
        rows=tuple(row for row in rows if any(row[1])),
        never=tuple(f"{cell.kind} at {cell.point}" for cell in coverage.cells if not cell.fired),
        pairs=len(cells),
        required=coverage.required,
    )


def campaign_tiles(report: Report) -> list[Tile]:
    """Return the figures about the generated scenarios."""
    tiles = []
    scenarios, failed = total_scenarios(report), failed_scenarios(report)
    if scenarios:
        note = f"{failed:,} failed" if failed else "none failed"
        status = "bad" if failed else "good"
        if failed and failed == known_scenarios(report):
            note, status = f"{note}, {'known' if failed == 1 else 'all known'}", "warn"
        tiles.append(Tile("scenarios", number(scenarios), note, status, "results"))
    if report.coverage and report.coverage.cells:
        pairs, never = len(report.coverage.cells), len(never_fired(report))
        status = "good" if not never else "bad" if report.coverage.required else "plain"
        note = f"{pairs - never} of {pairs} pairs of kind and point fired"
        tiles.append(Tile("faults fired", number(fired_faults(report)), note, status, "coverage"))
    return tiles


def tiles_of(report: Report) -> tuple[Tile, ...]:
    """Return the figures at the top of the page."""
    tiles = campaign_tiles(report)
    for index, real in enumerate(report.real_inputs, 1):
        failed = real_input_failed(real)
        note = f"{counted(len(real.kills), 'kill')}: {'differs' if failed else 'equal to the row'}"
        status = "bad" if failed else "good"
        tiles.append(Tile(f"{real.name}: records", number(real.records), note, status, f"real-{index}"))
    if report.mutants:
        alive = len(survivors(report))
        value = f"{len(report.mutants) - alive} of {len(report.mutants)}"
        note = f"{alive} survived" if alive else "none survived"
        tiles.append(Tile("planted bugs caught", value, note, "warn" if alive else "good", "mutants"))
    if report.facts.seconds:
        speed = total_scenarios(report) / report.facts.seconds
        note = f"{number(float(round(speed)))} scenarios per second" if speed >= 1 else "in total"
        if report.facts.night_seconds:
            note = f"{duration(report.facts.seconds)} of it the campaign"
        took = report.facts.night_seconds or report.facts.seconds
        tiles.append(Tile("took", duration(took), note, "plain", "facts"))
    return tuple(tiles)


def sensitivity_view(sensitivity: Sensitivity, position: int) -> SensitivityView:
    """Return an experiment with a chart per explained cost, the strongest influences first."""
    costs = []
    for index, drivers in enumerate(sensitivity.drivers, 1):
        chart = None
        if drivers.is_explained and drivers.influences:
            ordered = sorted(drivers.influences, key=lambda one: -one.total)
            chart = influence_chart(ordered, f"sensitivity-{position}-{index}-chart", drivers.cost)
        costs.append(DriversView(drivers, chart))
    return SensitivityView(sensitivity, tuple(costs))


def arrange(report: Report) -> Page:
    """Return the contents of the page for a report."""
    properties, table = family_table(report)
    failures = ordered_failures(report.failures)
    example_lessons = lessons(report.example.trace) if report.example else ()
    nights = report.nights[-MOST_NIGHTS:]
    seeds = tuple(
        (subject_of(family), family.replay, tuple(map(str, family.seeds)))
        for family in report.families
        if family.seeds and family.replay
    )
    return Page(
        report=report,
        headline=conclude(report),
        tiles=tiles_of(report),
        properties=properties,
        table=table,
        failures=tuple(failure_view(one, index) for index, one in enumerate(failures[:MOST_FAILURES], 1)),
        failures_left_out=tuple(failures[MOST_FAILURES:]),
        example=draw(report.example.trace, "example-diagram", [lesson.callout for lesson in example_lessons])
        if report.example
        else None,
        lessons=example_lessons,
        reals=tuple(
            RealInputView(real, real_input_failed(real), max(0, len(real.differences) - MOST_ROWS))
            for real in report.real_inputs
        ),
        coverage=coverage_view(report.coverage) if report.coverage and report.coverage.cells else None,
        mutants=report.mutants,
        survivors=survivors(report),
        costs=tuple(
            CostView(cost, distribution_text(cost), distribution_chart(cost, f"cost-{index}-chart"))
            for index, cost in enumerate(report.costs, 1)
        ),
        sensitivity=tuple(sensitivity_view(one, index) for index, one in enumerate(report.sensitivity, 1)),
        nights=nights,
        trend=trend_chart(nights, "trend-chart") if len(nights) > 1 else None,
        lines=lines_of(nights, "trend-line"),
        comparison=comparison_charts(report.comparison, "comparison-chart") if report.comparison else (),
        untested=() if report.comparison else untested_texts(report),
        seeds=seeds,
        scenario_anchors={family: f"#scenarios-{place}" for place, (family, _, _) in enumerate(seeds, 1)},
        failure_anchors=failure_anchors(failures[:MOST_FAILURES]),
    )
