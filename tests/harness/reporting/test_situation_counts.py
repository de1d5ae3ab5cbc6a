"""Situations are asked for in a large simulated campaign with the families that can be in them."""

from __future__ import annotations

from collections import Counter

from onceproof.harness.checkers.coverage import CAMPAIGN
from onceproof.harness.checkers.situations import NAMES, RARE, SITUATIONS
from onceproof.harness.model.system import System, find_system
from onceproof.harness.reporting.report_builder import situation_counts
from onceproof.harness.trials.tally import FamilyTally, Tally
from onceproof.reports.model import SituationCount


def counts(system: str = "simulated", **families: FamilyTally) -> dict[str, SituationCount]:
    """Return the counts of a campaign by situation."""
    tally = Tally(scenarios=sum(family.scenarios for family in families.values()))
    tally.families.update(families)
    found: System = find_system(system)
    return {each.name: each for each in situation_counts(tally, found)}


def tallied(scenarios: int, **situations: int) -> FamilyTally:
    return FamilyTally(scenarios=scenarios, situations=Counter(situations))


def test_large_campaign_is_asked_for_what_it_draws() -> None:
    rows = counts(word_count=tallied(CAMPAIGN, restored=CAMPAIGN // RARE - 1))
    assert tuple(rows) == NAMES
    assert rows["restored"].required
    assert rows["restored"].rare
    assert (rows["rescaled up"].required, rows["rescaled up"].rare) == (True, False)
    for name, row in rows.items():
        [situation] = [each for each in SITUATIONS if each.name == name]
        assert row.required == (situation.drawn and situation.family == "word_count")


def test_small_campaign_and_one_of_other_families_are_not_asked() -> None:
    small = counts(word_count=tallied(CAMPAIGN - 1))
    other = counts(page_views=tallied(CAMPAIGN))
    assert not any(row.required or row.rare for row in (*small.values(), *other.values()))


def test_row_names_the_family_that_was_in_it_most_often() -> None:
    rows = counts(word_count=tallied(9, restored=1), page_views=tallied(9, restored=2))
    assert (rows["restored"].scenarios, rows["restored"].family) == (3, "page_views")
    assert (rows["rescaled up"].scenarios, rows["rescaled up"].family) == (0, "word_count")


def test_system_whose_checkpoints_are_not_seen_has_no_situations() -> None:
    assert counts("command", word_count=tallied(CAMPAIGN)) == {}
