"""Which situations the scenarios of a run were in, for its report.

A campaign is asked for a situation only if it is drawn often, and the family that shows it best is among its
families: a job that has no transactions is never in one of theirs. A real process is killed where its steps
allow, so only the simulation is asked.
"""

from __future__ import annotations

from functools import partial

from onceproof.harness.checkers.coverage import CAMPAIGN
from onceproof.harness.checkers.situations import RARE, SITUATIONS
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.system import System
from onceproof.harness.trials.tally import Tally
from onceproof.reports.model import SituationCount


def situation_counts(tally: Tally, system: System) -> tuple[SituationCount, ...]:
    """Return each situation with its scenarios; none for a system whose checkpoints are not seen."""
    if Capability.CHECKPOINTS_SEEN not in system.capabilities:
        return ()
    is_large = tally.scenarios >= CAMPAIGN and Capability.DETERMINISM in system.capabilities
    totals = tally.situations()
    counts = []
    for situation in SITUATIONS:
        scenarios = totals[situation.name]
        asked = is_large and situation.drawn and situation.family in tally.families
        # The first of those that were in it equally often.
        most = max(tally.families, key=partial(_scenarios_of, tally, situation.name), default="")
        counts.append(
            SituationCount(
                situation.name,
                situation.purpose,
                scenarios,
                most if scenarios else situation.family,
                required=asked,
                rare=asked and 0 < scenarios * RARE < tally.scenarios,
            )
        )
    return tuple(counts)


def _scenarios_of(tally: Tally, situation: str, family: str) -> int:
    return tally.families[family].situations[situation]
