"""The pages of `onceproof serve`: the index with trend and search, and one replayed scenario.

The rules this module lives by:

- As in the report, templates escape all texts, and the policy of the page forbids every connection but those
  to the server itself, by which the form of the search sends what it asks.
- This module renders plain values. The harness finds and replays; `reports/render.py` renders reports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from onceproof.reports.diagram import Diagram, draw
from onceproof.reports.model import InputRecord, Night, RowDifference, Trace
from onceproof.reports.render import environment, link
from onceproof.reports.trend_charts import lines_of, trend_chart

MOST_NIGHTS = 400
DIAGRAM = "diagram"
LATEST = "latest"
NIGHTS_AND_RUNS = ("night or run", "nights and runs")


class RunEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A run or a night in the index."""

    key: str
    """Its folder below the root, with slashes."""
    title: str = ""
    started: str = ""
    status: str = "empty"
    word: str = ""
    scenarios: int = 0
    failed: int = 0
    families: int = 0
    seed: int | None = None
    engine_version: str = ""
    system: str = ""
    seconds: float = 0.0
    signatures: tuple[str, ...] = ()
    explained: str = ""
    """The failure that the folder explains, in a sentence; empty if it holds a run."""
    unreadable: str = ""
    """Why its report cannot be read; empty if it can."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario that a search has found."""

    run: str
    family: str
    seed: int | None
    passed: bool
    signature: str
    records: int
    attempts: int
    checkpoints: int
    steps: int
    faults: tuple[str, ...]
    situations: tuple[str, ...]


class ServedScenario(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario, replayed: what went in, what happened, what came out."""

    family: str
    seed: int
    passed: bool
    text: str
    """The scenario in a sentence."""
    sentence: str
    cause: str
    decisions: tuple[str, ...]
    """Its faults and requests, each a phrase."""
    replay: str
    note: str
    """How this replay compares with the run that is searched."""
    trace: Trace
    records: tuple[InputRecord, ...]
    columns: tuple[str, ...]
    rows: tuple[RowDifference, ...]
    story: tuple[str, ...]
    lines: tuple[tuple[int, str, str, str], ...]
    """Its steps: (step, task, verb, details)."""


def index_page(
    root: str, runs: Sequence[RunEntry], nights: Sequence[Night], span: tuple[str, str], unknown: str = ""
) -> str:
    """Return the index: all runs, and the trend over the nights of a span of days."""
    shown = nights[-MOST_NIGHTS:]
    return _render(
        "serve_index.html",
        root=root,
        runs=[run for run in runs if not run.explained],
        explanations=[run for run in runs if run.explained],
        nights=shown,
        left_out=len(nights) - len(shown),
        first=span[0],
        last=span[1],
        trend=trend_chart(shown, "trend-chart", LATEST) if len(shown) > 1 else None,
        lines=lines_of(shown, "trend-line", LATEST, NIGHTS_AND_RUNS),
        unknown=unknown,
    )


def search_page(
    asked: Mapping[str, str], hits: Sequence[Hit], matches: int, searched: int, complete: bool
) -> str:
    """Return the scenarios that a search has found."""
    return _render(
        "serve_search.html", asked=asked, hits=hits, matches=matches, searched=searched, complete=complete
    )


def scenario_page(scenario: ServedScenario, run: str) -> str:
    """Return a replayed scenario with its diagram."""
    diagram: Diagram | None = None
    if scenario.trace.arrows or scenario.trace.marks:
        diagram = draw(scenario.trace, DIAGRAM)
    return _render("serve_scenario.html", scenario=scenario, run=run, drawn=diagram)


def message_page(title: str, text: str) -> str:
    """Return a page with one message, such as that there is nothing at an address."""
    return _render("serve_message.html", title=title, text=text)


def _render(template: str, **content: object) -> str:
    return environment().get_template(template).render(link=link, **content)
