"""Notes: one list for each kind, with an item for each family and what it concerns."""

from __future__ import annotations

import pytest

from onceproof.reports.model import FamilyResult, Report
from onceproof.reports.notes import notes_of
from onceproof.reports.render import render


def test_families_with_a_note_of_one_kind_share_a_list() -> None:
    families = [FamilyResult(f"family-{place}", 50, timers_only_at_end=place) for place in range(7)]
    [note] = notes_of(Report(families=tuple(families)))
    assert note.items[:2] == ("family-1: 1 timer", "family-2: 2 timers")
    assert len(note.items) == 6
    line = str(note)
    assert line.startswith("note: Event-time timers that fired only at the end of the input")
    assert line.endswith("; and 2 more (let timestamps span more than the timers wait for)")


@pytest.mark.parametrize(
    ("name", "item"),
    [
        ("expiry/seen/60000", "sales: the TTL of 'seen' (60 s) expired in 0 of 150 scenarios"),
        ("expiry/a/b/86400000", "sales: the TTL of 'a/b' (24 h) expired in 0 of 150 scenarios"),
        ("expiry/seen/1", "sales: the TTL of 'seen' (1 ms) expired in 0 of 150 scenarios"),
        ("timer/totals", "sales: a timer of totals fired in 0 of 150 scenarios"),
        ("rows", "sales: a row became visible in 0 of 150 scenarios"),
        ("rows/late", "sales: a row of sink late became visible in 0 of 150 scenarios"),
        ("read/seen", "sales: restored entries of state 'seen' were read in 0 of 150 scenarios"),
        ("kill", "sales: a kill came between in 0 of 150 scenarios"),
    ],
)
def test_what_never_happened_is_said_with_its_scenarios(name: str, item: str) -> None:
    [note] = notes_of(Report(families=(FamilyResult("sales", 200, never={name: 150}),)))
    assert note.items == (item,)
    assert note.remedy


def test_modified_values_and_what_never_happened_are_notes_of_two_kinds() -> None:
    family = FamilyResult("sales", 50, notes={"operator 'pairs' modified a list": 3}, never={"rows": 50})
    changed, rows = notes_of(Report(families=(family,)))
    assert changed.items == ("sales: operator 'pairs' modified a list, in 3 scenarios",)
    assert rows.title == "Sinks without a row"


def test_report_without_families_has_no_notes() -> None:
    assert notes_of(Report()) == ()


def test_page_shows_a_list_for_each_kind() -> None:
    families = (FamilyResult("sales", 50, never={"rows": 50}), FamilyResult("visits", 50, never={"rows": 50}))
    page = render(Report(families=families))
    assert page.count("Sinks without a row") == 1
    for name in ("sales", "visits"):
        assert f"{name}: a row became visible in 0 of 50 scenarios" in page
