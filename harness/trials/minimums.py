"""What a night must have run at the least: scenarios of each family, kills in the scenarios of each property.

Rules:

- A property is asked in all scenarios of a family, or in those of the seed's choice. What counts is how many
  kills struck in those scenarios: a scenario without one asks little.
- How much is missing follows from the tally alone, never from the time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from onceproof.harness.checkers import CONTINUATIONS, properties_asked_of
from onceproof.harness.checkers.conformance import Conformance
from onceproof.harness.checkers.determinism import PROPERTY as DETERMINISM
from onceproof.harness.checkers.exactly_once import ExactlyOnce
from onceproof.harness.checkers.mode import Mode
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.family import options_of
from onceproof.harness.trials.runner import RunResult
from onceproof.harness.trials.tally import FamilyTally
from onceproof.reports.headline import first_names
from onceproof.reports.text import counted, words

SCENARIOS: Final = 100
"""Twice what a report asks of a family. One scenario in 64 is run twice, so that of this many one is in 4 of
5 families; a property that under half of the families were asked makes a night a sample, too."""

KILLS: Final = 20


class Asked(NamedTuple):
    """The scenarios in which a property was asked."""

    scenarios: int
    kills: int
    """How many kills struck in them."""


class Minimums(msgspec.Struct, frozen=True):
    """The least that a campaign runs."""

    scenarios: int = 0
    """Of each family."""
    kills: int = 0
    """In the scenarios in which a property was asked, over all families."""
    limit_seconds: float = 0.0
    """For how long a campaign goes on to reach them, in all."""

    def owed(self, result: RunResult) -> int:
        """Return about how many scenarios are missing, over all families; 0 if none is."""
        had = [family.scenarios for _, family in _families(result)]
        # The families take turns: what one of them lacks is run of all.
        missing = len(had) * max(self.scenarios - min(had, default=0), 0)
        if any(kills < self.kills for kills in _kills(result).values()):
            # As many again: how many it takes is known when they have run.
            missing = max(missing, sum(had), len(had))
        return missing

    def shortfalls(self, result: RunResult) -> tuple[str, ...]:
        """Return what is missing, each as a text such as `1 family had under 9 scenarios: tickets 7`."""
        had = {name: family.scenarios for name, family in _families(result)}
        texts = (
            _shortfall(had, self.scenarios, "family", "families", "scenarios"),
            _shortfall(_kills(result), self.kills, "property", "properties", "kills"),
        )
        return tuple([text for text in texts if text])


def _shortfall(had: Mapping[str, int], least: int, one: str, several: str, what: str) -> str:
    """Return which of some things had less than the least; "" if none had."""
    few = sorted((number, name) for name, number in had.items() if number < least)
    if not few:
        return ""
    names = first_names(tuple(f"{name} {number:,}" for number, name in few), 3)
    return f"{counted(len(few), one, several)} had under {least:,} {what}: {names}"


def properties_asked(result: RunResult, name: str) -> Mapping[str, Asked]:
    """Return by property in how many scenarios of a family it was asked, and under how many kills."""
    capabilities = result.system.capabilities
    family = result.tally.families.get(name, FamilyTally())
    often = Asked(family.scenarios, family.kills)
    seldom = Asked(family.at_least_once, family.kills_at_least_once)
    asked = dict.fromkeys(properties_asked_of(capabilities), often)
    asked[ExactlyOnce.property] = Asked(often.scenarios - seldom.scenarios, often.kills - seldom.kills)
    asked[Mode.property] = seldom
    if not seldom.scenarios and options_of(result.family(name)).at_least_once is None:
        # The family is never run in that mode.
        del asked[Mode.property]
    if Capability.MACHINES_SEEN in capabilities:
        asked[Conformance.property] = Asked(family.machines_replayed, family.kills_of_replayed)
    if Capability.CONTINUATIONS in capabilities:
        asked |= dict.fromkeys(CONTINUATIONS, Asked(family.continued, family.kills_continued))
    if Capability.DETERMINISM in capabilities:
        asked[DETERMINISM] = Asked(family.checked_twice, family.kills_checked_twice)
    return asked


def _families(result: RunResult) -> Iterator[tuple[str, FamilyTally]]:
    for family in result.families:
        yield family.name, result.tally.families.get(family.name, FamilyTally())


def _kills(result: RunResult) -> Mapping[str, int]:
    """Return by property, in words, under how many kills it was asked."""
    kills: defaultdict[str, int] = defaultdict(int)
    for family in result.families:
        for name, asked in properties_asked(result, family.name).items():
            kills[words(name)] += asked.kills
    return kills
